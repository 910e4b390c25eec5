package kafka

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// SASLBroker is a broker of ours whose listeners all authenticate: by SASL, plain and over TLS, and by certificates.
// Its users have their Password by every mechanism; Admin is a super user, and Ann has the rights that ACLs give her. A
// certificate's common name is a user's, too.
type SASLBroker struct {
	*Broker
	ByProtocol map[string]string // addresses of SASL_PLAINTEXT and SASL_SSL
	SSLAddr    string
	PKI        string // the directory with ca.pem, and ann.pem; beside it is other, of another authority
	CA         string // PEM file

	issuer ed25519.PrivateKey
}

// Ann is a user without rights of her own.
const Ann = "ann"

// SASLMechanisms are those of a SASLBroker that need a password; OAUTHBEARER takes a Token.
var SASLMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

// StartSASL starts one.
func StartSASL(ctx context.Context, opts Options) (*SASLBroker, error) {
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	pki := filepath.Join(opts.Dir, "pki")
	if err := errors.Join(certificates(pki, "--node", "node", "--client", Ann), certificates(filepath.Join(opts.Dir, "other"), "--client", Ann)); err != nil {
		return nil, err
	}
	at := map[string]string{"SASL_PLAINTEXT": fmt.Sprint("127.0.0.1:", ports[0]), "SASL_SSL": fmt.Sprint("127.0.0.1:", ports[1])}
	b := &SASLBroker{ByProtocol: at, SSLAddr: fmt.Sprint("127.0.0.1:", ports[2]), PKI: pki, CA: filepath.Join(pki, "ca.pem")}
	keys := filepath.Join(opts.Dir, "keys.json")
	if err := b.newIssuer(keys); err != nil {
		return nil, err
	}
	var users, jaas []string
	for _, u := range []string{Admin, Ann} {
		users, jaas = append(users, u+":"+Password(u)), append(jaas, fmt.Sprintf("user_%s=%q", u, Password(u)))
	}
	login := "org.apache.kafka.common.security.plain.PlainLoginModule required " + strings.Join(jaas, " ") + ";"
	properties := map[string]string{
		"listeners":         fmt.Sprintf("SASL_PLAINTEXT://%s,SASL_SSL://%s,SSL://%s", at["SASL_PLAINTEXT"], at["SASL_SSL"], b.SSLAddr),
		"ssl.keystore.type": "PEM", "ssl.keystore.location": filepath.Join(pki, "node.pem"), "ssl.truststore.type": "PEM", "ssl.truststore.location": b.CA,
		"listener.name.ssl.ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
		"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER", "sasl.bootstrap.users": strings.Join(users, ";"),
		"listener.name.sasl_plaintext.plain.sasl.jaas.config": login, "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
		"sasl.oauthbearer.jwks.endpoint.url": "file://" + keys, "org.apache.kafka.sasl.oauthbearer.allowed.urls": "file://" + keys,
		"sasl.oauthbearer.expected.audience": "kafka", "sasl.oauthbearer.expected.issuer": "tests", "connections.max.reauth.ms": "10000",
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:" + Admin,
		"security.inter.broker.protocol": "SSL", "gossip.key": aKey, "group.initial.rebalance.delay.ms": "0",
	}
	maps.Copy(properties, opts.Properties)
	opts.Properties, opts.Port = properties, ports[0]
	b.Broker, err = StartGrete(ctx, opts)
	return b, err
}

// certificates has grete certs make them.
func certificates(dir string, args ...string) error {
	bin, err := GreteBin()
	if err != nil {
		return err
	}
	if out, err := exec.Command(bin, append([]string{"certs", dir}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("grete certs: %w: %s", err, out)
	}
	return nil
}

// newIssuer makes the key that signs tokens, and a file of it for the broker.
func (b *SASLBroker) newIssuer(file string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	b.issuer = private
	return os.WriteFile(file, fmt.Appendf(nil, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public)), 0o600)
}

// Token is a user's for OAUTHBEARER, good for an hour.
func (b *SASLBroker) Token(user string) (string, error) { return tokenBy(b.issuer, user) }

// ForgedToken is one that somebody else has signed.
func (b *SASLBroker) ForgedToken(user string) (string, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	return tokenBy(key, user)
}

func tokenBy(key ed25519.PrivateKey, user string) (string, error) {
	now := time.Now()
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"sub": user, "aud": "kafka", "iss": "tests", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	t.Header["kid"] = "k"
	return t.SignedString(key)
}
