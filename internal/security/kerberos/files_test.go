package kerberos

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
)

func TestReadKeys(t *testing.T) {
	strong, rc4 := keytabOf(t, etypeID.AES128_CTS_HMAC_SHA256_128, service), keytabOf(t, etypeID.RC4_HMAC, service)
	if _, err := ReadKeys(strong, service, strongTypes); err != nil {
		t.Error(err)
	}
	if _, err := ReadKeys(rc4, service, append(strongTypes, weakTypes...)); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		file []byte
		p    Principal
		want string
	}{
		"another principal": {strong, ann, "the keytab has no key for ann@R"},
		"another realm":     {strong, Principal{service.Components, "Q"}, "no key for kafka/a.example@Q"},
		"a weak type":       {rc4, service, "allow_weak_crypto"},
		"no keytab":         {[]byte("hello"), service, "no keytab, or damaged"},
		"nothing":           {nil, service, "no keytab, or damaged"},
		"cut":               {strong[:len(strong)-9], service, "no keytab, or damaged"},
	} {
		_, err := ReadKeys(c.file, c.p, strongTypes)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseConf(t *testing.T) {
	const file = "[libdefaults]\n default_realm = R\n clockskew = 60\n[realms]\n R = {\n  kdc = a:1\n }\n"
	c, err := ParseConf([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if c.DefaultRealm() != "R" || c.Skew() != time.Minute || len(c.Enctypes()) != len(strongTypes) || len(c.file.LibDefaults.DefaultTktEnctypeIDs) != len(strongTypes) {
		t.Errorf("%+v", c)
	}
	for text, want := range map[string]int{
		"allow_weak_crypto = true": 6, "permitted_enctypes = aes256-cts-hmac-sha1-96 rc4-hmac": 1, "allow_weak_crypto = true\n permitted_enctypes = aes256-cts-hmac-sha1-96 rc4-hmac": 2,
	} {
		c, err := ParseConf([]byte(strings.Replace(file, "clockskew = 60", text, 1)))
		if err != nil || len(c.Enctypes()) != want {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
	for text, want := range map[string]string{
		"includedir /etc/krb5.conf.d/\n" + file:                                        "are not read",
		"include /etc/other\n" + file:                                                  "are not read",
		"[libdefaults]\n clockskew = soon":                                             "libdefaults",
		"[libdefaults]\n nothing":                                                      "libdefaults",
		strings.Replace(file, "clockskew = 60", "permitted_enctypes = des-cbc-md5", 1): "no encryption type",
		"[realms]\n R = {\n  a = {\n  }\n }\n":                                         errDamaged.Error(), // gokrb5 panics
	} {
		if _, err := ParseConf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzKeytab(f *testing.F) {
	f.Add(keytabOf(f, etypeID.AES256_CTS_HMAC_SHA1_96, service))
	f.Fuzz(func(t *testing.T, file []byte) {
		if k, err := ReadKeys(file, service, strongTypes); err == nil && k.Principal.String() != service.String() {
			t.Error(k.Principal)
		}
	})
}

func FuzzConf(f *testing.F) {
	f.Add("[libdefaults]\n default_realm = R\n[realms]\n R = {\n  kdc = a:1\n }\n[domain_realm]\n .a = R\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseConf([]byte(text)); err == nil {
			_, _, _ = c.DefaultRealm(), c.Skew(), c.Enctypes()
		}
	})
}

// What anybody sends is taken from nobody, and no panic leaves the package.
func FuzzAccept(f *testing.F) {
	s := newFixture(f)
	_, token := request(f, s.good(f), now)
	f.Add(token)
	f.Add(token[17:])
	f.Fuzz(func(t *testing.T, token []byte) {
		s.Replays = NewReplays()
		for _, token := range [][]byte{token, frameToken(tokenAPReq, token)} {
			if c, _, err := s.Accept(token); err == nil && c.Client.String() != "ann@R" {
				t.Error(c.Client)
			}
		}
	})
}

func FuzzUnframe(f *testing.F) {
	f.Add(frameToken(tokenAPReq, []byte("x")))
	f.Fuzz(func(t *testing.T, token []byte) {
		if inner, err := unframeToken(token, tokenAPReq); err == nil && !bytes.Equal(frameToken(tokenAPReq, inner), token) {
			t.Error("another framing of the same token")
		}
	})
}

// FuzzUnwrap: a payload is one that the other side has wrapped.
func FuzzUnwrap(f *testing.F) {
	key := newFixture(f).good(f).Key
	receiver := &Context{key: key, accepts: true}
	good, err := (&Context{key: key}).Wrap([]byte{1, 0, 0, 0})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, token []byte) {
		if payload, err := receiver.Unwrap(token); err == nil && !bytes.Equal(payload, []byte{1, 0, 0, 0}) {
			t.Errorf("%x", payload)
		}
	})
}
