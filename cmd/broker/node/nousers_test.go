package node

import (
	"testing"

	"github.com/rs/zerolog"

	"grete/internal/vfs"
)

// A listener that nobody can log in at is told once at each start, and not once there is a user.
func TestNoUsersAreTold(t *testing.T) {
	const (
		scram  = "listeners=SASL_PLAINTEXT://127.0.0.1:0"
		sha256 = "sasl.enabled.mechanisms=SCRAM-SHA-256"
		jaas   = "listener.name.sasl_plaintext.plain.sasl.jaas.config="
	)
	for _, tt := range []struct {
		properties []string
		told       int
	}{
		{[]string{scram, sha256}, 1},
		{[]string{scram, sha256, "sasl.bootstrap.users=ann:x"}, 0},
		{[]string{scram, sha256, "sasl.bootstrap.users=SCRAM-SHA-512=[name=ann,password=x]"}, 1},
		{[]string{scram, "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256", jaas + saslUsers}, 0},
		{[]string{"sasl.enabled.mechanisms=SCRAM-SHA-256"}, 0},
	} {
		disk := vfs.NewMem()
		for range 2 {
			log := &logBuffer{}
			o := options(t, disk, tt.properties...)
			o.Log = zerolog.New(log)
			stopNode(t, start(t, o))
			if got := log.count("nobody can log in"); got != tt.told || tt.told > 0 && log.count("grete user add") != 1 {
				t.Errorf("%q: %d warnings, want %d", tt.properties, got, tt.told)
			}
		}
	}
}

// A node that has users for a cluster which began without them says that they were not made. One that made them does
// not.
func TestUnmadeUsersAreTold(t *testing.T) {
	disk := vfs.NewMem()
	const listener = "listeners=SASL_PLAINTEXT://127.0.0.1:0"
	for _, tt := range []struct {
		users string
		told  int
	}{{"ann:x", 0}, {"ann:x", 0}, {"ann:x;bob:y", 1}} {
		log := &logBuffer{}
		o := options(t, disk, listener, "sasl.enabled.mechanisms=SCRAM-SHA-256", "sasl.bootstrap.users="+tt.users)
		o.Log = zerolog.New(log)
		stopNode(t, start(t, o))
		if log.count(`"users":["bob"]`) != tt.told || log.count("sasl.bootstrap.users, which only") != tt.told {
			t.Errorf("%s: want %d warnings", tt.users, tt.told)
		}
	}
}
