package sasl

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// NewOAuthBearerClient logs in with a token (RFC 7628).
func NewOAuthBearerClient(token string) Client { return &bearerClient{token: token} }

type bearerClient struct {
	token string
	sent  bool
}

func (c *bearerClient) Next(challenge []byte) (token []byte, done bool, err error) {
	switch {
	case !c.sent:
		c.sent = true
		return []byte("n,,\x01auth=Bearer " + c.token + "\x01\x01"), false, nil
	case len(challenge) > 0:
		return nil, false, fmt.Errorf("the server refuses the token: %.200q", challenge)
	}
	return nil, true, nil
}

// BearerToken is a token with what its user knows of it.
type BearerToken struct {
	Text            string
	Issued, Expires time.Time
}

// errUnreadable has no word of the token, which is a secret.
var errUnreadable = errors.New("the token is no JSON Web Token that says whose it is and when it expires")

// ReadToken reads a token of one's own, of which the server alone checks the signature (Kafka's ClientJwtValidator). Errors have no word of it.
func ReadToken(text, subject string) (BearerToken, error) {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(text, claims); err != nil {
		return BearerToken{}, errUnreadable
	}
	expires, err := claims.GetExpirationTime()
	if name, named := claims[subject].(string); err != nil || expires == nil || !named || name == "" {
		return BearerToken{}, errUnreadable
	}
	t := BearerToken{Text: text, Expires: expires.Time}
	if issued, err := claims.GetIssuedAt(); err == nil && issued != nil {
		t.Issued = issued.Time
	}
	return t, nil
}

// TokenOfResponse is the token in an answer of a token endpoint (RFC 6749). Errors have no word of it.
func TokenOfResponse(body []byte) (string, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
		IDToken     string `json:"id_token"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.AccessToken == "" && answer.IDToken == "" {
		return "", errors.New("the answer has no access_token")
	}
	if answer.AccessToken == "" {
		return answer.IDToken, nil
	}
	return answer.AccessToken, nil
}

// UnsecuredToken is a token without a signature: whoever can reach the server can make one.
func UnsecuredToken(claims map[string]any, issued time.Time, lifetime time.Duration) (BearerToken, error) {
	all := jwt.MapClaims{"iat": issued.Unix(), "exp": issued.Add(lifetime).Unix()}
	for name, value := range claims {
		all[name] = value
	}
	text, err := jwt.NewWithClaims(jwt.SigningMethodNone, all).SignedString(jwt.UnsafeAllowNoneSignatureType)
	return BearerToken{Text: text, Issued: issued, Expires: issued.Add(lifetime)}, err
}

// Refresh is when a token is to be replaced (Kafka's ExpiringCredentialRefreshingLogin).
type Refresh struct {
	Factor, Jitter    float64       // of the token's life that passes before: sasl.login.refresh.window.factor, and a random part of …jitter
	MinPeriod, Buffer time.Duration // since the last one; before the end. Neither counts for a token that lives shorter than both
}

// At is when a token that is got now is to be replaced; random is from 0 to 1.
func (r Refresh) At(t BearerToken, now time.Time, random float64) time.Time {
	begin := t.Issued
	if begin.IsZero() || begin.After(now) {
		begin = now
	}
	life := t.Expires.Sub(begin)
	at := begin.Add(time.Duration(float64(life) * (r.Factor + r.Jitter*random)))
	if left := t.Expires.Sub(now); left > r.MinPeriod+r.Buffer {
		if latest := t.Expires.Add(-r.Buffer); at.After(latest) {
			at = latest
		}
		if soonest := now.Add(r.MinPeriod); at.Before(soonest) {
			at = soonest
		}
	}
	return at
}
