// Package certs has the keys and certificates of TLS in the forms that Kafka's properties name: PEM in files and in line,
// PKCS12 and JKS.
package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"golang.org/x/crypto/cryptobyte"
	"software.sslmate.com/src/go-pkcs12"
)

// maxStoreBytes bounds what is read of a store's file.
const maxStoreBytes = 16 << 20

// ReadFile returns the content of a file of at most maxBytes.
type ReadFile func(name string, maxBytes int64) ([]byte, error)

// Keystore is where a node's own key and certificate chain are (ssl.keystore.*, ssl.key.password).
type Keystore struct {
	Type        string // JKS, PKCS12 or PEM
	Location    string
	Password    string
	KeyPassword string
	Key, Chain  string // PEM in line (ssl.keystore.key, ssl.keystore.certificate.chain)
}

// Truststore is where the certificates are that others' chains must lead to (ssl.truststore.*).
type Truststore struct {
	Type         string
	Location     string
	Password     string
	Certificates string // PEM in line
}

// Empty says whether nothing is configured.
func (k Keystore) Empty() bool   { return k.Location == "" && k.Key == "" && k.Chain == "" }
func (t Truststore) Empty() bool { return t.Location == "" && t.Certificates == "" }

// StoreError names the property that is wrong, and the file where there is one. It never holds a secret.
type StoreError struct {
	Property, File string
	Err            error
}

func (e *StoreError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("%s: %v", e.Property, e.Err)
	}
	return fmt.Sprintf("%s=%s: %v", e.Property, e.File, e.Err)
}

func (e *StoreError) Unwrap() error { return e.Err }

var (
	errNoKey         = errors.New("there is no private key in it")
	errNoCertificate = errors.New("there is no certificate in it")
	errPassword      = errors.New("the password is wrong, or the file is damaged")
	errKeyMismatch   = errors.New("the private key does not belong to the certificate")
	errNoPassword    = errors.New("it does not open without a password, and none is set: set")
)

// Load returns the key and its chain, leaf first.
func (k Keystore) Load(read ReadFile) (*tls.Certificate, error) {
	key, chain, err := k.parts(read)
	if err == nil {
		err = matches(key, chain)
	}
	if err != nil {
		property := "ssl.keystore.location"
		if k.Location == "" {
			property = "ssl.keystore.key"
		}
		return nil, &StoreError{property, k.Location, err}
	}
	c := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, x := range chain {
		c.Certificate = append(c.Certificate, x.Raw)
	}
	return c, nil
}

func (k Keystore) parts(read ReadFile) (crypto.PrivateKey, []*x509.Certificate, error) {
	kind := strings.ToUpper(k.Type)
	if kind == "PEM" {
		return k.pemParts(read)
	}
	switch {
	case k.Key != "" || k.Chain != "":
		return nil, nil, errors.New("a key in line needs ssl.keystore.type=PEM")
	case kind != "JKS" && kind != "PKCS12":
		return nil, nil, fmt.Errorf("ssl.keystore.type=%s is none of JKS, PKCS12, PEM", k.Type)
	}
	data, err := read(k.Location, maxStoreBytes)
	if err != nil {
		return nil, nil, err
	}
	key, chain, err := storeKey(data, k.Password, k.KeyPassword)
	return key, chain, unopened(err, data, "ssl.keystore", k.Password)
}

// storeKey returns the key and its chain of a JKS or PKCS12 store. The file says which it is, as in Java.
func storeKey(data []byte, password, keyPassword string) (crypto.PrivateKey, []*x509.Certificate, error) {
	if isJKS(data) {
		return jksKey(data, password, keyPassword)
	}
	key, leaf, rest, err := pkcs12.DecodeChain(data, password)
	if err != nil {
		return nil, nil, pkcs12Error(err)
	}
	return key, chainOf(leaf, rest), nil
}

