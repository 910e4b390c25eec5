package handlers

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// Each user is told once: what there is, that there is none, or that it was named twice. Salts and keys are not in the
// answer at all.
func TestDescribeUserScramCredentials(t *testing.T) {
	r := newRig(t)
	r.apply(
		&metadata.UserScramCredentialRecord{User: "ann", Mechanism: 2, Iterations: 5000, Salt: []byte("salt"), StoredKey: []byte("k"), ServerKey: []byte("k")},
		&metadata.UserScramCredentialRecord{User: "ann", Mechanism: 1, Iterations: 4096, Salt: []byte("salt"), StoredKey: []byte("k"), ServerKey: []byte("k")},
		&metadata.UserScramCredentialRecord{User: "bob", Mechanism: 1, Iterations: 4097, Salt: []byte("salt"), StoredKey: []byte("k"), ServerKey: []byte("k")},
	)
	w := r.dial()
	all := call[*kmsg.DescribeUserSCRAMCredentialsResponse](w, 0, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest())
	if all.ErrorCode != 0 || len(all.Results) != 2 || len(all.Results[0].CredentialInfos) != 2 || len(all.Results[1].CredentialInfos) != 1 {
		t.Errorf("%+v", all)
	}
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, name := range []string{"bob", "nobody", "ann", "ann"} {
		user := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		user.Name = name
		req.Users = append(req.Users, user)
	}
	some := call[*kmsg.DescribeUserSCRAMCredentialsResponse](w, 0, req)
	want := []struct {
		user string
		code int16
	}{{"bob", 0}, {"nobody", 91}, {"ann", 92}}
	if len(some.Results) != len(want) {
		t.Fatalf("%+v", some)
	}
	for i, result := range some.Results {
		if result.User != want[i].user || result.ErrorCode != want[i].code || (*result.ErrorMessage == "") != (want[i].code == 0) {
			t.Errorf("%+v", result)
		}
	}
	if info := some.Results[0].CredentialInfos; len(info) != 1 || info[0].Mechanism != 1 || info[0].Iterations != 4097 {
		t.Errorf("%+v", info)
	}
}
