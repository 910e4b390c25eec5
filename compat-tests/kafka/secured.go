package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Security has every listener of a cluster of ours authenticate over TLS, its gossip encrypted, and its authorizer
// allow nothing but what ACLs say: Admin alone is a super user, brokers are not.
type Security struct {
	Controllers string   // the security protocol of controller listeners: SSL or SASL_SSL
	Users       []string // beside Admin
	Sessions    int      // milliseconds; 0: they do not end
}

// Admin is the super user of a secured cluster.
const Admin = "admin"

// nodeUser is whom brokers log in as.
const nodeUser = "node"

// aKey is a gossip.key.
var aKey = base64.StdEncoding.EncodeToString([]byte("a key for the tests, 32 bytes so"))

// Access is how users get into a secured cluster.
type Access struct {
	PKI string // the directory with ca.pem, and each broker's node-<id>.pem
	TLS *tls.Config
}

// Password is a user's, by each mechanism.
func Password(user string) string { return user + "-secret" }

// Login is a user's by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
func Login(user, mechanism string) sasl.Mechanism {
	auth := scram.Auth{User: user, Pass: Password(user)}
	switch mechanism {
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism()
	}
	return plain.Auth{User: user, Pass: Password(user)}.AsMechanism()
}

// secure makes certificates and passwords for a cluster of that many brokers in dir, and the properties by which they
// count.
func (s *Security) secure(dir string, brokers int) (*Access, map[string]string, error) {
	pki := filepath.Join(dir, "pki")
	var args []string
	for id := range brokers {
		args = append(args, "--node", fmt.Sprint("node-", id+1))
	}
	if err := certificates(pki, args...); err != nil {
		return nil, nil, err
	}
	ca, err := os.ReadFile(filepath.Join(pki, "ca.pem"))
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		return nil, nil, errors.Join(err, errors.New("no authority"))
	}
	var users []string
	for _, u := range append([]string{Admin, nodeUser}, s.Users...) {
		users = append(users, u+":"+Password(u))
	}
	file := filepath.Join(dir, "users")
	if err := os.WriteFile(file, []byte(strings.Join(users, "\n")), 0o600); err != nil {
		return nil, nil, err
	}
	return &Access{PKI: pki, TLS: &tls.Config{RootCAs: pool, ServerName: loopback}}, map[string]string{
		"listener.security.protocol.map": "CLIENT:SASL_SSL,REPLICATION:SASL_SSL,CONTROLLER:" + s.Controllers,
		"ssl.keystore.type":              "PEM", "ssl.truststore.type": "PEM", "ssl.truststore.location": filepath.Join(pki, "ca.pem"),
		"listener.name.controller.ssl.client.auth": "required", "listener.name.replication.ssl.client.auth": "required",
		"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
		"sasl.mechanism.controller.protocol": "SCRAM-SHA-256", "sasl.node.username": nodeUser, "sasl.node.password": Password(nodeUser),
		"sasl.plain.users.file": file, "sasl.bootstrap.users": strings.Join(users, ";"), "connections.max.reauth.ms": fmt.Sprint(s.Sessions),
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:" + Admin,
		"gossip.key": aKey,
	}, nil
}