// unopened says what to set for a store that does not open: its type where the file is PEM, its password where there is
// none. Any other error stays as it is.
func unopened(err error, data []byte, prefix, password string) error {
	switch {
	case err == nil:
		return nil
	case isPEM(data):
		return fmt.Errorf("this file is PEM: set %s.type=PEM", prefix)
	case errors.Is(err, errPassword) && password == "":
		return fmt.Errorf("%w %s.password", errNoPassword, prefix)
	}
	return err
}

// isPEM says whether there is a block of PEM in a file.
func isPEM(data []byte) bool {
	b, _ := pem.Decode(data)
	return b != nil
}

// chainOf returns leaf and its issuers, as far as they are among others, which a PKCS12 store keeps in any order and
// beside certificates that it trusts.
func chainOf(leaf *x509.Certificate, others []*x509.Certificate) []*x509.Certificate {
	chain := []*x509.Certificate{leaf}
	for last := leaf; !bytes.Equal(last.RawIssuer, last.RawSubject); {
		i := slices.IndexFunc(others, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawSubject, last.RawIssuer) && !slices.Contains(chain, c)
		})
		if i < 0 {
			break
		}
		last = others[i]
		chain = append(chain, last)
	}
	return chain
}

func (k Keystore) pemParts(read ReadFile) (crypto.PrivateKey, []*x509.Certificate, error) {
	key, chain := []byte(k.Key), []byte(k.Chain)
	switch {
	case k.Password != "":
		return nil, nil, errors.New("a keystore of type PEM has no password; only the key has one (ssl.key.password)")
	case k.Location != "" && (k.Key != "" || k.Chain != ""):
		return nil, nil, errors.New("there is a key in line, too: only one of both can be meant")
	case k.Location != "":
		data, err := read(k.Location, maxStoreBytes)
		if err != nil {
			return nil, nil, err
		}
		key, chain = data, data
	}
	private, err := pemKey(key, k.KeyPassword)
	if err != nil {
		return nil, nil, err
	}
	certificates, err := pemCertificates(chain)
	return private, certificates, err
}

// matches refuses a key that is not the leaf's.
func matches(key crypto.PrivateKey, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errNoCertificate
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return errNoKey
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(chain[0].PublicKey) {
		return errKeyMismatch
	}
	return nil
}

// Load returns the trusted certificates.
func (t Truststore) Load(read ReadFile) ([]*x509.Certificate, error) {
	out, err := t.certificates(read)
	if err == nil && len(out) == 0 {
		err = errNoCertificate
	}
	if err != nil {
		property := "ssl.truststore.location"
		if t.Location == "" {
			property = "ssl.truststore.certificates"
		}
		return nil, &StoreError{property, t.Location, err}
	}
	return out, nil
}

func (t Truststore) certificates(read ReadFile) ([]*x509.Certificate, error) {
	kind := strings.ToUpper(t.Type)
	switch {
	case kind != "JKS" && kind != "PKCS12" && kind != "PEM":
		return nil, fmt.Errorf("ssl.truststore.type=%s is none of JKS, PKCS12, PEM", t.Type)
	case t.Certificates != "" && (kind != "PEM" || t.Location != ""):
		return nil, errors.New("certificates in line need ssl.truststore.type=PEM and no ssl.truststore.location")
	case t.Certificates != "":
		return pemCertificates([]byte(t.Certificates))
	case kind == "PEM" && t.Password != "":
		return nil, errors.New("a truststore of type PEM has no password")
	}
	data, err := read(t.Location, maxStoreBytes)
	switch {
	case err != nil:
		return nil, err
	case kind == "PEM":
		return pemCertificates(data)
	}
	out, err := storeCertificates(data, t.Password)
	return out, unopened(err, data, "ssl.truststore", t.Password)
}

