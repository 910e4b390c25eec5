package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"grete/internal/security/sasl"
)

const (
	// bearerHandler and bearerLoginHandler are Kafka's classes that do what is done here for OAUTHBEARER. Kafka takes
	// and makes tokens without a signature where they are not set; here that is asked for: unsecuredHandler is Kafka's
	// class that does it.
	bearerHandler      = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
	bearerLoginHandler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
	unsecuredHandler   = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"

	allowedURLs   = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
	tokenEndpoint = "sasl.oauthbearer.token.endpoint.url"
)

// BearerLogin is how this node gets tokens to log in with by OAUTHBEARER.
type BearerLogin struct {
	URL                           string // of the issuer, or file:///…; "": an unsecured token
	ClientID, ClientSecret, Scope string
	Subject                       string // the claim that has a token's principal
	Timeout                       time.Duration
	Backoff, MaxBackoff           time.Duration
	Refresh                       sasl.Refresh

	Claims   map[string]any // of an unsecured token
	Lifetime time.Duration
}

// defaultLoginTimeout is for an issuer where sasl.login.read.timeout.ms is not set.
const defaultLoginTimeout = 10 * time.Second

// BearerLogin is how this node gets tokens for listeners like l.
func (b *Broker) BearerLogin(l Listener) BearerLogin {
	m, _ := b.mechanism(l, sasl.OAuthBearer)
	text := func(name, option string) string {
		if v := b.ListenerText(l.Name, name); v != "" {
			return v
		}
		return m.JAAS.Options[option]
	}
	ms := func(name string) time.Duration {
		return time.Duration(b.ListenerInt(l.Name, name)) * time.Millisecond
	}
	factor := func(name string) float64 {
		f, _ := strconv.ParseFloat(b.ListenerText(l.Name, name), 64) // its definition has looked at it
		return f
	}
	login := BearerLogin{
		URL: b.ListenerText(l.Name, tokenEndpoint), Scope: text("sasl.oauthbearer.scope", "scope"), Subject: b.ListenerText(l.Name, "sasl.oauthbearer.sub.claim.name"),
		ClientID:     text("sasl.oauthbearer.client.credentials.client.id", "clientId"),
		ClientSecret: text("sasl.oauthbearer.client.credentials.client.secret", "clientSecret"),
		Timeout:      ms("sasl.login.connect.timeout.ms") + ms("sasl.login.read.timeout.ms"),
		Backoff:      ms("sasl.login.retry.backoff.ms"), MaxBackoff: ms("sasl.login.retry.backoff.max.ms"),
		Refresh: sasl.Refresh{
			Factor: factor("sasl.login.refresh.window.factor"), Jitter: factor("sasl.login.refresh.window.jitter"),
			MinPeriod: 1000 * ms("sasl.login.refresh.min.period.seconds"), Buffer: 1000 * ms("sasl.login.refresh.buffer.seconds"),
		},
	}
	if login.Timeout <= 0 {
		login.Timeout = defaultLoginTimeout
	}
	if login.URL == "" {
		login.Claims, login.Lifetime, _ = unsecuredClaims(m.JAAS)
	}
	return login
}

// unsecuredClaims are those of a JAAS line (Kafka's OAuthBearerUnsecuredLoginCallbackHandler); nil where it asks for no
// unsecured token.
func unsecuredClaims(jaas sasl.Login) (claims map[string]any, lifetime time.Duration, err error) {
	const option = "unsecuredLogin"
	lifetime = time.Hour
	principal := "sub"
	for name, value := range jaas.Options {
		kind, asks := strings.CutPrefix(name, option)
		if !asks {
			continue
		}
		kind, claim, isClaim := strings.Cut(kind, "Claim_")
		if isClaim && claims == nil {
			claims = map[string]any{}
		}
		switch {
		case isClaim && kind == "String":
			claims[claim] = value
		case isClaim && kind == "Number":
			if claims[claim], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, 0, fmt.Errorf("%s is no number", name)
			}
		case isClaim && kind == "List" && value != "":
			claims[claim] = strings.Split(value[1:], value[:1]) // the first character separates
		case name == option+"PrincipalClaimName":
			principal = value
		case name == option+"LifetimeSeconds":
			seconds, err := strconv.ParseInt(value, 10, 32)
			if err != nil || seconds <= 0 {
				return nil, 0, fmt.Errorf("%s must be a positive number", name)
			}
			lifetime = time.Duration(seconds) * time.Second
		default:
			return nil, 0, fmt.Errorf("the option %s is not implemented", name)
		}
	}
	if name, ok := claims[principal].(string); claims != nil && (!ok || name == "") {
		return nil, 0, errors.New("it has no " + option + "StringClaim_" + principal)
	}
	return claims, lifetime, nil
}

