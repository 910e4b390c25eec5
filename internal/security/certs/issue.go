package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"time"
)

// Authority issues certificates for a cluster of one's own.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	random      io.Reader
	now         time.Time
}

const (
	authorityYears = 10
	serialBytes    = 16
	// clockSlack: a certificate is valid a little before it is made, for machines whose clocks are behind.
	clockSlack = time.Hour
)

// NewAuthority makes a key and a certificate that signs others, valid for ten years.
func NewAuthority(name string, random io.Reader, now time.Time) (*Authority, error) {
	a := &Authority{random: random, now: now}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{"Grete"}}, NotBefore: now.Add(-clockSlack), NotAfter: now.AddDate(authorityYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	var err error
	if a.certificate, a.key, err = a.issue(template); err != nil {
		return nil, err
	}
	return a, nil
}

// OpenAuthority reads one that was made before, from PEM.
func OpenAuthority(certificate, key []byte, random io.Reader, now time.Time) (*Authority, error) {
	chain, err := pemCertificates(certificate)
	if err != nil {
		return nil, err
	}
	private, err := pemKey(key, "")
	if err != nil {
		return nil, err
	}
	if err := matches(private, chain); err != nil {
		return nil, err
	}
	if !chain[0].IsCA {
		return nil, fmt.Errorf("%s is not a certificate that signs others", DN(chain[0]))
	}
	return &Authority{certificate: chain[0], key: private.(crypto.Signer), random: random, now: now}, nil
}

// Certificate is the authority's own, in PEM: what others have as their truststore.
func (a *Authority) Certificate() []byte { return certificatePEM(a.certificate) }

// Key is the authority's private key, in PEM.
func (a *Authority) Key() ([]byte, error) { return keyPEM(a.key) }

// Issue makes a key and a certificate for servers and clients, in one PEM file as a keystore of type PEM has it. hosts are names and addresses.
func (a *Authority) Issue(name string, hosts []string, days int) ([]byte, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{"Grete"}}, NotBefore: a.now.Add(-clockSlack), NotAfter: a.now.AddDate(0, 0, days),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	leaf, key, err := a.issue(template)
	if err != nil {
		return nil, err
	}
	out, err := keyPEM(key)
	return append(append(out, certificatePEM(leaf)...), a.Certificate()...), err
}

// issue signs a template with a new key; the first is the authority's own.
func (a *Authority) issue(template *x509.Certificate) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), a.random)
	if err != nil {
		return nil, nil, err
	}
	serial := make([]byte, serialBytes)
	if _, err := io.ReadFull(a.random, serial); err != nil {
		return nil, nil, err
	}
	serial[0] &= 0x7f
	template.SerialNumber = new(big.Int).SetBytes(serial)
	issuer, signer := a.certificate, a.key
	if issuer == nil {
		issuer, signer = template, key
	}
	der, err := x509.CreateCertificate(a.random, template, issuer, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return leaf, key, err
}

func certificatePEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func keyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