// storeCertificates returns the certificates of a JKS or PKCS12 store. The file says which it is, as in Java.
func storeCertificates(data []byte, password string) ([]*x509.Certificate, error) {
	if isJKS(data) {
		return jksCertificates(data, password)
	}
	trusted, err := pkcs12.DecodeTrustStore(data, password)
	if err == nil {
		return trusted, nil
	}
	if _, leaf, rest, keyErr := pkcs12.DecodeChain(data, password); keyErr == nil { // a keystore used as a truststore
		return append([]*x509.Certificate{leaf}, rest...), nil
	}
	return nil, pkcs12Error(err)
}

func pkcs12Error(err error) error {
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return errPassword
	}
	return fmt.Errorf("not a PKCS12 store that can be read: %w", err)
}

// jksMagic begins a JKS file.
var jksMagic = []byte{0xfe, 0xed, 0xfe, 0xed}

func isJKS(data []byte) bool { return bytes.HasPrefix(data, jksMagic) }

func openJKS(data []byte, password string) (keystore.KeyStore, error) {
	ks := keystore.New(keystore.WithOrderedAliases())
	if !jksLengths(data) { // the library would set aside what a length claims
		return ks, errPassword
	}
	if err := ks.Load(bytes.NewReader(data), []byte(password)); err != nil {
		return ks, errPassword
	}
	return ks, nil
}

// jksLengths says whether each length in a JKS store is within it.
func jksLengths(data []byte) bool {
	s := cryptobyte.String(data)
	var version, count, tag uint32
	var text cryptobyte.String
	if !s.Skip(len(jksMagic)) || !s.ReadUint32(&version) || !s.ReadUint32(&count) {
		return false
	}
	certificate := func() bool {
		return (version != 2 || s.ReadUint16LengthPrefixed(&text)) && skipLong(&s)
	}
	for range count {
		if !s.ReadUint32(&tag) || !s.ReadUint16LengthPrefixed(&text) || !s.Skip(8) {
			return false
		}
		chain := uint32(1)
		if tag == 1 && (!skipLong(&s) || !s.ReadUint32(&chain)) { // else it is a certificate alone
			return false
		}
		for range chain {
			if !certificate() {
				return false
			}
		}
	}
	return true
}

// skipLong skips bytes behind their length of 32 bits.
func skipLong(s *cryptobyte.String) bool {
	var n uint32
	return s.ReadUint32(&n) && int64(n) <= int64(len(*s)) && s.Skip(int(n))
}

// jksKey returns the first key entry. Its password is the store's unless it has one of its own.
func jksKey(data []byte, password, keyPassword string) (crypto.PrivateKey, []*x509.Certificate, error) {
	ks, err := openJKS(data, password)
	if err != nil {
		return nil, nil, err
	}
	if keyPassword == "" {
		keyPassword = password
	}
	for _, alias := range ks.Aliases() {
		if !ks.IsPrivateKeyEntry(alias) {
			continue
		}
		entry, err := ks.GetPrivateKeyEntry(alias, []byte(keyPassword))
		if err != nil {
			return nil, nil, errors.New("ssl.key.password does not open the private key")
		}
		key, err := x509.ParsePKCS8PrivateKey(entry.PrivateKey)
		if err != nil {
			return nil, nil, err
		}
		var chain []*x509.Certificate
		for _, c := range entry.CertificateChain {
			parsed, err := x509.ParseCertificate(c.Content)
			if err != nil {
				return nil, nil, err
			}
			chain = append(chain, parsed)
		}
		return key, chain, nil
	}
	return nil, nil, errNoKey
}

// jksCertificates returns all trusted entries, and the chains of key entries.
func jksCertificates(data []byte, password string) ([]*x509.Certificate, error) {
	ks, err := openJKS(data, password)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for _, alias := range ks.Aliases() {
		var entries []keystore.Certificate
		if ks.IsTrustedCertificateEntry(alias) {
			entry, err := ks.GetTrustedCertificateEntry(alias)
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry.Certificate)
		} else if chain, err := ks.GetPrivateKeyEntryCertificateChain(alias); err == nil {
			entries = chain
		}
		for _, e := range entries {
			c, err := x509.ParseCertificate(e.Content)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	return out, nil
}
