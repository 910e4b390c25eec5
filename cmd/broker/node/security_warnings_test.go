package node

import (
	"testing"

	"github.com/rs/zerolog"

	"grete/internal/vfs"
)

// What a secured listener lacks is told once at the start, with the property, the file or the host that it is about.
func TestWarningsOfTLS(t *testing.T) {
	const (
		key       = "ssl.keystore.type=PEM\nssl.keystore.location=/node.pem"
		trust     = "ssl.truststore.type=PEM\nssl.truststore.location=/ca.pem"
		elsewhere = "advertised.listeners=SSL://broker.example:9092"
		noTrust   = "every authority that the system trusts"
		noHost    = "does not name the host"
	)
	for _, tt := range []struct {
		properties []string
		days       int
		told       map[string]int
	}{
		{[]string{key}, 365, map[string]int{noTrust: 0, noHost: 0, "the certificate ": 0}},
		{[]string{key, trust, "ssl.client.auth=required"}, 365, map[string]int{noTrust: 0}},
		{[]string{key, "ssl.client.auth=required"}, 365, map[string]int{noTrust: 1}},
		{[]string{key, "listener.name.ssl.ssl.client.auth=requested"}, 365, map[string]int{noTrust: 1}},
		{[]string{key, elsewhere}, 365, map[string]int{noHost: 1, `"host":"broker.example"`: 1, `"names":["localhost","127.0.0.1"]`: 1}},
		{[]string{key, elsewhere, "ssl.endpoint.identification.algorithm="}, 365, map[string]int{noHost: 0}},
		{[]string{key}, 2, map[string]int{"the certificate expires on 20": 1, `"file":"/node.pem"`: 1, "has expired": 0}},
		{[]string{key}, 0, map[string]int{"the certificate has expired on 20": 1, `"file":"/node.pem"`: 1, "expires on": 0}},
	} {
		a, fs, log := newCA(t), vfs.NewMem(), &logBuffer{}
		a.put(fs, "/node.pem", "node", tt.days)
		write(t, fs, "/ca.pem", a.Certificate())
		o := options(t, fs, append([]string{"listeners=SSL://127.0.0.1:0"}, tt.properties...)...)
		o.Log = zerolog.New(log)
		stopNode(t, start(t, o))
		for text, want := range tt.told {
			if got := log.count(text); got != want {
				t.Errorf("%q: %q came %d times, want %d", tt.properties, text, got, want)
			}
		}
	}
}
