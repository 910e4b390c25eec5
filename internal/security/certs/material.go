package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// ClientAuth says whether a client must show a certificate (ssl.client.auth).
type ClientAuth string

const (
	ClientAuthNone      ClientAuth = "none"
	ClientAuthRequested ClientAuth = "requested"
	ClientAuthRequired  ClientAuth = "required"
)

// Settings are the TLS properties of one listener, or of the connections to other nodes.
type Settings struct {
	Keystore      Keystore
	Truststore    Truststore
	ClientAuth    ClientAuth
	Protocols     []string // ssl.enabled.protocols: TLSv1.2, TLSv1.3
	CipherSuites  []string // ssl.cipher.suites, IANA names; empty: Go's choice
	VerifyHost    bool     // ssl.endpoint.identification.algorithm is https
	AllowDN       bool     // ssl.allow.dn.changes
	AllowSANs     bool     // ssl.allow.san.changes
	Now           func() time.Time
	Read          ReadFile
	NeedsKeystore bool // a listener cannot do without
}

// material is what the settings led to when they were read last.
type material struct {
	certificate *tls.Certificate // nil: none, for a client that shows none
	trusted     *x509.CertPool   // nil: the system's
	base        *tls.Config
	server      *tls.Config // nil without a certificate
	clientAuth  ClientAuth
	verifyHost  bool
}

// Source has the keys and certificates in force. They change as a whole, by Reload; connections keep theirs.
type Source struct {
	settings Settings
	current  atomic.Pointer[material]
}

// Open reads what the settings name. An error names the property and the file.
func Open(s Settings) (*Source, error) {
	m, err := s.load()
	if err != nil {
		return nil, err
	}
	src := &Source{settings: s}
	src.current.Store(m)
	return src, nil
}

// Reload reads the files again. After an error everything stays as it was.
func (s *Source) Reload() error { return s.Replace(s.settings) }

// Replace puts other settings in force, as Kafka does when a keystore changes while the broker runs: the name of the
// certificate must stay, and its alternative names may only become more, unless the settings allow otherwise. After an
// error everything stays as it was. One goroutine at a time may call it.
func (s *Source) Replace(next Settings) error {
	m, err := s.prepare(next)
	if err != nil {
		return err
	}
	s.settings = next
	s.current.Store(m)
	return nil
}

// Check says why Replace would refuse.
func (s *Source) Check(next Settings) error {
	_, err := s.prepare(next)
	return err
}

func (s *Source) prepare(next Settings) (*material, error) {
	m, err := next.load()
	if err != nil {
		return nil, err
	}
	if err := compatible(s.current.Load().certificate, m.certificate, next); err != nil {
		return nil, &StoreError{"ssl.keystore.location", next.Keystore.Location, err}
	}
	return m, nil
}

// compatible is Kafka's SslFactory.CertificateEntries.ensureCompatible.
func compatible(old, next *tls.Certificate, s Settings) error {
	if old == nil || next == nil {
		return nil
	}
	if !s.AllowDN && !bytes.Equal(old.Leaf.RawSubject, next.Leaf.RawSubject) {
		return fmt.Errorf("the certificate's name %s is not %s as before (ssl.allow.dn.changes)", DN(next.Leaf), DN(old.Leaf))
	}
	for _, name := range alternativeNames(old.Leaf) {
		if !s.AllowSANs && !slices.Contains(alternativeNames(next.Leaf), name) {
			return fmt.Errorf("the certificate lacks %s, which the one before has (ssl.allow.san.changes)", name)
		}
	}
	return nil
}

func alternativeNames(c *x509.Certificate) []string {
	out := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	for _, u := range c.URIs {
		out = append(out, u.String())
	}
	return append(out, c.EmailAddresses...)
}

// NotAfter is when the first certificate of the chain in force expires; false without one.
func (s *Source) NotAfter() (first time.Time, ok bool) {
	c := s.current.Load().certificate
	if c == nil {
		return first, false
	}
	for _, der := range c.Certificate {
		if x, err := x509.ParseCertificate(der); err == nil && (!ok || x.NotAfter.Before(first)) {
			first, ok = x.NotAfter, true
		}
	}
	return first, ok
}

// Names are the alternative names of the certificate in force. covers says whether a client that checks names believes
// it for that host; without a certificate nothing is to be said, and it is true.
func (s *Source) Names(host string) (names []string, covers bool) {
	c := s.current.Load().certificate
	if c == nil {
		return nil, true
	}
	return alternativeNames(c.Leaf), c.Leaf.VerifyHostname(host) == nil
}

