package oracle

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	scram256 = int8(1)
	scram512 = int8(2)
)

func scramScenarios(l *list) {
	l.each(50, "scram/describe", scramDescribe)
	l.each(51, "scram/alter", scramAlter)
	l.each(51, "scram/alter errors", scramAlterErrors)
}

func describeScram(users ...string) *kmsg.DescribeUserSCRAMCredentialsRequest {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, user := range users {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = user
		req.Users = append(req.Users, u)
	}
	return req
}

func upsertion(user string, mechanism int8, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations = user, mechanism, iterations
	u.Salt, u.SaltedPassword = []byte("salt"), []byte("a salted password that is no hash")
	return u
}

func deletion(user string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
	d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	d.Name, d.Mechanism = user, mechanism
	return d
}

func alterScram(parts ...any) *kmsg.AlterUserSCRAMCredentialsRequest {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, p := range parts {
		switch p := p.(type) {
		case kmsg.AlterUserSCRAMCredentialsRequestUpsertion:
			req.Upsertions = append(req.Upsertions, p)
		case kmsg.AlterUserSCRAMCredentialsRequestDeletion:
			req.Deletions = append(req.Deletions, p)
		}
	}
	return req
}

// makeScramUsers sets credentials and waits until the broker knows of them.
func (s *Session) makeScramUsers(users ...kmsg.AlterUserSCRAMCredentialsRequestUpsertion) {
	var parts []any
	for _, u := range users {
		parts = append(parts, u)
	}
	for _, r := range s.setup(0, alterScram(parts...)).(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
		if r.ErrorCode != 0 {
			panic("set-up: a user's credential")
		}
	}
	for _, u := range users {
		s.await(func() bool {
			infos := s.setup(0, describeScram(u.Name)).(*kmsg.DescribeUserSCRAMCredentialsResponse).Results[0].CredentialInfos
			return slices.ContainsFunc(infos, func(i kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo) bool {
				return i.Mechanism == u.Mechanism
			})
		}, "the user")
	}
}

func scramDescribe(s *Session, v int16) {
	ann, ben, none := s.Name("ann"), s.Name("ben"), s.Name("none")
	s.makeScramUsers(upsertion(ann, scram256, 4096), upsertion(ben, scram512, 8192))
	s.makeScramUsers(upsertion(ann, scram512, 16384))
	c := s.Conn()
	c.Do(v, describeScram(ann, ben))
	c.Send(v, describeScram(none, ann)).Note("one unknown").Wait()
	c.Send(v, describeScram(ann, ann, none, none)).Note("twice").Wait()
	c.Send(v, describeScram("")).Note("without a name").Wait()
	all := func(note string, req *kmsg.DescribeUserSCRAMCredentialsRequest) {
		k := c.Send(v, req).Note(note)
		k.filter = s.ownUsers
		k.Wait()
	}
	all("all", describeScram())
	none0 := describeScram()
	none0.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{}
	all("an empty list", none0)
}

// ownUsers leaves out the users of other scenarios.
func (s *Session) ownUsers(tree any) any {
	if m, ok := tree.(map[string]any); ok {
		if list, ok := m["Results"].([]any); ok {
			m["Results"] = slices.DeleteFunc(list, func(e any) bool {
				user, _ := e.(map[string]any)["User"].(string)
				return user == "" || user[0] != '~'
			})
		}
	}
	return tree
}

func scramAlter(s *Session, v int16) {
	ann, ben := s.Name("ann"), s.Name("ben")
	c := s.Conn()
	see := func() { c.Do(0, describeScram(ann, ben)) }
	c.Do(v, alterScram(upsertion(ann, scram256, 4096), upsertion(ben, scram512, 16384)))
	propagate()
	see()
	c.Send(v, alterScram(upsertion(ann, scram256, 5000))).Note("again").Wait()
	c.Send(v, alterScram(deletion(ben, scram512))).Note("deletion").Wait()
	propagate()
	see()
	c.Send(v, alterScram(deletion(ben, scram512))).Note("deletion again").Wait()
	c.Send(v, alterScram(deletion(ann, scram512))).Note("deletion of the other mechanism").Wait()
	c.Send(v, alterScram(deletion(ann, scram256), upsertion(ben, scram256, 4097))).Note("both").Wait()
	propagate()
	see()
	c.Send(v, alterScram()).Note("nothing").Wait()
}

func scramAlterErrors(s *Session, v int16) {
	ann, ben := s.Name("ann"), s.Name("ben")
	s.makeScramUsers(upsertion(ann, scram256, 4096))
	c := s.Conn()
	try := func(note string, parts ...any) { c.Send(v, alterScram(parts...)).Note(note).Wait() }
	bent := func(change func(*kmsg.AlterUserSCRAMCredentialsRequestUpsertion)) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		u := upsertion(ben, scram256, 4096)
		change(&u)
		return u
	}
	type up = kmsg.AlterUserSCRAMCredentialsRequestUpsertion
	try("too few iterations", upsertion(ben, scram256, 4095))
	try("too few iterations of the other", upsertion(ben, scram512, 4095))
	try("too many iterations", upsertion(ben, scram256, 16385))
	try("negative iterations", upsertion(ben, scram256, -1))
	try("no name", upsertion("", scram256, 4096))
	try("no name to delete", deletion("", scram256))
	try("unknown mechanism", upsertion(ben, 0, 4096))
	try("impossible mechanism", upsertion(ben, 3, 4096))
	try("unknown mechanism to delete", deletion(ann, 0))
	try("impossible mechanism to delete", deletion(ann, 99))
	try("empty salt", bent(func(u *up) { u.Salt = nil }))
	try("empty password", bent(func(u *up) { u.SaltedPassword = nil }))
	try("twice", upsertion(ben, scram256, 4096), upsertion(ben, scram256, 8192))
	try("twice, two mechanisms", upsertion(ben, scram256, 4096), upsertion(ben, scram512, 4096))
	try("set and deleted", deletion(ann, scram256), upsertion(ann, scram256, 8192))
	try("twice, one bad", upsertion(ben, scram256, 1), upsertion(ben, scram256, 4096))
	try("twice, the other bad", upsertion(ben, scram256, 4096), upsertion(ben, scram256, 1))
	try("one good, one bad", upsertion(s.Name("cid"), scram256, 4096), upsertion(ben, scram256, 1), deletion(s.Name("none"), scram256))
	propagate()
	c.Do(0, describeScram(ann, ben, s.Name("cid")))
}
