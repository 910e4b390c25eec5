package sasl

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"
)

// Iterations of SCRAM that Kafka takes.
const (
	MinIterations = 4096
	MaxIterations = 16384
)

// Hash is a SCRAM mechanism, numbered as Kafka numbers it in requests and records.
type Hash int8

const (
	SHA256 Hash = 1
	SHA512 Hash = 2
)

// HashOf is the mechanism of that name; false when it is not one of SCRAM's.
func HashOf(mechanism string) (Hash, bool) {
	switch mechanism {
	case ScramSHA256:
		return SHA256, true
	case ScramSHA512:
		return SHA512, true
	}
	return 0, false
}

func (h Hash) String() string {
	if h == SHA512 {
		return ScramSHA512
	}
	return ScramSHA256
}

func (h Hash) generator() scram.HashGeneratorFcn {
	if h == SHA512 {
		return scram.SHA512
	}
	return scram.SHA256
}

// SizeBytes is the length of its keys.
func (h Hash) SizeBytes() int { return h.generator()().Size() }

// Credential is what a server keeps of a password.
type Credential struct {
	Salt, StoredKey, ServerKey []byte
	Iterations                 int
}

// Keys derives the keys that a server keeps from a salted password (RFC 5802).
func (h Hash) Keys(saltedPassword []byte) (storedKey, serverKey []byte) {
	mac := func(text string) []byte {
		m := hmac.New(h.generator(), saltedPassword)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := h.generator()()
	stored.Write(mac("Client Key"))
	return stored.Sum(nil), mac("Server Key")
}

// SaltPassword is what a client derives of its password, by which it sets it.
func (h Hash) SaltPassword(password string, salt []byte, iterations int) ([]byte, error) {
	return pbkdf2.Key(h.generator(), password, salt, iterations, h.SizeBytes())
}

// NewCredential makes the credential of a password.
func (h Hash) NewCredential(password string, salt []byte, iterations int) (Credential, error) {
	salted, err := h.SaltPassword(password, salt, iterations)
	if err != nil {
		return Credential{}, err
	}
	stored, server := h.Keys(salted)
	return Credential{Salt: salt, StoredKey: stored, ServerKey: server, Iterations: iterations}, nil
}

// ScramServer begins SCRAM exchanges of one mechanism.
type ScramServer struct {
	Hash Hash
	// Lookup finds a user's credential as it is now; false when there is none.
	Lookup func(user string) (Credential, bool)
	// Secret makes the salts of unknown users: the same one for the same name for as long as the process lives.
	Secret []byte
	Random func(p []byte)
	// Token finds a delegation token as it is now; false when there is none, or it has expired. Nil: there are none.
	Token func(id string) (Token, bool)
}

// errScramMessage repeats nothing of the message, unlike the library's errors: a client that takes the mechanism for
// another may have sent a password.
var errScramMessage = errors.New("not a message of SCRAM")

// Names of extensions of the client's first message (Kafka's ScramLoginModule).
const tokenAuthExtension = "tokenauth"

// Begin begins an exchange.
func (s *ScramServer) Begin() Exchange {
	e := &scramExchange{server: s}
	server, err := s.Hash.generator().NewServer(e.lookup)
	if err != nil {
		panic(err) // it has no reason to fail
	}
	e.conversation = server.WithNonceGenerator(s.nonce).NewConversation()
	return e
}

func (s *ScramServer) nonce() string {
	raw := make([]byte, 24)
	s.Random(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

// decoy is what an unknown user's exchange goes on with; no proof fits it. Kafka ends the exchange there, which tells which users there are.
func (s *ScramServer) decoy(user string) scram.StoredCredentials {
	derive := func(what string) []byte {
		m := hmac.New(sha256.New, s.Secret)
		m.Write([]byte(what + "\x00" + user))
		return m.Sum(nil)
	}
	size := s.Hash.SizeBytes()
	key := append(derive("key"), derive("rest of key")...)[:size]
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(saltOf(s.Secret, user)), Iters: MinIterations}, StoredKey: key, ServerKey: key,
	}
}

// saltBytes is how long the salts of kafka-configs are, about.
const saltBytes = 25

type scramExchange struct {
	server       *ScramServer
	conversation *scram.ServerConversation
	begun        bool
	asToken      bool // the name is that of a delegation token
	token        Token
	unknown      bool
}

func (e *scramExchange) Result() Result {
	if e.asToken {
		return Result{Name: e.token.Owner, Expires: e.token.Expires, ByToken: true}
	}
	return Result{Name: e.conversation.Username()}
}

func (e *scramExchange) Claimed() string { return e.conversation.Username() }

func (e *scramExchange) lookup(user string) (scram.StoredCredentials, error) {
	c, known := e.credential(user)
	e.unknown = !known
	if !known {
		return e.server.decoy(user), nil
	}
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(c.Salt), Iters: c.Iterations}, StoredKey: c.StoredKey, ServerKey: c.ServerKey,
	}, nil
}

