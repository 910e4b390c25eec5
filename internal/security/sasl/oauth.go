package sasl

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// OAuthBearer is the name of the mechanism of RFC 7628.
const OAuthBearer = "OAUTHBEARER"

// TokenRules say which tokens of an issuer are taken (Kafka's BrokerJwtValidator).
type TokenRules struct {
	Audiences  []string // of which a token must name one; none: it may name any
	Issuer     string   // "": any
	Skew       time.Duration
	Subject    string // the claim that has the principal's name
	Now        func() time.Time
	Keys       func() *KeySet
	MissingKey func() // a token names a key that is not known
	Unsecured  bool   // tokens without a signature are taken, and no others
}

// tokenAlgorithms are those of signatures with a public key: none, and those with a shared secret, are not among them.
var tokenAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

var (
	errToken = errors.New("token")
	errNoKey = errors.New("no key that is known fits it")
)

// why is the reason of a refusal, of a length that is bounded, without a word of the token.
func why(err error) string {
	for _, reason := range []error{
		errNoKey, jwt.ErrTokenMalformed, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenUnverifiable, jwt.ErrTokenExpired, jwt.ErrTokenNotValidYet,
		jwt.ErrTokenUsedBeforeIssued, jwt.ErrTokenInvalidAudience, jwt.ErrTokenInvalidIssuer, jwt.ErrTokenRequiredClaimMissing,
	} {
		if errors.Is(err, reason) {
			return reason.Error()
		}
	}
	return jwt.ErrTokenInvalidClaims.Error()
}

// Check says whose token it is, and until when.
func (r *TokenRules) Check(token string) (Result, error) {
	algorithms := tokenAlgorithms
	if r.Unsecured {
		algorithms = []string{jwt.SigningMethodNone.Alg()}
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms), jwt.WithLeeway(r.Skew), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithTimeFunc(r.Now), jwt.WithStrictDecoding(),
	}
	if len(r.Audiences) > 0 {
		options = append(options, jwt.WithAudience(r.Audiences...))
	}
	if r.Issuer != "" {
		options = append(options, jwt.WithIssuer(r.Issuer))
	}
	if strings.ContainsAny(token, "\r\n") { // which Go's base64 skips, and Java's refuses
		return Result{}, fmt.Errorf("%w: it has an end of line", errToken)
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.NewParser(options...).ParseWithClaims(token, claims, r.key); err != nil {
		return Result{}, fmt.Errorf("%w: %s", errToken, why(err))
	}
	if issued, err := claims.GetIssuedAt(); err != nil || issued == nil && !r.Unsecured {
		return Result{}, fmt.Errorf("%w: it does not say when it was issued", errToken)
	}
	name, ok := claims[r.Subject].(string)
	if name = strings.TrimSpace(name); !ok || name == "" {
		return Result{}, fmt.Errorf("%w: it has no claim %s", errToken, r.Subject)
	}
	expires, err := claims.GetExpirationTime()
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", errToken, err)
	}
	return Result{Name: name, Expires: expires.Time}, nil
}

// key finds the key of a token: by its id, or the only one that fits where the token names none.
func (r *TokenRules) key(t *jwt.Token) (any, error) {
	if r.Unsecured {
		return jwt.UnsafeAllowNoneSignatureType, nil
	}
	id, _ := t.Header["kid"].(string)
	key := r.Keys().find(id, t.Method.Alg())
	if key == nil {
		if r.MissingKey != nil {
			r.MissingKey()
		}
		return nil, errNoKey
	}
	return key, nil
}

// initialResponse is the client's first message: gs2-header kvsep *kvpair kvsep.
var initialResponse = regexp.MustCompile("^n,(?:a=((?:[^=,\x00]|=2C|=3D)+))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01$")

// invalidToken is what Kafka's OAuthBearerValidatorCallbackHandler answers, whatever is wrong.
const invalidToken = `{"status":"invalid_token"}`

// NewOAuthBearer begins an OAUTHBEARER exchange.
func NewOAuthBearer(rules *TokenRules) Exchange { return &bearer{rules: rules} }

type bearer struct {
	rules   *TokenRules
	result  Result
	refused error
}

func (b *bearer) Result() Result  { return b.result }
func (b *bearer) Claimed() string { return b.result.Name }
func (b *bearer) Refused() error  { return b.refused }

func (b *bearer) Next(message []byte) (challenge []byte, done bool, err error) {
	if b.refused != nil { // the client acknowledges that with a message of its own
		return nil, false, &Failure{invalidToken}
	}
	parts := initialResponse.FindSubmatch(message)
	if parts == nil {
		return nil, false, errors.New("the message is not one of RFC 7628")
	}
	token, err := bearerToken(string(parts[2]))
	if err != nil {
		return nil, false, err
	}
	result, err := b.rules.Check(token)
	if err != nil {
		b.refused = err
		return []byte(invalidToken), false, nil
	}
	b.result = result
	if id := unescapeName(string(parts[1])); id != "" && id != result.Name {
		return nil, false, &Failure{fmt.Sprintf("Authentication failed: Client requested an authorization id (%s) that is different from the token's principal name (%s)", id, result.Name)}
	}
	return []byte{}, true, nil
}

func bearerToken(pairs string) (string, error) {
	for pair := range strings.SplitSeq(pairs, "\x01") {
		name, value, _ := strings.Cut(pair, "=")
		if name != "auth" {
			continue
		}
		scheme, token, ok := strings.Cut(value, " ")
		if !ok || !strings.EqualFold(scheme, "bearer") {
			return "", errors.New("the scheme is not Bearer")
		}
		return strings.TrimSpace(token), nil
	}
	return "", errors.New("the message has no token")
}

func unescapeName(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "=2C", ","), "=3D", "=")
}
