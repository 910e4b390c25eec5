package controller

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/security/sasl"
)

func scramUpsertion(user string, mechanism int8, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = user, mechanism, iterations, []byte("salt"), []byte("salted")
	return u
}

func TestAlterUserScramCredentials(t *testing.T) {
	s := newStage()
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	delete := func(user string, mechanism int8) {
		d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
		d.Name, d.Mechanism = user, mechanism
		req.Deletions = append(req.Deletions, d)
	}
	alter := func(want map[string]int16) []metadata.Record {
		t.Helper()
		records, resp, err := s.view().decide(req)
		must(t, err)
		results := resp.(*kmsg.AlterUserSCRAMCredentialsResponse).Results
		if len(results) != len(want) {
			t.Errorf("%+v", results)
		}
		for _, r := range results {
			if code, asked := want[r.User]; !asked || code != r.ErrorCode || (code == 0) != (r.ErrorMessage == nil) {
				t.Errorf("%+v", r)
			}
		}
		im, _, err := s.image.Apply(records, s.image.Offset()+1, 1)
		must(t, err)
		s.image = im
		*req = *kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		return records
	}
	delete("absent", 1)
	delete("twice", 1)
	delete("odd", 7)
	req.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{
		scramUpsertion("ann", 1, 4096), scramUpsertion("bob", 2, 16384), scramUpsertion("few", 1, 4095), scramUpsertion("many", 1, 16385),
		scramUpsertion("both", 1, 5000), scramUpsertion("both", 2, 5000), scramUpsertion("", 1, 5000), scramUpsertion("unknown", 0, 5000), scramUpsertion("twice", 1, 5000),
	}
	records := alter(map[string]int16{"absent": 91, "twice": 91, "odd": 33, "ann": 0, "bob": 0, "few": 93, "many": 93, "both": 92, "": 93, "unknown": 33})
	stored, server := sasl.SHA256.Keys([]byte("salted"))
	if c := s.image.ScramCredential("ann", 1); len(records) != 2 || c == nil || !bytes.Equal(c.StoredKey, stored) || !bytes.Equal(c.ServerKey, server) || c.Iterations != 4096 {
		t.Errorf("%d records, %+v", len(records), c)
	}
	delete("ann", 1)
	delete("bob", 1)
	alter(map[string]int16{"ann": 0, "bob": 91})
	delete("bob", 2)
	req.Upsertions = append(req.Upsertions, scramUpsertion("bob", 1, 4096))
	alter(map[string]int16{"bob": 92})
	if s.image.ScramCredential("ann", 1) != nil || s.image.ScramCredential("bob", 2) == nil || s.image.ScramCredential("bob", 1) != nil {
		t.Error("the image does not have what was decided")
	}
}