func (s Settings) load() (*material, error) {
	m := &material{clientAuth: s.ClientAuth, verifyHost: s.VerifyHost}
	var err error
	if !s.Keystore.Empty() {
		if m.certificate, err = s.Keystore.Load(s.Read); err != nil {
			return nil, err
		}
	} else if s.NeedsKeystore {
		return nil, &StoreError{"ssl.keystore.location", "", errors.New("a listener with TLS needs a key and a certificate")}
	}
	if !s.Truststore.Empty() {
		trusted, err := s.Truststore.Load(s.Read)
		if err != nil {
			return nil, err
		}
		m.trusted = x509.NewCertPool()
		for _, c := range trusted {
			m.trusted.AddCert(c)
		}
	}
	if m.base, err = s.base(); err != nil {
		return nil, err
	}
	m.prepareServer()
	return m, nil
}

// prepareServer makes what handshakes of a listener use.
func (m *material) prepareServer() {
	if m.certificate == nil {
		return
	}
	c := m.base.Clone()
	c.Certificates = []tls.Certificate{*m.certificate}
	c.ClientCAs = m.trusted
	c.SessionTicketsDisabled, c.DynamicRecordSizingDisabled = true, true
	switch m.clientAuth {
	case ClientAuthRequired:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	case ClientAuthRequested:
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	m.server = c
}

// base has protocols and cipher suites.
func (s Settings) base() (*tls.Config, error) {
	c := &tls.Config{Time: s.Now}
	versions := map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}
	var enabled []uint16
	for _, name := range s.Protocols {
		v, ok := versions[name]
		if !ok {
			return nil, &StoreError{"ssl.enabled.protocols", "", fmt.Errorf("%s is none of TLSv1.2, TLSv1.3", name)}
		}
		enabled = append(enabled, v)
	}
	if len(enabled) == 0 {
		enabled = []uint16{tls.VersionTLS12, tls.VersionTLS13}
	}
	c.MinVersion, c.MaxVersion = slices.Min(enabled), slices.Max(enabled)
	return c, s.restrictSuites(c)
}

// restrictSuites applies ssl.cipher.suites. Go's suites of TLS 1.3 cannot be chosen among: it is all of them, or no TLS 1.3.
func (s Settings) restrictSuites(c *tls.Config) error {
	if len(s.CipherSuites) == 0 {
		return nil
	}
	known := map[string]*tls.CipherSuite{}
	modern := 0
	for _, suite := range tls.CipherSuites() {
		known[suite.Name] = suite
		if slices.Equal(suite.SupportedVersions, []uint16{tls.VersionTLS13}) {
			modern++
		}
	}
	chosen := 0
	for _, name := range s.CipherSuites {
		suite := known[name]
		switch {
		case suite == nil:
			return &StoreError{"ssl.cipher.suites", "", fmt.Errorf("%s is not a cipher suite that is safe and known here", name)}
		case slices.Contains(suite.SupportedVersions, tls.VersionTLS13):
			chosen++
		default:
			c.CipherSuites = append(c.CipherSuites, suite.ID)
		}
	}
	switch {
	case chosen == 0 && c.MinVersion == tls.VersionTLS13, chosen != 0 && chosen != modern && c.MaxVersion == tls.VersionTLS13:
		return &StoreError{"ssl.cipher.suites", "", errors.New("TLS 1.3 has all of its suites, or is not in ssl.enabled.protocols")}
	case chosen == 0:
		c.MaxVersion = tls.VersionTLS12
	case len(c.CipherSuites) == 0:
		c.MinVersion = tls.VersionTLS13
	}
	return nil
}

// errNoCertificateNow is what a handshake finds when a listener has no certificate.
var errNoCertificateNow = errors.New("the listener has no certificate")

// Server returns the configuration of a listener: each handshake uses what is in force when it begins. There are no session tickets, by which a peer
// could come back after its certificate's issuer is trusted no more.
func (s *Source) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if c := s.current.Load().server; c != nil {
			return c, nil
		}
		return nil, errNoCertificateNow
	}}
}

// Client returns the configuration of a connection to a host.
func (s *Source) Client(host string) *tls.Config {
	m := s.current.Load()
	c := m.base.Clone()
	c.ServerName, c.RootCAs, c.DynamicRecordSizingDisabled = host, m.trusted, true
	if m.certificate != nil {
		c.Certificates = []tls.Certificate{*m.certificate}
	}
	if !m.verifyHost {
		verifyChainOnly(c)
	}
	return c
}

// verifyChainOnly checks that the peer's chain leads to a trusted certificate, and not which host it is for.
func verifyChainOnly(c *tls.Config) {
	roots, now := c.RootCAs, c.Time
	c.InsecureSkipVerify = true // VerifyConnection does what is left
	c.VerifyConnection = func(state tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		if now != nil {
			o.CurrentTime = now()
		}
		for _, x := range state.PeerCertificates[1:] {
			o.Intermediates.AddCert(x)
		}
		_, err := state.PeerCertificates[0].Verify(o)
		return err
	}
}

// Names splits a list property such as ssl.enabled.protocols.
func Names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
