package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"grete/compat-tests/kafka"
)

// secured is what a client is told: where the broker is, and by what it gets in and by what not. Ways are mechanisms of
// SASL over TLS, and SSL: by a certificate.
type secured struct {
	Client         string   `json:"client"`
	Ways           []string `json:"ways"`
	SASL           string   `json:"sasl"` // addresses of listeners
	SSL            string   `json:"ssl"`
	CA             string   `json:"ca"` // files of PEM
	Pem            string   `json:"pem"`
	OtherPem       string   `json:"otherPem"` // of another authority
	User           string   `json:"user"`
	Password       string   `json:"password"`
	OtherPassword  string   `json:"otherPassword"`
	Token          string   `json:"token"`
	OtherToken     string   `json:"otherToken"` // with another's signature
	TokenFile      string   `json:"-"`
	OtherTokenFile string   `json:"-"`
}

// said is what became of one step of one way: ok, or the client's own name of the error. The steps are:
//
//	produce   to t-<client>
//	consume   what was produced, as a member of g-<client>-<way>
//	transact  a record to t-<client> in a transaction of x-<client>-<way>
//	login     with what the broker does not take
//	topic     is to produce to secret
//	group     is to consume t-<client> as a member of secret
//	txn       is to begin a transaction of secret
type said struct {
	Way     string `json:"way"`
	Step    string `json:"step"`
	Outcome string `json:"outcome"`
}

// securedTimeout bounds a client with all its ways.
const securedTimeout = 4 * time.Minute

// told has a program print what it has to say.
func told(name string, args ...string) ([]said, error) {
	cmd := exec.Command(name, args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	hung := time.AfterFunc(securedTimeout, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %.4000s", err, log.Bytes())
	}
	var all []said
	for line := range bytes.Lines(out) {
		var s said
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func (c secured) json() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings alone
	}
	return string(text)
}

func securedPython(c secured, env string, packages ...string) ([]said, error) {
	bin, err := kafka.Python(env, packages...)
	if err != nil {
		return nil, err
	}
	return told(bin, filepath.Join(here(), "agents", "secured.py"), c.json())
}

func securedNode(c secured) ([]said, error) {
	script, err := nodeScript("secured.js")
	if err != nil {
		return nil, err
	}
	return told("node", script, c.json())
}

func securedJava(c secured) ([]said, error) {
	bin, err := kafka.Java()
	if err != nil {
		return nil, err
	}
	libs, err := kafka.Libs(context.Background())
	if err != nil {
		return nil, err
	}
	return told(bin, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://"+c.TokenFile+",file://"+c.OtherTokenFile, "-cp", filepath.Join(libs, "*"),
		filepath.Join(here(), "agents", "Secured.java"), "ways="+strings.Join(c.Ways, ","), "sasl="+c.SASL, "ssl="+c.SSL, "ca="+c.CA, "pem="+c.Pem, "otherPem="+c.OtherPem,
		"user="+c.User, "password="+c.Password, "otherPassword="+c.OtherPassword, "tokenFile="+c.TokenFile, "otherTokenFile="+c.OtherTokenFile)
}

// tls is how a client of Go's trusts the broker; by way of SSL it has a certificate, good or not.
func (c secured) tls(way string, good bool) (*tls.Config, error) {
	ca, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	if !config.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("no authority")
	}
	if way != "SSL" {
		return config, nil
	}
	file := c.Pem
	if !good {
		file = c.OtherPem
	}
	pair, err := tls.LoadX509KeyPair(file, file)
	// Go's clients send no certificate that the broker does not ask for by its issuer; others do.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return config, err
}

// address is the broker's for a way, password and token are good or not.
func (c secured) address(way string) string {
	if way == "SSL" {
		return c.SSL
	}
	return c.SASL
}

func (c secured) secrets(good bool) (password, token string) {
	if good {
		return c.Password, c.Token
	}
	return c.OtherPassword, c.OtherToken
}

// goSteps are the steps of a client that runs in this process; kcat has no transactions.
type goSteps struct {
	produce  func(way, topic string, good bool) error
	consume  func(way, group string) error
	transact func(way, id string) error
	name     func(error) string
}

// inGo takes all ways at once: clients of Go's wait long between attempts.
func (c secured) inGo(s goSteps) ([]said, error) {
	of := make([][]said, len(c.Ways))
	var all sync.WaitGroup
	for i, way := range c.Ways {
		all.Go(func() { of[i] = c.oneWay(s, way) })
	}
	all.Wait()
	return slices.Concat(of...), nil
}

func (c secured) oneWay(s goSteps, way string) (all []said) {
	step := func(what string, err error) {
		outcome := "ok"
		if err != nil {
			outcome = s.name(err)
		}
		all = append(all, said{way, what, outcome})
	}
	step("produce", s.produce(way, "t-"+c.Client, true))
	step("consume", s.consume(way, "g-"+c.Client+"-"+way))
	step("login", s.produce(way, "t-"+c.Client, false))
	step("topic", s.produce(way, "secret", true))
	step("group", s.consume(way, "secret"))
	if s.transact != nil {
		step("transact", s.transact(way, "x-"+c.Client+"-"+way))
		step("txn", s.transact(way, "secret"))
	}
	return all
}
