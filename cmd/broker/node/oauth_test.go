package node

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// Tokens are taken by the keys of a file or an address; when the issuer changes its keys, a token that names the new one has them read.
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