// Unsecured says whether a listener takes tokens without a signature, which anybody can make, and by which claim and
// skew.
func (b *Broker) Unsecured(l Listener) (principal string, skew time.Duration, ok bool) {
	m, _ := b.mechanism(l, sasl.OAuthBearer)
	principal, skew, _ = unsecuredRules(m.JAAS)
	return principal, skew, trim(b.Static[bearerHandlerOf(l)]) == unsecuredHandler
}

func unsecuredRules(jaas sasl.Login) (principal string, skew time.Duration, err error) {
	const option = "unsecuredValidator"
	principal = "sub"
	for name, value := range jaas.Options {
		switch {
		case !strings.HasPrefix(name, option):
		case name == option+"PrincipalClaimName":
			principal = value
		case name == option+"AllowableClockSkewMs":
			ms, err := strconv.ParseInt(value, 10, 32)
			if err != nil || ms < 0 {
				return "", 0, fmt.Errorf("%s must be a number from 0 on", name)
			}
			skew = time.Duration(ms) * time.Millisecond
		default:
			return "", 0, fmt.Errorf("the option %s is not implemented", name)
		}
	}
	return principal, skew, nil
}

func bearerHandlerOf(l Listener) string {
	return mechanismProperty(l, sasl.OAuthBearer, "sasl.server.callback.handler.class")
}

// checkURL wants an address of an issuer that is allowed.
func (b *Broker) checkURL(st *static, name, text string) error {
	switch {
	case !strings.HasPrefix(text, "file:///") && !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://"):
		return st.refuse(name, "must begin with https://, http:// or file:///")
	case !slices.Contains(SplitList(b.Text(allowedURLs)), text):
		return st.refuse(name, "must be one of "+allowedURLs)
	}
	return nil
}

// checkBearer wants keys that tokens are checked with, from an address that is allowed, and refuses to take anybody's
// tokens unless that is asked for, as Kafka's BrokerJwtValidator does.
func (b *Broker) checkBearer(st *static, l Listener) error {
	const endpoint = "sasl.oauthbearer.jwks.endpoint.url"
	handler := bearerHandlerOf(l)
	m, _ := b.mechanism(l, sasl.OAuthBearer)
	text := b.ListenerText(l.Name, endpoint)
	if _, _, unsecured := b.Unsecured(l); unsecured {
		if _, _, err := unsecuredRules(m.JAAS); err != nil {
			return st.refuse(mechanismProperty(l, sasl.OAuthBearer, "sasl.jaas.config"), err.Error())
		}
		if text != "" {
			return st.refuse(handler, "takes tokens without a signature, and "+endpoint+" asks for signatures")
		}
		return nil
	}
	switch {
	case b.Static[handler] != "" && trim(b.Static[handler]) != bearerHandler:
		return st.refuse(handler, "must be "+bearerHandler+", or for tokens that anybody can make "+unsecuredHandler)
	case text == "":
		return st.refuse(endpoint, "OAUTHBEARER on listener "+l.Name+" needs the keys that tokens are signed with; tokens without a signature are not taken")
	}
	if err := b.checkURL(st, endpoint, text); err != nil {
		return err
	}
	for _, claim := range []string{"audience", "issuer"} {
		name, unverified := "sasl.oauthbearer.expected."+claim, "sasl.oauthbearer.allow.unverified."+claim
		if b.ListenerText(l.Name, name) == "" && b.ListenerText(l.Name, unverified) != "true" {
			return st.refuse(name, "OAUTHBEARER on listener "+l.Name+" needs it, or "+unverified+"=true")
		}
	}
	return nil
}

// checkBearerLogin wants somebody that this node gets its tokens from.
func (b *Broker) checkBearerLogin(st *static, l Listener) error {
	jaas := mechanismProperty(l, sasl.OAuthBearer, "sasl.jaas.config")
	m, err := b.mechanism(l, sasl.OAuthBearer)
	if err != nil {
		return st.refuse(jaas, err.Error())
	}
	handler := mechanismProperty(l, sasl.OAuthBearer, "sasl.login.callback.handler.class")
	if class := trim(b.Static[handler]); class != "" && class != bearerLoginHandler {
		return st.refuse(handler, "the only class is "+bearerLoginHandler)
	}
	login := b.BearerLogin(l)
	switch _, _, err := unsecuredClaims(m.JAAS); {
	case err != nil && login.URL == "":
		return st.refuse(jaas, err.Error())
	case login.URL == "" && login.Claims == nil:
		return st.refuse(tokenEndpoint, "this node has nobody to get tokens from that it logs in to other nodes with by OAUTHBEARER")
	case login.URL == "":
		return nil
	}
	if err := b.checkURL(st, tokenEndpoint, login.URL); err != nil {
		return err
	}
	if !strings.HasPrefix(login.URL, "file:") && (login.ClientID == "" || login.ClientSecret == "") {
		return st.refuse("sasl.oauthbearer.client.credentials.client.id", "this node needs an id and a secret for "+tokenEndpoint)
	}
	return nil
}
