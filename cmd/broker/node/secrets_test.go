package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"software.sslmate.com/src/go-pkcs12"

	internal "grete/internal/security/sasl"
	"grete/internal/vfs"
)

// secrets of each kind, planted in the configuration of a broker, or shown to it by clients.
type secrets struct {
	t       *testing.T
	planted map[string]string // by what they are
	log     *logBuffer
	n       *Node
}

func (s *secrets) plant(what, value string) string {
	s.planted[what] = value
	return value
}

// clean fails the test where text has a secret, as it is or in base64.
func (s *secrets) clean(where, text string) {
	s.t.Helper()
	for what, value := range s.planted {
		for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
			if at := strings.Index(text, form); at >= 0 {
				s.t.Errorf("%s: %s is in %q", where, what, text[max(at-80, 0):min(at+len(form)+20, len(text))])
			}
		}
	}
}

// answer checks an answer in its bytes.
func (s *secrets) answer(cl *kgo.Client, req kmsg.Request) kmsg.Response {
	s.t.Helper()
	resp, err := cl.Request(s.t.Context(), req)
	if err != nil {
		s.clean(fmt.Sprintf("the error of %T", req), err.Error())
		return nil
	}
	s.clean(fmt.Sprintf("%T", resp), string(resp.AppendTo(nil)))
	return resp
}

// stores writes a key store and a trust store with passwords.
func (s *secrets) stores(a ca, fs vfs.FS) {
	text, err := a.Issue("node", []string{"localhost", "127.0.0.1"}, 365)
	if err != nil {
		s.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		s.t.Fatal(err)
	}
	s.plant("the private key", strings.Split(string(text), "\n")[1])
	store, err := pkcs12.Modern.Encode(pair.PrivateKey, pair.Leaf, nil, s.plant("the key store's password", "planted-keystore"))
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, fs, "/node.p12", store)
	trust, err := pkcs12.Modern.EncodeTrustStore([]*x509.Certificate{pair.Leaf}, s.plant("the trust store's password", "planted-truststore"))
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, fs, "/trust.p12", trust)
}

func newSecrets(t *testing.T) (*secrets, ca, issuer) {
	s := &secrets{t: t, planted: map[string]string{}, log: &logBuffer{}}
	a, i, fs := newCA(t), newIssuer(t, "1"), vfs.NewMem()
	s.stores(a, fs)
	write(t, fs, "/keys", []byte(i.keys()))
	gossip := base64.StdEncoding.EncodeToString([]byte(s.plant("the key of gossip", "planted-gossip-key-of-32-bytes!!")))
	o := options(t, fs, "listeners=SASL_SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0", "ssl.keystore.location=/node.p12", "ssl.keystore.password=planted-keystore",
		"ssl.truststore.location=/trust.p12", "ssl.truststore.password=planted-truststore", "ssl.keystore.type=PKCS12", "ssl.truststore.type=PKCS12",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url=file:///keys", "org.apache.kafka.sasl.oauthbearer.allowed.urls=file:///keys",
		"sasl.oauthbearer.expected.audience=kafka", "sasl.oauthbearer.expected.issuer=i",
		"listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_ann=\""+s.plant("a password of a JAAS line", "planted-jaas")+"\";",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_ann=\"planted-jaas\";",
		"sasl.bootstrap.users=SCRAM-SHA-256=[name=admin,password="+s.plant("a first password of SCRAM", "planted-scram")+"]",
		"delegation.token.secret.key="+s.plant("the secret of delegation tokens", "planted-master"), "gossip.key="+gossip,
		"admin.listen=127.0.0.1:0", "admin.token="+s.plant("the token of the admin listener", "planted-admin-token-of-32-bytes!!"),
		"connection.failed.authentication.delay.ms=0", "admin.metrics.detail=partition")
	o.Log = zerolog.New(s.log).Level(zerolog.TraceLevel)
	s.n = start(t, o)
	return s, a, i
}

func (s *secrets) as(listener string, a ca, m sasl.Mechanism) *kgo.Client {
	opts := []kgo.Opt{kgo.SeedBrokers(s.n.Addr(listener)), kgo.SASL(m), kgo.RetryTimeout(5 * time.Second), kgo.RequestRetries(2)}
	if listener == "SASL_SSL" {
		opts = append(opts, kgo.DialTLSConfig(a.client("")))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return cl
}

// logins shows secrets to the broker: those that let in, and those that do not.
func (s *secrets) logins(a ca, i issuer) {
	bearing := func(token string) sasl.Mechanism {
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: token}, nil })
	}
	for _, listener := range []string{"SASL_SSL", "SASL_PLAINTEXT"} {
		right, foreign := i.token(s.t, time.Hour), newIssuer(s.t, "2").token(s.t, time.Hour)
		for _, m := range []sasl.Mechanism{
			plain.Auth{User: "ann", Pass: "planted-jaas"}.AsMechanism(), scram.Auth{User: "admin", Pass: "planted-scram"}.AsSha256Mechanism(),
			bearing(s.plant("a token at "+listener, right)),
		} {
			if err := ping(s.t, s.as(listener, a, m)); err != nil {
				s.t.Errorf("%s, %s: %v", listener, m.Name(), err)
			}
		}
		for _, m := range []sasl.Mechanism{
			plain.Auth{User: "ann", Pass: s.plant("a wrong password", "planted-guess")}.AsMechanism(), scram.Auth{User: "admin", Pass: "planted-guess"}.AsSha256Mechanism(),
			scram.Auth{User: "nobody", Pass: "planted-guess"}.AsSha256Mechanism(), bearing(s.plant("a foreign token at "+listener, foreign)), bearing("planted-guess"),
			plain.Auth{Zid: "planted-guess", User: "ann", Pass: "planted-jaas"}.AsMechanism(),
		} {
			err := ping(s.t, s.as(listener, a, m))
			if err == nil {
				s.t.Errorf("%s, %s: got in", listener, m.Name())
				continue
			}
			s.clean("the refusal of "+m.Name(), err.Error())
		}
	}
}

