package certs

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/youmark/pkcs8"
)

// blocks returns the PEM blocks of data whose type ends so. Text in line may have its line breaks as spaces.
func blocks(data []byte, suffix string) []*pem.Block {
	var out []*pem.Block
	for rest := []byte(unfold(string(data))); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return out
		}
		if strings.HasSuffix(b.Type, suffix) {
			out = append(out, b)
		}
	}
}

// unfold puts the line breaks back that a property in one line has lost: Kafka takes PEM with spaces for them.
func unfold(text string) string {
	if strings.Count(text, "\n") > 1 || !strings.Contains(text, "-----BEGIN ") {
		return text
	}
	var out strings.Builder
	for {
		begin := strings.Index(text, "-----BEGIN ")
		if begin < 0 {
			return out.String()
		}
		text = text[begin:]
		head := strings.Index(text[len("-----BEGIN "):], "-----")
		end := strings.Index(text, "-----END ")
		if head < 0 || end < 0 {
			return out.String()
		}
		head += len("-----BEGIN ") + len("-----")
		tail := strings.Index(text[end+len("-----END "):], "-----")
		if tail < 0 || end < head {
			return out.String()
		}
		tail += end + len("-----END ") + len("-----")
		out.WriteString(text[:head] + "\n" + strings.Join(strings.Fields(text[head:end]), "\n") + "\n" + text[end:tail] + "\n")
		text = text[tail:]
	}
}

// pemKey returns the private key of data, in PKCS8 (encrypted or not), PKCS1 or SEC1 form.
func pemKey(data []byte, password string) (crypto.PrivateKey, error) {
	keys := blocks(data, "PRIVATE KEY")
	if len(keys) == 0 {
		return nil, errNoKey
	}
	b := keys[0]
	switch b.Type {
	case "ENCRYPTED PRIVATE KEY":
		if password == "" {
			return nil, errors.New("the private key is encrypted, and there is no ssl.key.password")
		}
		key, err := pkcs8.ParsePKCS8PrivateKey(b.Bytes, []byte(password))
		if err != nil {
			return nil, errors.New("ssl.key.password does not open the private key")
		}
		return key, nil
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(b.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(b.Bytes)
	}
	return x509.ParsePKCS8PrivateKey(b.Bytes)
}

func pemCertificates(data []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for i, b := range blocks(data, "CERTIFICATE") {
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errNoCertificate
	}
	return out, nil
}
