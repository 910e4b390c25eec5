package kafka

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
)

// SASLBroker is a broker of ours whose listeners all authenticate by SASL, one of them over TLS. User admin has
// password admin-secret by every mechanism.
type SASLBroker struct {
	*Broker
	ByProtocol map[string]string // addresses of SASL_PLAINTEXT and SASL_SSL
	CA         string            // PEM file
}

// SASLMechanisms are those of a SASLBroker.
var SASLMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

// StartSASL starts one.
func StartSASL(ctx context.Context, opts Options) (*SASLBroker, error) {
	bin, err := GreteBin()
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	pki := filepath.Join(opts.Dir, "pki")
	if out, err := exec.Command(bin, "certs", pki, "--node", "node").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("grete certs: %w: %s", err, out)
	}
	at := map[string]string{"SASL_PLAINTEXT": fmt.Sprint("127.0.0.1:", ports[0]), "SASL_SSL": fmt.Sprint("127.0.0.1:", ports[1])}
	const jaas = `org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin-secret";`
	properties := map[string]string{
		"listeners":         fmt.Sprintf("SASL_PLAINTEXT://%s,SASL_SSL://%s", at["SASL_PLAINTEXT"], at["SASL_SSL"]),
		"ssl.keystore.type": "PEM", "ssl.keystore.location": filepath.Join(pki, "node.pem"),
		"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "sasl.bootstrap.users": "admin:admin-secret",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas, "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
		"connections.max.reauth.ms": "10000",
	}
	maps.Copy(properties, opts.Properties)
	opts.Properties, opts.Port = properties, ports[0]
	b, err := StartGrete(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &SASLBroker{b, at, filepath.Join(pki, "ca.pem")}, nil
}
