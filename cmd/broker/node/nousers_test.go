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
