package certs

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"os"
	"runtime"
	"strings"
	"testing"
)

// FuzzMapping: the first rule that matches decides, and what a rule makes has its letters.
func FuzzMapping(f *testing.F) {
	f.Add(`RULE:^CN=(.*?),OU=(.*)$/$1@$2/L,DEFAULT`, "CN=a,OU=b")
	f.Add(`RULE:^cn=(.*)$/$1/, RULE:^CN=(\w+),.*$/$1x/U ,DEFAULT`, "CN=ann,O=b")
	f.Add(`RULE:^CN=a\/b$/c\/d/`, "CN=a/b")
	f.Fuzz(func(t *testing.T, rules, dn string) {
		m, err := ParseMapping(rules)
		if err != nil {
			return
		}
		name, ok := m.Name(dn)
		for _, r := range m {
			alone, matches := Mapping{r}.Name(dn)
			if !matches {
				continue
			}
			if !ok || name != alone {
				t.Fatalf("%q makes %q, %v of %q; its first rule that matches makes %q", rules, name, ok, dn, alone)
			}
			if r.letters == 'L' && name != strings.ToLower(name) || r.pattern == nil && name != dn {
				t.Fatalf("%q makes %q of %q", rules, name, dn)
			}
			return
		}
		if ok {
			t.Fatalf("%q has no rule for %q, and makes %q of it", rules, dn, name)
		}
	})
}

// FuzzPEM: keys and certificates that were read and are written again are read the same.
func FuzzPEM(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE----- MA== -----END CERTIFICATE-----"), "x")
	for _, name := range []string{"node-all.pem", "node.key", "node.key.enc", "chain.pem"} {
		b, err := os.ReadFile(file(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "keysecret")
		f.Add(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), "")
	}
	f.Fuzz(func(t *testing.T, data []byte, password string) {
		if certificates, err := pemCertificates(data); err == nil {
			var again []byte
			for _, c := range certificates {
				again = append(again, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
			}
			got, err := pemCertificates(again)
			if err != nil || len(got) != len(certificates) || !got[0].Equal(certificates[0]) {
				t.Fatalf("%d certificates; written again %d, %v", len(certificates), len(got), err)
			}
		}
		if slowKey(data) {
			t.Skip("iterations that an operator chose")
		}
		key, err := pemKey(data, password)
		if err != nil {
			if len(password) > 8 && strings.Contains(err.Error(), password) {
				t.Fatalf("the password is in %q", err)
			}
			return
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return // a key of a kind that signs nothing
		}
		again, err := pemKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), "")
		if same, ok := key.(interface{ Equal(crypto.PrivateKey) bool }); err != nil || ok && !same.Equal(again) {
			t.Fatalf("a key is another when it is written again: %v", err)
		}
	})
}

// slowKey says whether a key is encrypted: fuzzing of the iterations inside would only wait.
func slowKey(data []byte) bool { return bytes.Contains(data, []byte("ENCRYPTED")) }

// storeBytesFactor is how much of what a store's length is its reading may allocate, beside storeBytesBase.
const storeBytesFactor, storeBytesBase = 64, 4 << 20

// FuzzStores reads JKS stores of any bytes with the right passwords: nothing panics, memory follows the length, and no
// error has a password or a line's end.
func FuzzStores(f *testing.F) {
	for _, name := range []string{"node.jks", "trust.jks"} {
		b, err := os.ReadFile(file(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:40])
	}
	f.Add([]byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Add([]byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		if !isJKS(data) {
			return // PKCS12 has its iterations inside: its parser is TestDamagedPKCS12's
		}
		read := func(string, int64) ([]byte, error) { return data, nil }
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, keyErr := Keystore{Type: "JKS", Location: "x", Password: "secret", KeyPassword: "keysecret"}.Load(read)
		_, trustErr := Truststore{Type: "JKS", Location: "x", Password: "catrust"}.Load(read)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(len(data)*storeBytesFactor+storeBytesBase) {
			t.Fatalf("%d bytes of a store had %d allocated", len(data), got)
		}
		for _, err := range []error{keyErr, trustErr} {
			if err != nil && (strings.Contains(err.Error(), "keysecret") || strings.Contains(err.Error(), "\n")) {
				t.Fatal(err)
			}
		}
	})
}

// Of a PKCS12 store one byte after another is changed: it is read or refused in one line without its password.
func TestDamagedPKCS12(t *testing.T) {
	data := []byte(text(t, "node.p12"))
	for at := 0; at < len(data); at += max(1, len(data)/120) {
		for _, flip := range []byte{1, 0x80} {
			bad := bytes.Clone(data)
			bad[at] ^= flip
			_, err := Keystore{Type: "PKCS12", Location: "x", Password: "secret"}.Load(func(string, int64) ([]byte, error) { return bad, nil })
			if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n")) {
				t.Fatalf("byte %d: %v", at, err)
			}
		}
	}
}
