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

func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"AQ","y":"AQ"},{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if set, err := ParseKeySet(text); err == nil && len(set.keys) == 0 {
			t.Error("an empty set was taken")
		}
	})
}

// FuzzOAuthBearer: nobody gets in without a signature by the key.
func FuzzOAuthBearer(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	set, err := ParseKeySet([]byte(`{"keys":[` + ecJWK("", key) + `]}`))
	if err != nil {
		f.Fatal(err)
	}
	rules := &TokenRules{Subject: "sub", Now: func() time.Time { return time.Unix(1, 0) }, Keys: func() *KeySet { return set }}
	f.Add("n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjoyLCJpYXQiOjF9.\x01\x01")
	f.Add("n,a=x=2C,\x01auth=Bearer eyJhbGciOiJFUzI1NiJ9.e30.AAAA\x01k=v\x01\x01")
	f.Fuzz(func(t *testing.T, message string) {
		if _, done, _ := NewOAuthBearer(rules).Next([]byte(message)); done {
			t.Error("got in")
		}
	})
}
