package tool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	kgosasl "github.com/twmb/franz-go/pkg/sasl"

	"grete/internal/security/certs"
	"grete/internal/security/sasl"
	"grete/internal/vfs"
)

// maxTokenBytes bounds a token, and what an issuer answers.
const maxTokenBytes = 64 << 10

// flagProperties sets the properties that the flags for TLS and SASL stand for.
func (l link) flagProperties(p map[string]string, files vfs.FS) error {
	if l.Key != "" && l.Cert == "" {
		return usagef("--key-file needs --cert")
	}
	secured, login := l.TLS || l.CA != "" || l.Cert != "", l.As != "" || l.TokenFile != ""
	if l.CA != "" {
		p["ssl.truststore.type"], p["ssl.truststore.location"] = "PEM", l.CA
	}
	if err := l.certificate(p, files); err != nil {
		return err
	}
	if login {
		if err := l.login(p, files); err != nil {
			return err
		}
	}
	if now := p["security.protocol"]; secured || login {
		secured, login = secured || strings.HasSuffix(now, "SSL"), login || strings.HasPrefix(now, "SASL")
		p["security.protocol"] = map[[2]bool]string{{true, false}: "SSL", {false, true}: "SASL_PLAINTEXT", {true, true}: "SASL_SSL"}[[2]bool{secured, login}]
	}
	return nil
}

func (l link) certificate(p map[string]string, files vfs.FS) error {
	if l.Cert == "" {
		return nil
	}
	p["ssl.keystore.type"] = "PEM"
	if l.Key == "" {
		p["ssl.keystore.location"] = l.Cert
		return nil
	}
	for flag, file := range map[string][2]string{"--cert": {l.Cert, "ssl.keystore.certificate.chain"}, "--key-file": {l.Key, "ssl.keystore.key"}} {
		text, err := vfs.ReadFile(files, file[0], maxConfigBytes)
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		p[file[1]] = string(text)
	}
	return nil
}

func (l link) login(p map[string]string, files vfs.FS) error {
	mechanism := l.Mechanism
	switch {
	case l.As != "" && l.TokenFile != "":
		return usagef("--as and --as-token-file exclude each other: a token names its user")
	case l.TokenFile != "":
		p["sasl.mechanism"], p["sasl.oauthbearer.token.endpoint.url"] = sasl.OAuthBearer, "file://"+l.TokenFile
		return nil
	case l.PasswordFile == "":
		return usagef("--as needs --as-password-file")
	case mechanism == "":
		mechanism = sasl.ScramSHA256
	}
	password, err := FirstLine(files, "--as-password-file", l.PasswordFile)
	if err != nil {
		return err
	}
	p["sasl.mechanism"], p["sasl.username"], p["sasl.password"] = mechanism, l.As, password
	return nil
}

// FirstLine is the first line of the file that a flag names; an error when there is no such file, or nothing in it.
func FirstLine(files vfs.FS, flag, name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("%s is missing", flag)
	}
	text, err := vfs.ReadFile(files, name, maxConfigBytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("%s=%s: the first line is empty", flag, name)
	}
	return line, nil
}

// librdkafka's names of properties that Kafka's own clients call otherwise.
var aliases = map[string]string{
	"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism", "ssl.ca.location": "ssl.truststore.location",
	"ssl.certificate.location": "ssl.keystore.location",
}

// withoutEffect are properties of security that change nothing here: how a JVM does what is done here otherwise.
var withoutEffect = []string{
	"ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "security.providers",
	"sasl.login.refresh.", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.", "sasl.kerberos.", "sasl.oauthbearer.jwks.",
	"sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name",
}

// known are the properties of security that are honoured.
var known = []string{
	"security.protocol", "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates", "ssl.keystore.type",
	"ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password", "ssl.enabled.protocols",
	"ssl.cipher.suites", "ssl.endpoint.identification.algorithm", "sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password",
	"sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope", "sasl.oauthbearer.client.credentials.client.id",
	"sasl.oauthbearer.client.credentials.client.secret", "sasl.login.callback.handler.class",
}

// checkSecurity refuses a property that protects and is not honoured, and renames librdkafka's.
func checkSecurity(p map[string]string) error {
	for from, to := range aliases {
		if value, ok := p[from]; ok && p[to] == "" {
			p[to] = value
			if kind := strings.TrimSuffix(to, "location") + "type"; strings.HasSuffix(to, ".location") && p[kind] == "" {
				p[kind] = "PEM"
			}
		}
		delete(p, from)
	}
	if protocol, ok := p["security.protocol"]; ok {
		p["security.protocol"] = strings.ToUpper(protocol)
	}
	for name := range p {
		if !strings.HasPrefix(name, "ssl.") && !strings.HasPrefix(name, "sasl.") && !strings.HasPrefix(name, "security.") {
			continue
		}
		if !slices.Contains(known, name) && !slices.ContainsFunc(withoutEffect, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return fmt.Errorf("the property %s protects something and grete does not know it; take it out if you can do without", name)
		}
	}
	return nil
}

