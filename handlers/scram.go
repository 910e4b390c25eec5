package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/security/sasl"
	"grete/protocol"
)

// AlterUserScramCredentials has the controller change credentials. When it does not answer, each user is told so.
func AlterUserScramCredentials(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.AlterUserSCRAMCredentialsRequest)
	resp, err := b.change(ctx, r, req)
	if err != nil {
		failed := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
		told := map[string]bool{}
		tell := func(user string) {
			if !told[user] {
				result := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
				result.User, result.ErrorCode = user, codeOf(err)
				failed.Results = append(failed.Results, result)
				told[user] = true
			}
		}
		for i := range req.Deletions {
			tell(req.Deletions[i].Name)
		}
		for i := range req.Upsertions {
			tell(req.Upsertions[i].Name)
		}
		resp = failed
	}
	r.Respond(resp)
}

// DescribeUserScramCredentials tells mechanisms and iterations of users, never salts or keys: of those that are named,
// or of all.
func DescribeUserScramCredentials(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	resp.ErrorMessage = kmsg.StringPtr("") // as Kafka, here and of each user that there is
	if len(req.Users) == 0 {
		resp.Results = b.allScramUsers()
		r.Respond(resp)
		return
	}
	times := map[string]int{}
	for _, u := range req.Users {
		times[u.Name]++
	}
	for _, u := range req.Users {
		switch times[u.Name] {
		case 0: // is answered
		case 1:
			resp.Results = append(resp.Results, b.scramUser(u.Name))
		default:
			result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			result.User, result.ErrorCode = u.Name, kerr.DuplicateResource.Code
			result.ErrorMessage = kmsg.StringPtr("Cannot describe SCRAM credentials for the same user twice in a single request: " + u.Name)
			resp.Results = append(resp.Results, result)
		}
		times[u.Name] = 0
	}
	r.Respond(resp)
}

func (b *Broker) allScramUsers() (out []kmsg.DescribeUserSCRAMCredentialsResponseResult) {
	for c := range b.Image().ScramCredentials() {
		if n := len(out); n == 0 || out[n-1].User != c.User {
			out = append(out, b.scramUser(c.User))
		}
	}
	return out
}

func (b *Broker) scramUser(name string) kmsg.DescribeUserSCRAMCredentialsResponseResult {
	result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
	result.User, result.ErrorMessage = name, kmsg.StringPtr("")
	for _, h := range []sasl.Hash{sasl.SHA256, sasl.SHA512} {
		if c := b.Image().ScramCredential(name, int8(h)); c != nil {
			info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
			info.Mechanism, info.Iterations = c.Mechanism, c.Iterations
			result.CredentialInfos = append(result.CredentialInfos, info)
		}
	}
	if len(result.CredentialInfos) == 0 {
		result.ErrorCode = kerr.ResourceNotFound.Code
		result.ErrorMessage = kmsg.StringPtr("Attempt to describe a user credential that does not exist: " + name)
	}
	return result
}
