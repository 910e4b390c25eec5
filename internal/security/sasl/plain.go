package sasl

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
)

// Users are names and passwords for PLAIN.
type Users map[string]string

// absent is what the password of an unknown user is compared to, so that it takes as long.
var absent = sha256.Sum256([]byte("absent"))

// check compares in a time that depends on neither the user nor the password that is right.
func (u Users) check(name, password string) bool {
	stored, known := u[name]
	want := sha256.Sum256([]byte(stored))
	if !known {
		want = absent
	}
	got := sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && known
}

// NewPlain begins a PLAIN exchange (RFC 4616), of which the texts are PlainSaslServer's.
func NewPlain(users Users) Exchange { return &plain{users: users} }

type plain struct {
	users Users
	name  string
}

func (p *plain) Result() Result  { return Result{Name: p.name} }
func (p *plain) Claimed() string { return p.name }

func (p *plain) Next(token []byte) (challenge []byte, done bool, err error) {
	parts := strings.SplitN(string(token), "\x00", 4) // it counts no further
	if len(parts) != 3 {
		return nil, false, &Failure{fmt.Sprintf("Invalid SASL/PLAIN response: expected 3 tokens, got %d", len(parts))}
	}
	authorization, name, password := parts[0], parts[1], parts[2]
	p.name = name
	switch {
	case name == "":
		return nil, false, &Failure{"Authentication failed: username not specified"}
	case password == "":
		return nil, false, &Failure{"Authentication failed: password not specified"}
	case !p.users.check(name, password):
		return nil, false, &Failure{"Authentication failed: Invalid username or password"}
	case authorization != "" && authorization != name:
		return nil, false, &Failure{otherAuthorizationID}
	}
	return []byte{}, true, nil
}

// NewPlainClient logs in by PLAIN.
func NewPlainClient(name, password string) Client {
	return &plainClient{name: name, password: password}
}

type plainClient struct {
	name, password string
	sent           bool
}

func (p *plainClient) Next([]byte) ([]byte, bool, error) {
	if p.sent {
		return nil, true, nil
	}
	p.sent = true
	return []byte("\x00" + p.name + "\x00" + p.password), false, nil
}
