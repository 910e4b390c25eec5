package node

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

type issuer struct {
	id  string
	key ed25519.PrivateKey
}

func newIssuer(t *testing.T, id string) issuer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{id, key}
}

func (i issuer) keys() string {
	return fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}]}`, i.id, base64.RawURLEncoding.EncodeToString(i.key.Public().(ed25519.PublicKey)))
}

func (i issuer) token(t *testing.T, lifetime time.Duration) string {
	t.Helper()
	now := time.Now()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"sub": "ann", "aud": "kafka", "iss": "i", "iat": now.Unix(), "exp": now.Add(lifetime).Unix()})
	token.Header["kid"] = i.id
	text, err := token.SignedString(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Tokens are taken by the keys of a file or an address; when the issuer changes its keys, a token that names the new
// one has them read.
func TestOAuthBearerListener(t *testing.T) {
	first, second := newIssuer(t, "1"), newIssuer(t, "2")
	var keys atomic.Value
	keys.Store(first.keys())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusFound)
		}
		fmt.Fprint(w, keys.Load())
	}))
	defer server.Close()
	settings := func(url string) []string {
		return []string{
			"listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url=" + url,
			"org.apache.kafka.sasl.oauthbearer.allowed.urls=" + url, "sasl.oauthbearer.expected.audience=kafka", "sasl.oauthbearer.expected.issuer=i",
			"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=10",
		}
	}
	c := emptyCluster(t)
	c.add(settings("file:///keys")...)
	c.add(settings(server.URL + "/")...)
	write(t, c.disks[0], "/keys", []byte(first.keys()))
	c.start(0)
	c.start(1)
	as := func(i int, token string) *kgo.Client {
		return saslClient(t, c.running[i], "SASL_PLAINTEXT", oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: token}, nil }))
	}
	for i := range c.running {
		if err := ping(t, as(i, first.token(t, time.Minute))); err != nil {
			t.Error(i, err)
		}
		for _, bad := range []string{second.token(t, time.Minute), first.token(t, -time.Hour), "x"} {
			if err := ping(t, as(i, bad)); err == nil {
				t.Errorf("%d: got in", i)
			}
		}
	}
	keys.Store(second.keys())
	c.eventually("the new key", func() bool { return ping(t, as(1, second.token(t, time.Minute))) == nil })
	if err := ping(t, as(1, first.token(t, time.Minute))); err == nil {
		t.Error("a key that is withdrawn still counts")
	}
	for _, url := range []string{server.URL + "/moved", "file:///nothing"} {
		c.add(settings(url)...)
		n, err := Start(t.Context(), c.options[len(c.options)-1])
		if err == nil {
			stopNode(t, n)
			t.Errorf("%s: started", url)
		}
	}
}

// Nodes log in to each other with tokens of an issuer, of a file, or without a signature where that is asked for, over
// the end of tokens; the log has no secret.
func TestOAuthBearerBetweenNodes(t *testing.T) {
	const unsecuredServer = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
	i := newIssuer(t, "1")
	var asked, refused atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, ok := r.BasicAuth()
		if !ok || id != "node" || secret != "hunter2" || r.Method != http.MethodPost || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			refused.Add(1)
			return
		}
		if asked.Add(1)%2 == 0 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"}`, i.token(t, 3*time.Second))
	}))
	defer server.Close()
	issuerURL := server.URL + "/token"
	checked := []string{"sasl.oauthbearer.jwks.endpoint.url=file:///keys", "sasl.oauthbearer.expected.audience=kafka", "sasl.oauthbearer.expected.issuer=i"}
	all := map[string][]string{
		"issuer": append(checked, "sasl.oauthbearer.token.endpoint.url="+issuerURL, "sasl.oauthbearer.client.credentials.client.id=node",
			"sasl.oauthbearer.client.credentials.client.secret=hunter2", "sasl.oauthbearer.scope=kafka"),
		"file": append(checked, "sasl.oauthbearer.token.endpoint.url=file:///token"),
		"unsecured": {
			"listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=" + unsecuredServer, "listener.name.controller.oauthbearer.sasl.server.callback.handler.class=" + unsecuredServer,
			`listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="node" unsecuredLoginLifetimeSeconds="3";`,
			`listener.name.controller.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="node" unsecuredLoginLifetimeSeconds="3";`,
		},
	}
	t.Run("all", func(t *testing.T) {
		for name, settings := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				at := freePorts(t, 3)
				voters := fmt.Sprintf("controller.quorum.voters=1@%s,2@%s,3@%s", at[0], at[1], at[2])
				c := emptyCluster(t)
				for n := range at {
					c.add(append([]string{
						voters, "listeners=SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://" + at[n], "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
						"security.inter.broker.protocol=SASL_PLAINTEXT", "sasl.enabled.mechanisms=OAUTHBEARER", "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
						"sasl.mechanism.controller.protocol=OAUTHBEARER", "org.apache.kafka.sasl.oauthbearer.allowed.urls=file:///keys,file:///token," + issuerURL, "sasl.login.retry.backoff.ms=10",
					}, settings...)...)
					write(t, c.disks[n], "/keys", []byte(i.keys()))
					write(t, c.disks[n], "/token", []byte(i.token(t, time.Minute)+"\n"))
				}
				log := c.logs(0)
				c.start(0, 1, 2)
				c.eventually("topic", func() bool { return c.createOn(0, "t", 3) == nil && c.running[0].image().Topic("t") != nil })
				for range 8 { // longer than a token
					time.Sleep(500 * time.Millisecond)
				}
				c.eventually("another topic", func() bool { return c.createOn(1, "u", 3) == nil && c.running[2].image().Topic("u") != nil })
				if isr := c.running[0].image().Topic("t").Partitions[0].ISR; len(isr) != 3 {
					t.Errorf("in sync: %v", isr)
				}
				if log.count("hunter2") > 0 || log.count("eyJ") > 0 {
					t.Error("the log has a secret")
				}
				if warned := log.count("anybody can log in as anybody") > 0 && log.count("anybody can make such tokens") > 0; warned != (name == "unsecured") {
					t.Errorf("warned: %v", warned)
				}
			})
		}
	})
	if asked.Load() < 3*3 || refused.Load() > 0 {
		t.Errorf("%d tokens were asked for, %d requests refused", asked.Load(), refused.Load())
	}
	c := emptyCluster(t)
	c.add(append(checked, "listeners=SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2", "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
		"security.inter.broker.protocol=SASL_PLAINTEXT", "sasl.enabled.mechanisms=OAUTHBEARER", "sasl.mechanism.inter.broker.protocol=OAUTHBEARER", "sasl.mechanism.controller.protocol=OAUTHBEARER",
		"org.apache.kafka.sasl.oauthbearer.allowed.urls=file:///keys,"+issuerURL, "sasl.oauthbearer.token.endpoint.url="+issuerURL, "sasl.login.retry.backoff.max.ms=600000",
		"sasl.oauthbearer.client.credentials.client.id=node", "sasl.oauthbearer.client.credentials.client.secret=guessed")...)
	write(t, c.disks[0], "/keys", []byte(i.keys()))
	n, err := Start(t.Context(), c.options[0])
	if err == nil {
		stopNode(t, n)
	}
	if err == nil || !strings.HasSuffix(err.Error(), "sasl.oauthbearer.token.endpoint.url="+issuerURL+": answered 401 Unauthorized") || refused.Load() != 1 {
		t.Error(err, refused.Load()) // an issuer that refuses is not asked again
	}
}
