package sasl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func coordinate(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }

func ecJWK(id string, key *ecdsa.PrivateKey) string {
	raw, err := key.PublicKey.Bytes()
	if err != nil {
		panic(err)
	}
	x, y := base64.RawURLEncoding.EncodeToString(raw[1:33]), base64.RawURLEncoding.EncodeToString(raw[33:])
	return fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":%q,"x":%q,"y":%q}`, id, x, y)
}

func TestOAuthBearer(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	set, err := ParseKeySet([]byte(fmt.Sprintf(`{"keys":[%s,{"kty":"RSA","kid":"r","alg":"RS256","use":"sig","n":%q,"e":"AQAB"},{"kty":"oct","k":"c2VjcmV0"},{"kty":"RSA","use":"enc"}]}`,
		ecJWK("e", ec), coordinate(rs.N))))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	missing := 0
	rules := &TokenRules{
		Audiences: []string{"kafka", "other"}, Issuer: "https://issuer", Skew: 30 * time.Second, Subject: "sub",
		Now: func() time.Time { return now }, Keys: func() *KeySet { return set }, MissingKey: func() { missing++ },
	}
	sign := func(method jwt.SigningMethod, key any, id string, change jwt.MapClaims) string {
		claims := jwt.MapClaims{"sub": "ann", "iss": "https://issuer", "aud": []string{"kafka"}, "iat": now.Unix(), "exp": now.Unix() + 60}
		for name, value := range change {
			if claims[name] = value; value == nil {
				delete(claims, name)
			}
		}
		token := jwt.NewWithClaims(method, claims)
		if id != "" {
			token.Header["kid"] = id
		}
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	none := sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "e", nil)
	public, _ := json.Marshal(rs.PublicKey)
	es, good := jwt.SigningMethodES256, sign(jwt.SigningMethodES256, ec, "e", nil)
	for _, tt := range []struct {
		what, token string
		ok          bool
	}{
		{"ES256", good, true},
		{"RS256", sign(jwt.SigningMethodRS256, rs, "r", nil), true},
		{"no key id, one key fits", sign(es, ec, "", nil), true},
		{"one audience, as a text", sign(es, ec, "e", jwt.MapClaims{"aud": "other"}), true},
		{"expired within the skew", sign(es, ec, "e", jwt.MapClaims{"exp": now.Unix() - 20}), true},
		{"expired", sign(es, ec, "e", jwt.MapClaims{"exp": now.Unix() - 40}), false},
		{"no expiry", sign(es, ec, "e", jwt.MapClaims{"exp": nil}), false},
		{"no time of issue", sign(es, ec, "e", jwt.MapClaims{"iat": nil}), false},
		{"issued in the future", sign(es, ec, "e", jwt.MapClaims{"iat": now.Unix() + 100}), false},
		{"not yet valid", sign(es, ec, "e", jwt.MapClaims{"nbf": now.Unix() + 100}), false},
		{"another issuer", sign(es, ec, "e", jwt.MapClaims{"iss": "https://evil"}), false},
		{"another audience", sign(es, ec, "e", jwt.MapClaims{"aud": "x"}), false},
		{"no audience", sign(es, ec, "e", jwt.MapClaims{"aud": nil}), false},
		{"no subject", sign(es, ec, "e", jwt.MapClaims{"sub": nil}), false},
		{"an empty subject", sign(es, ec, "e", jwt.MapClaims{"sub": " "}), false},
		{"a subject that is a number", sign(es, ec, "e", jwt.MapClaims{"sub": 7}), false},
		{"another's key", sign(es, other, "e", nil), false},
		{"an unknown key", sign(es, ec, "x", nil), false},
		{"another algorithm than the key's", sign(jwt.SigningMethodRS512, rs, "r", nil), false},
		{"no signature", none, false},
		{"a signature with the public key as secret", sign(jwt.SigningMethodHS256, public, "r", nil), false},
		{"a signature with a secret", sign(jwt.SigningMethodHS256, []byte("secret"), "", nil), false},
		{"a changed signature", good[:len(good)-4] + "AAAA", false},
		{"nonsense", "a.b.c", false},
	} {
		e := NewOAuthBearer(rules)
		challenge, done, err := e.Next([]byte("n,,\x01auth=Bearer " + tt.token + "\x01\x01"))
		if err != nil || done != tt.ok || tt.ok != (len(challenge) == 0) {
			t.Errorf("%s: %q, %v, %v", tt.what, challenge, done, err)
		}
		if tt.ok {
			if r := e.Result(); r.Name != "ann" || r.Expires.IsZero() {
				t.Errorf("%s: %+v", tt.what, r)
			}
			continue
		}
		if _, _, err := e.Next([]byte("\x01")); err == nil || err.Error() != `{"status":"invalid_token"}` {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	if missing == 0 {
		t.Error("nobody heard of the unknown key")
	}
	for message, ok := range map[string]bool{
		"n,a=ann,\x01auth=bearer " + good + "\x01x=y\x01\x01": true, "n,a=bob,\x01auth=Bearer " + good + "\x01\x01": false, "n,,\x01auth=Basic " + good + "\x01\x01": false,
		"n,,\x01x=y\x01\x01": false, "n,,\x01\x01": false, "": false, "\x01": false, "y,,\x01auth=Bearer " + good + "\x01\x01": false, "n,,\x01auth=Bearer " + good + "\x01": false,
	} {
		if _, done, err := NewOAuthBearer(rules).Next([]byte(message)); done != ok || (err == nil) != ok {
			t.Errorf("%q: %v, %v", strings.ReplaceAll(message, good, "…"), done, err)
		}
	}
}

func TestKeySetRefusals(t *testing.T) {
	for _, text := range []string{
		"", "{}", `{"keys":[]}`, `{"keys":[{"kty":"oct","k":"AA"}]}`, `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`, `{"keys":[{"kty":"RSA","n":"!","e":"AQAB"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}]}`, `{"keys":[{"kty":"EC","crv":"P-1","x":"AQ","y":"AQ"}]}`, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AQ"}]}`,
	} {
		if _, err := ParseKeySet([]byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// A client's token is refused when it has a signature where none is due, and the other way round.
func TestUnsecuredTokens(t *testing.T) {
	now := time.UnixMilli(1_000_000_000)
	own, err := UnsecuredToken(map[string]any{"sub": "ann", "name": "bob"}, now, time.Minute)
	if err != nil || own.Expires != now.Add(time.Minute) {
		t.Fatal(own, err)
	}
	at := func(d time.Duration) func() time.Time { return func() time.Time { return now.Add(d) } }
	signed := &TokenRules{Subject: "sub", Now: at(0), Keys: func() *KeySet { return &KeySet{} }}
	for _, tt := range []struct {
		rules *TokenRules
		name  string
	}{
		{&TokenRules{Unsecured: true, Subject: "sub", Now: at(0)}, "ann"}, {&TokenRules{Unsecured: true, Subject: "name", Now: at(0)}, "bob"},
		{&TokenRules{Unsecured: true, Subject: "absent", Now: at(0)}, ""}, {&TokenRules{Unsecured: true, Subject: "sub", Now: at(61 * time.Second)}, ""},
		{&TokenRules{Unsecured: true, Subject: "sub", Now: at(61 * time.Second), Skew: 2 * time.Second}, "ann"}, {signed, ""},
	} {
		exchange := NewOAuthBearer(tt.rules)
		err := run(NewOAuthBearerClient(own.Text), exchange)
		if (err == nil) != (tt.name != "") || err == nil && exchange.Result() != (Result{Name: tt.name, Expires: own.Expires}) {
			t.Errorf("%+v: %v, %+v", tt.rules, err, exchange.Result())
		}
		if err != nil && strings.Contains(err.Error(), own.Text) {
			t.Error("the error has the token")
		}
	}
	if _, err := (&TokenRules{Unsecured: true, Subject: "sub", Now: at(0)}).Check(own.Text + "c2lnbmF0dXJl"); err == nil {
		t.Error("a signature is taken where there is none")
	}
}

func TestOwnTokens(t *testing.T) {
	own, err := UnsecuredToken(map[string]any{"sub": "ann"}, time.Unix(1000, 0), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ReadToken(own.Text, "sub"); err != nil || read != own {
		t.Error(read, err)
	}
	for _, bad := range []string{"", "x", "a.b.c", own.Text[:len(own.Text)-5]} {
		if _, err := ReadToken(bad, "sub"); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if _, err := ReadToken(own.Text, "name"); err == nil {
		t.Error("a token without a subject was read")
	}
	for body, want := range map[string]string{`{"access_token":"a","id_token":"b"}`: "a", `{"id_token":"b"}`: "b", `{}`: "", `[`: "", `{"access_token":7}`: ""} {
		if got, err := TokenOfResponse([]byte(body)); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", body, got, err)
		}
	}
}

// Tokens are replaced within the window of their life, not too soon, and with time left; where both cannot be, the window counts.
func TestRefresh(t *testing.T) {
	r := Refresh{Factor: 0.8, Jitter: 0.05, MinPeriod: time.Minute, Buffer: 5 * time.Minute}
	now := time.Unix(10_000, 0)
	for _, tt := range []struct {
		issuedAgo, left time.Duration
		random          float64
		want            time.Duration
	}{
		{0, 100 * time.Minute, 0, 80 * time.Minute}, {0, 100 * time.Minute, 1, 85 * time.Minute}, {0, 10 * time.Minute, 0, 5 * time.Minute},
		{90 * time.Minute, 10 * time.Minute, 0, time.Minute}, {0, 5 * time.Minute, 0, 4 * time.Minute}, {0, time.Second, 0, 800 * time.Millisecond},
	} {
		token := BearerToken{Issued: now.Add(-tt.issuedAgo), Expires: now.Add(tt.left)}
		if got := r.At(token, now, tt.random).Sub(now); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
