package kafka

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
)

// TLSBroker is a broker of ours with a listener for TLS beside its plain one.
type TLSBroker struct {
	*Broker
	SSLAddr string
	PKI     string // the directory with ca.pem, node.pem, other.pem of the same node, and client.pem
}

// StartTLS starts one. Clients must show a certificate.
func StartTLS(ctx context.Context, opts Options) (*TLSBroker, error) {
	bin, err := GreteBin()
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	pki := filepath.Join(opts.Dir, "pki")
	for _, args := range [][]string{{"--node", "node", "--client", "client"}, {"--node", "other"}} {
		if out, err := exec.Command(bin, append([]string{"certs", pki}, args...)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("grete certs: %w: %s", err, out)
		}
	}
	ssl := fmt.Sprint("127.0.0.1:", ports[1])
	properties := map[string]string{
		"listeners":         fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,SSL://%s", ports[0], ssl),
		"ssl.keystore.type": "PEM", "ssl.keystore.location": filepath.Join(pki, "node.pem"),
		"ssl.truststore.type": "PEM", "ssl.truststore.location": filepath.Join(pki, "ca.pem"), "ssl.client.auth": "required",
	}
	maps.Copy(properties, opts.Properties)
	opts.Properties, opts.Port = properties, ports[0]
	b, err := StartGrete(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &TLSBroker{b, ssl, pki}, nil
}
