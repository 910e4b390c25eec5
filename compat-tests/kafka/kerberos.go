package kafka

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
)

// KerberosBroker is a broker of ours with a KDC, whose listeners all authenticate by GSSAPI, one of them over TLS.
// There is a user ann.
type KerberosBroker struct {
	*Broker
	KDC        *KDC
	ByProtocol map[string]string // addresses of SASL_PLAINTEXT and SASL_SSL
	CA         string            // PEM file
	Keytab     string            // ann's
}

// StartKerberos starts one.
func StartKerberos(ctx context.Context, opts Options) (*KerberosBroker, error) {
	bin, err := GreteBin()
	if err != nil {
		return nil, err
	}
	kdc, err := StartKDC(ctx, filepath.Join(opts.Dir, "kdc"))
	if err != nil {
		return nil, err
	}
	k := &KerberosBroker{KDC: kdc}
	if err := k.start(ctx, bin, opts); err != nil {
		kdc.Stop()
		return nil, err
	}
	return k, nil
}

func (k *KerberosBroker) start(ctx context.Context, bin string, opts Options) error {
	ports, err := FreePorts(2)
	if err != nil {
		return err
	}
	pki := filepath.Join(opts.Dir, "pki")
	if out, err := exec.Command(bin, "certs", pki, "--node", "node").CombinedOutput(); err != nil {
		return fmt.Errorf("grete certs: %w: %s", err, out)
	}
	service, err := k.KDC.Keytab("service", "kafka/localhost")
	if err != nil {
		return err
	}
	if k.Keytab, err = k.KDC.Keytab("ann", "ann"); err != nil {
		return err
	}
	k.CA = filepath.Join(pki, "ca.pem")
	k.ByProtocol = map[string]string{"SASL_PLAINTEXT": fmt.Sprint("localhost:", ports[0]), "SASL_SSL": fmt.Sprint("localhost:", ports[1])}
	properties := map[string]string{
		"listeners":         fmt.Sprintf("SASL_PLAINTEXT://%s,SASL_SSL://%s", k.ByProtocol["SASL_PLAINTEXT"], k.ByProtocol["SASL_SSL"]),
		"ssl.keystore.type": "PEM", "ssl.keystore.location": filepath.Join(pki, "node.pem"),
		"java.security.krb5.conf": k.KDC.Conf, "sasl.kerberos.service.name": "kafka", "connections.max.reauth.ms": "10000",
	}
	for protocol := range k.ByProtocol {
		properties[jaasOf(protocol)] = Krb5Login(service, "kafka/localhost")
	}
	maps.Copy(properties, opts.Properties)
	opts.Properties, opts.Port, opts.Host = properties, ports[0], "localhost"
	k.Broker, err = StartGrete(ctx, opts)
	return err
}

// jaasOf is the property with the login by GSSAPI of a listener.
func jaasOf(listener string) string {
	return "listener.name." + strings.ToLower(listener) + ".gssapi.sasl.jaas.config"
}

// Stop ends the broker and the KDC.
func (k *KerberosBroker) Stop() error {
	defer k.KDC.Stop()
	return k.Broker.Stop()
}
