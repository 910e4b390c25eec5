// Package sasl has the SASL mechanisms as exchanges of tokens: the server's side, the client's side, and what
// configures them. It knows no network and no cluster.
package sasl

import (
	"errors"
	"time"
)

// Names of mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Exchange is the server's side of one authentication. One goroutine calls it.
type Exchange interface {
	// Next takes a token of the client. After an error or done it is not called again. The text of a *Failure is for
	// the client; that of any other error is for the log alone.
	Next(token []byte) (challenge []byte, done bool, err error)
	// Result is valid once done.
	Result() Result
	// Claimed is the name that the client claims, for the log; "" before it says one.
	Claimed() string
}

// Refuser is an Exchange that may refuse by a challenge: its client answers that before it reads of the failure, or
// never.
type Refuser interface {
	// Refused is why, for the log alone; nil: it has not refused.
	Refused() error
}

// Result is who was authenticated.
type Result struct {
	Name string
	// Expires is when the credential ends; zero: it does not.
	Expires time.Time
	ByToken bool // by a delegation token of the principal's
}

// Failure is a refusal that the client may read (Kafka's SaslAuthenticationException).
type Failure struct{ Text string }

func (f *Failure) Error() string { return f.Text }

const (
	// ExchangeFactor is how many bytes Next may allocate for each byte of a token, at most: a caller that bounds memory
	// borrows so much first. JSON Web Tokens need most of it, whose claims are decoded before the signature is checked.
	ExchangeFactor = 48
	// maxScramFields is how many fields a message of SCRAM may have: five are the mechanism's, others are extensions.
	maxScramFields = 64
)

// errCredentials is every failure of which the client learns nothing.
var errCredentials = errors.New("invalid credentials")

// otherAuthorizationID is Kafka's text for all its mechanisms: nobody acts as another.
const otherAuthorizationID = "Authentication failed: Client requested an authorization id that is different from username"

// Client is the client's side of one authentication. The first call of Next has no challenge.
type Client interface {
	// Next answers a challenge. A token of nil with done says that nothing more is to be sent.
	Next(challenge []byte) (token []byte, done bool, err error)
}