// tlsOf returns what the properties say about TLS; nil where the protocol is without.
func (t *tool) tlsOf(p map[string]string) (func(host string) *tls.Config, error) {
	switch p["security.protocol"] {
	case "", "PLAINTEXT", "SASL_PLAINTEXT":
		return nil, nil
	case "SSL", "SASL_SSL":
	default:
		return nil, fmt.Errorf("security.protocol=%s: must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", p["security.protocol"])
	}
	verify, given := p["ssl.endpoint.identification.algorithm"]
	kind := func(name string) string {
		if p[name] == "" {
			return "JKS"
		}
		return strings.ToUpper(p[name])
	}
	source, err := certs.Open(certs.Settings{
		Keystore: certs.Keystore{
			Type: kind("ssl.keystore.type"), Location: p["ssl.keystore.location"], Password: p["ssl.keystore.password"], KeyPassword: p["ssl.key.password"],
			Key: p["ssl.keystore.key"], Chain: p["ssl.keystore.certificate.chain"],
		},
		Truststore: certs.Truststore{
			Type: kind("ssl.truststore.type"), Location: p["ssl.truststore.location"], Password: p["ssl.truststore.password"], Certificates: p["ssl.truststore.certificates"],
		},
		Protocols: certs.Names(p["ssl.enabled.protocols"]), CipherSuites: certs.Names(p["ssl.cipher.suites"]),
		VerifyHost: !given || strings.EqualFold(verify, "https"), Now: t.Clock.Now, Read: t.readFile,
	})
	if err != nil {
		return nil, err
	}
	return source.Client, nil
}

func (t *tool) readFile(name string, maxBytes int64) ([]byte, error) {
	return vfs.ReadFile(t.Files, name, maxBytes)
}

// loginOf returns the mechanism that the properties log in by; nil where the protocol is without.
func (t *tool) loginOf(p map[string]string) (kgosasl.Mechanism, string, error) {
	if !strings.HasPrefix(p["security.protocol"], "SASL_") {
		return nil, "", nil
	}
	var jaas sasl.Login
	if text := p["sasl.jaas.config"]; text != "" {
		var err error
		if jaas, err = sasl.ParseJAAS(text); err != nil {
			return nil, "", fmt.Errorf("sasl.jaas.config: %w", err)
		}
	}
	user, password := p["sasl.username"], p["sasl.password"]
	if user == "" {
		user, password, _ = jaas.Account()
	}
	mechanism := p["sasl.mechanism"]
	if mechanism == sasl.OAuthBearer {
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := t.token(ctx, p, jaas)
			return oauth.Auth{Token: token}, err
		}), "by a token", nil
	}
	if user == "" {
		return nil, "", fmt.Errorf("security.protocol=%s needs a user: --as and --as-password-file, or sasl.jaas.config", p["security.protocol"])
	}
	switch isToken := jaas.Options["tokenauth"] == "true"; mechanism {
	case sasl.Plain:
		return plain.Auth{User: user, Pass: password}.AsMechanism(), user, nil
	case sasl.ScramSHA256:
		return scram.Auth{User: user, Pass: password, IsToken: isToken}.AsSha256Mechanism(), user, nil
	case sasl.ScramSHA512:
		return scram.Auth{User: user, Pass: password, IsToken: isToken}.AsSha512Mechanism(), user, nil
	}
	return nil, "", fmt.Errorf("sasl.mechanism=%s: must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER (--as-mechanism)", mechanism)
}

// token gets a token as the properties say: from a file, from an issuer by client credentials, or one without a
// signature that the JAAS line describes.
func (t *tool) token(ctx context.Context, p map[string]string, jaas sasl.Login) (string, error) {
	endpoint := p["sasl.oauthbearer.token.endpoint.url"]
	if name, ok := strings.CutPrefix(endpoint, "file://"); ok {
		text, err := t.readFile(name, maxTokenBytes)
		return strings.TrimSpace(string(text)), err
	}
	if endpoint == "" {
		return t.unsecuredToken(jaas)
	}
	text := func(name, option string) string {
		if p[name] != "" {
			return p[name]
		}
		return jaas.Options[option]
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if scope := text("sasl.oauthbearer.scope", "scope"); scope != "" {
		form.Set("scope", scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	id, secret := text("sasl.oauthbearer.client.credentials.client.id", "clientId"), text("sasl.oauthbearer.client.credentials.client.secret", "clientSecret")
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxTokenBytes))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New("the issuer answers " + answer.Status)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", endpoint, err)
	}
	return sasl.TokenOfResponse(body)
}

func (t *tool) unsecuredToken(jaas sasl.Login) (string, error) {
	claims := map[string]any{}
	for name, value := range jaas.Options {
		if claim, ok := strings.CutPrefix(name, "unsecuredLoginStringClaim_"); ok {
			claims[claim] = value
		}
	}
	if len(claims) == 0 {
		return "", errors.New("OAUTHBEARER needs a token: --as-token-file, sasl.oauthbearer.token.endpoint.url, or unsecuredLoginStringClaim_sub in sasl.jaas.config")
	}
	token, err := sasl.UnsecuredToken(claims, t.Clock.Now(), time.Hour)
	return token.Text, err
}
