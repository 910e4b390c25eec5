package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// nobody is a directory id that no node has.
var nobody = [16]byte{1, 2, 3, 4, 5, 6, 0x40, 8, 0x80, 10}

// addVoters are refusals of a lone node, whose id is 1 (KIP-853); port 1 is nobody's.
func addVoters(s *Session, v int16) {
	c := s.Conn()
	send := func(note string, id int32, directory [16]byte, listener string, change func(*kmsg.AddRaftVoterRequest)) {
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.VoterID, req.VoterDirectoryID, req.TimeoutMillis = id, directory, 2000
		if listener != "" {
			req.Listeners = []kmsg.AddRaftVoterRequestListener{{Name: listener, Host: "127.0.0.1", Port: 1}}
		}
		if change != nil {
			change(req)
		}
		c.Send(v, req).Note(note).Wait()
	}
	const listener = "CONTROLLER"
	send("another cluster", 2, nobody, listener, func(r *kmsg.AddRaftVoterRequest) { r.ClusterID = kmsg.StringPtr("x") })
	send("the node itself", 1, nobody, listener, nil)
	send("a negative id", -1, nobody, listener, nil)
	send("no directory", 2, [16]byte{}, listener, nil)
	send("no listener", 2, nobody, "", nil)
	send("another listener", 2, nobody, "OTHER", nil)
	send("nobody there", 2, nobody, listener, nil)
}

func removeVoters(s *Session, v int16) {
	c := s.Conn()
	send := func(note string, id int32, directory [16]byte, cluster *string) {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.ClusterID, req.VoterID, req.VoterDirectoryID = cluster, id, directory
		c.Send(v, req).Note(note).Wait()
	}
	send("another cluster", 2, nobody, kmsg.StringPtr("x"))
	send("unknown", 2, nobody, nil)
	send("another directory", 1, nobody, nil)
	send("a negative id", -1, nobody, nil)
	send("no directory", 1, [16]byte{}, nil)
}

func unregisterControllers(s *Session, v int16) {
	c := s.Conn()
	for _, id := range []int32{1, 2, -1} {
		req := kmsg.NewPtrUnregisterControllerRequest()
		req.ControllerID = id
		c.Send(v, req).Note(fmt.Sprint(id)).Wait()
	}
}

// updateFeatures changes nothing: levels are what they are, cannot be, or are only tried.
func updateFeatures(s *Session, v int16) {
	c := s.Conn()
	const upgrade, safe = 1, 2
	send := func(note, feature string, level int16, kind int8, change func(*kmsg.UpdateFeaturesRequest)) {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = feature, level, kind, kind != upgrade
		req.FeatureUpdates, req.TimeoutMillis = append(req.FeatureUpdates, u), 5000
		if change != nil {
			change(req)
		}
		c.Send(v, req).Note(note).Wait()
	}
	send("as it is", "group.version", 1, upgrade, nil)
	send("kraft.version as it is", "kraft.version", 1, upgrade, nil)
	send("kraft.version down", "kraft.version", 0, safe, nil)
	send("kraft.version down by an upgrade", "kraft.version", 0, upgrade, nil)
	send("kraft.version too high", "kraft.version", 2, upgrade, nil)
	send("too high", "group.version", 9, upgrade, nil)
	send("negative", "group.version", -1, safe, nil)
	send("unknown", "no.such.version", 1, upgrade, nil)
	send("metadata.version down", "metadata.version", 32, safe, nil)
	send("two, one of them bad", "group.version", 1, upgrade, func(r *kmsg.UpdateFeaturesRequest) {
		u := r.FeatureUpdates[0]
		u.Feature, u.MaxVersionLevel = "transaction.version", 99
		r.FeatureUpdates = append(r.FeatureUpdates, u)
	})
	send("none", "", 0, upgrade, func(r *kmsg.UpdateFeaturesRequest) { r.FeatureUpdates = nil })
	if v > 0 {
		send("only tried", "group.version", 0, safe, func(r *kmsg.UpdateFeaturesRequest) { r.ValidateOnly = true })
		send("an unknown kind", "group.version", 1, 9, nil)
	}
}