// changes has values refused, and a password and a token made.
func (s *secrets) changes(cl *kgo.Client) {
	for name, value := range map[string]string{
		"listener.name.sasl_ssl.ssl.keystore.password":          s.plant("a wrong password of a store", "planted-wrong-store"),
		"listener.name.sasl_ssl.plain.sasl.jaas.config":         s.plant("a JAAS line that is none", "planted-nonsense"),
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "x required password=" + s.plant("a JAAS line without an end", "planted-endless"),
		"listener.name.sasl_ssl.ssl.keystore.key":               s.plant("a key that is none", "planted-key"),
		"delegation.token.secret.key":                           s.plant("another secret of tokens", "planted-second-master"),
		"sasl.bootstrap.users":                                  s.plant("users that are none", "planted-users"),
		"gossip.key":                                            s.plant("a key of gossip that is none", "planted-short"),
	} {
		for _, resource := range []string{"1", ""} {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, resource
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Value, c.Op = name, &value, kmsg.IncrementalAlterConfigOpSet
			r.Configs = append(r.Configs, c)
			req.Resources = append(req.Resources, r)
			s.answer(cl, req)
		}
	}
	salted, err := internal.SHA256.SaltPassword(s.plant("a password of SCRAM", "planted-second-scram"), []byte("salt"), 8192)
	if err != nil {
		s.t.Fatal(err)
	}
	s.plant("a salted password", string(salted))
	users := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Mechanism, up.Iterations, up.Salt, up.SaltedPassword = "bob", 1, 8192, []byte("salt"), salted
	users.Upsertions = append(users.Upsertions, up)
	s.answer(cl, users)
	token := requestToken(s.t, cl, -1)
	if token.ErrorCode != 0 {
		s.t.Fatalf("%+v", token)
	}
	s.plant("a delegation token", string(token.HMAC))
}

// descriptions asks for all that is told about configuration and users.
func (s *secrets) descriptions(cl *kgo.Client) {
	for kind, names := range map[kmsg.ConfigResourceType][]string{
		kmsg.ConfigResourceTypeBroker: {"1", ""}, kmsg.ConfigResourceTypeBrokerLogger: {"1"}, kmsg.ConfigResourceTypeTopic: {"__consumer_offsets"},
	} {
		for _, name := range names {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.IncludeSynonyms, req.IncludeDocumentation = true, true
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kind, name
			req.Resources = append(req.Resources, r)
			resp := s.answer(cl, req)
			if kind == kmsg.ConfigResourceTypeBroker && name == "1" && !strings.Contains(string(resp.AppendTo(nil)), "ssl.keystore.password") {
				s.t.Error("the configuration does not have the key store's password at all")
			}
		}
	}
	s.answer(cl, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest())
	s.answer(cl, kmsg.NewPtrDescribeClusterRequest())
	s.answer(cl, kmsg.NewPtrMetadataRequest())
}

// pages reads what the admin listener shows, to somebody with its token and to others.
func (s *secrets) pages() {
	for _, page := range []string{"metrics", "healthz", "readyz", "", "debug/pprof/goroutine?debug=2", "debug/pprof/cmdline"} {
		for _, token := range []string{"planted-admin-token-of-32-bytes!!", "planted-guess"} {
			req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.n.AdminAddr()+"/"+page, nil)
			if err != nil {
				s.t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				s.t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || page == "metrics" && token != "planted-guess" && !strings.Contains(string(body), "authentication") {
				s.t.Errorf("%s: %v, %.100s", page, err, body)
			}
			s.clean("/"+page, string(body)+fmt.Sprint(resp.Header))
		}
	}
}

// No secret of any kind is in the log of every level, in answers and the texts of errors, or on a page of the admin
// listener.
func TestSecretsStaySecret(t *testing.T) {
	s, a, i := newSecrets(t)
	s.logins(a, i)
	admin := s.as("SASL_SSL", a, scram.Auth{User: "admin", Pass: "planted-scram"}.AsSha256Mechanism())
	s.changes(admin)
	s.descriptions(admin)
	s.pages()
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.clean("the log", s.log.b.String())
	if !strings.Contains(s.log.b.String(), "authentication failed") || len(s.planted) < 20 {
		t.Errorf("%d secrets, and a log of %d bytes", len(s.planted), s.log.b.Len())
	}
}