func (e *scramExchange) credential(name string) (c Credential, known bool) {
	if !e.asToken {
		return e.server.Lookup(name)
	}
	if e.server.Token == nil {
		return c, false
	}
	e.token, known = e.server.Token(name)
	return e.token.Credential, known
}

func (e *scramExchange) Next(token []byte) (challenge []byte, done bool, err error) {
	if bytes.Count(token, []byte(",")) >= maxScramFields {
		return nil, false, errScramMessage
	}
	first := !e.begun
	if e.begun = true; first {
		e.asToken = extensions(string(token))[tokenAuthExtension] == "true"
	}
	out, err := e.conversation.Step(string(token))
	switch {
	case err != nil && first:
		return nil, false, errScramMessage
	case err != nil:
		return nil, false, errCredentials
	case first:
		if id := e.conversation.AuthzID(); id != "" && id != e.conversation.Username() {
			return nil, false, &Failure{otherAuthorizationID}
		}
		return []byte(out), false, nil
	}
	if e.asToken && !e.unknown {
		_, known := e.credential(e.conversation.Username()) // it may have gone, or been renewed, since the first message
		e.unknown = !known
	}
	if e.unknown || !e.conversation.Valid() {
		return nil, false, errCredentials
	}
	return []byte(out), true, nil
}

// extensions are what follows the nonce in a client's first message.
func extensions(first string) map[string]string {
	out := map[string]string{}
	fields := strings.Split(first, ",")
	for i := 4; i < len(fields); i++ {
		if name, value, ok := strings.Cut(fields[i], "="); ok {
			out[name] = strings.ToLower(value)
		}
	}
	return out
}

// NewScramClient logs in by SCRAM.
func (h Hash) NewScramClient(name, password string, random func(p []byte)) (Client, error) {
	client, err := h.generator().NewClientUnprepped(name, password, "")
	if err != nil {
		return nil, err
	}
	client = client.WithMinIterations(MinIterations).WithNonceGenerator((&ScramServer{Random: random}).nonce)
	return &scramClient{conversation: client.NewConversation()}, nil
}

type scramClient struct{ conversation *scram.ClientConversation }

func (c *scramClient) Next(challenge []byte) ([]byte, bool, error) {
	if err := boundedWork(string(challenge)); err != nil {
		return nil, false, err
	}
	out, err := c.conversation.Step(string(challenge))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("SCRAM: %w", err)
	case !c.conversation.Done():
		return []byte(out), false, nil
	case !c.conversation.Valid():
		return nil, false, errors.New("the server does not know the password")
	}
	return nil, true, nil
}

// boundedWork refuses a server that asks for more iterations than Kafka has, which are seconds and hours of work.
func boundedWork(challenge string) error {
	fields := strings.Split(challenge, ",")
	if len(fields) < 3 {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(fields[2], "i="))
	if err == nil && n > MaxIterations {
		return fmt.Errorf("SCRAM: the server wants %d iterations; %d are the most", n, MaxIterations)
	}
	return nil
}
