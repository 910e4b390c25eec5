package sasl

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"sync"
	"time"
)

// Token is a delegation token as its user authenticates by SCRAM: its id is the name, its HMAC the password.
type Token struct {
	Owner   string // the name of the principal that it stands for
	Expires time.Time
	Credential
}

// TokenHMAC is what a delegation token is known by to those who use it, as Kafka computes it.
func TokenHMAC(secret []byte, id string) []byte {
	m := hmac.New(sha512.New, secret)
	m.Write([]byte(id))
	return m.Sum(nil)
}

// maxTokenCredentials bounds what TokenCredentials remembers.
const maxTokenCredentials = 4096

// TokenCredentials makes the credentials of delegation tokens, of which a server has the secret alone. A credential costs thousands of hashes: it is made when
// its token first logs in, and remembered. It depends on the id alone, and outlives no check: whether there is such a token, the caller has to know.
type TokenCredentials struct {
	Secret []byte // delegation.token.secret.key
	Salts  []byte // what salts are made of

	mu    sync.Mutex
	known map[tokenKey]Credential
}

type tokenKey struct {
	hash Hash
	id   string
}

// Of is the credential of a token for a mechanism.
func (t *TokenCredentials) Of(h Hash, id string) (Credential, error) {
	key := tokenKey{h, id}
	t.mu.Lock()
	c, known := t.known[key]
	t.mu.Unlock()
	if known {
		return c, nil
	}
	password := base64.StdEncoding.EncodeToString(TokenHMAC(t.Secret, id))
	c, err := h.NewCredential(password, saltOf(t.Salts, id), MinIterations)
	if err != nil {
		return c, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxTokenCredentials {
		t.known = map[tokenKey]Credential{}
	}
	t.known[key] = c
	return c, nil
}

// saltOf is the salt of a name that has none of its own: the same one each time.
func saltOf(secret []byte, name string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("salt\x00" + name))
	return m.Sum(nil)[:saltBytes]
}
