package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/security/sasl"
)

const twiceInOneRequest = "A user credential cannot be altered twice in the same request"

// scramChange is what a request asks for one user.
type scramChange struct {
	record metadata.Record
	fault  *fault
}

// alterScram is ScramControlManager.alterCredentials: each user stands alone, and one that comes twice changes in
// nothing.
func (v *view) alterScram(req *kmsg.AlterUserSCRAMCredentialsRequest) ([]metadata.Record, *kmsg.AlterUserSCRAMCredentialsResponse) {
	changes := map[string]scramChange{}
	var users []string
	add := func(user string, change scramChange) {
		if earlier, twice := changes[user]; !twice {
			users = append(users, user)
		} else if earlier.fault == nil {
			change = scramChange{fault: refuse(kerr.DuplicateResource, twiceInOneRequest)}
		} else {
			change = earlier
		}
		changes[user] = change
	}
	for _, d := range req.Deletions {
		add(d.Name, v.deleteScram(d))
	}
	for _, u := range req.Upsertions {
		add(u.Name, upsertScram(u))
	}
	resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	var records []metadata.Record
	for _, user := range users {
		r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		r.User = user
		r.ErrorCode, r.ErrorMessage = changes[user].fault.fields()
		resp.Results = append(resp.Results, r)
		if record := changes[user].record; record != nil {
			records = append(records, record)
		}
	}
	if f := tooLarge(records); f != nil {
		for i := range resp.Results {
			resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = f.fields()
		}
		return nil, resp
	}
	return records, resp
}

func checkScram(user string, mechanism int8) *fault {
	switch {
	case user == "":
		return refuse(kerr.UnacceptableCredential, "Username must not be empty")
	case mechanism != int8(sasl.SHA256) && mechanism != int8(sasl.SHA512):
		return refuse(kerr.UnsupportedSaslMechanism, "Unknown SCRAM mechanism")
	}
	return nil
}

func (v *view) deleteScram(d kmsg.AlterUserSCRAMCredentialsRequestDeletion) scramChange {
	if f := checkScram(d.Name, d.Mechanism); f != nil {
		return scramChange{fault: f}
	}
	if v.image.ScramCredential(d.Name, d.Mechanism) == nil {
		return scramChange{fault: refuse(kerr.ResourceNotFound, "Attempt to delete a user credential that does not exist")}
	}
	return scramChange{record: &metadata.RemoveUserScramCredentialRecord{User: d.Name, Mechanism: d.Mechanism}}
}

func upsertScram(u kmsg.AlterUserSCRAMCredentialsRequestUpsertion) scramChange {
	f := checkScram(u.Name, u.Mechanism)
	switch {
	case f != nil:
	case u.Iterations < sasl.MinIterations:
		f = refuse(kerr.UnacceptableCredential, "Too few iterations")
	case u.Iterations > sasl.MaxIterations:
		f = refuse(kerr.UnacceptableCredential, "Too many iterations")
	case len(u.SaltedPassword) == 0:
		f = standard(kerr.UnknownServerError)
	}
	if f != nil {
		return scramChange{fault: f}
	}
	stored, server := sasl.Hash(u.Mechanism).Keys(u.SaltedPassword)
	return scramChange{record: &metadata.UserScramCredentialRecord{
		User: u.Name, Mechanism: u.Mechanism, Salt: append([]byte{}, u.Salt...), StoredKey: stored, ServerKey: server, Iterations: u.Iterations,
	}}
}
