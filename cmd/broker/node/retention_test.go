package node

import (
	"testing"

	"grete/cluster/controller"
	"grete/internal/vfs"
	"grete/logstore"
)

// Between the opening of the logs and the first metadata, which a lost quorum makes long, a topic that keeps everything
// must not be treated as the defaults would.
func TestNothingIsDeletedBeforeTheMetadataIsThere(t *testing.T) {
	n := start(t, options(t, vfs.NewMem(), "log.retention.ms=1000", "log.cleanup.policy=delete,compact"))
	if !n.logDefaults.Delete || !n.logDefaults.Compact || n.logDefaults.RetentionMs != 1000 {
		t.Fatalf("defaults %+v", n.logDefaults)
	}
	for _, id := range []logstore.ID{controller.LogID, {Topic: "kept"}} {
		if c := n.configBeforeMetadata(id); c.Delete || c.Compact {
			t.Errorf("%v: %+v", id, c)
		}
	}
}
