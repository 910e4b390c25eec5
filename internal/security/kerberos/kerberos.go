// Package kerberos is Kerberos 5 as SASL's GSSAPI mechanism has it (RFC 4120, 4121, 4752): tokens, the side that
// accepts a client, the side that begins, keys and names. It opens no file and no connection itself.
package kerberos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/types"
)

// maxPrincipalBytes bounds the name of a principal with its realm.
const maxPrincipalBytes = 1024

// Principal is a name in a realm.
type Principal struct {
	Components []string
	Realm      string
}

// ParsePrincipal reads a/b@REALM. Without a realm the default one is meant.
func ParsePrincipal(text, defaultRealm string) (Principal, error) {
	name, realm, has := strings.Cut(text, "@")
	if !has {
		realm = defaultRealm
	}
	p := Principal{strings.Split(name, "/"), realm}
	if realm == "" {
		return p, errors.New("the principal has no realm, and there is no default_realm")
	}
	return p, p.check()
}

// String is a/b@REALM.
func (p Principal) String() string { return p.Name() + "@" + p.Realm }

// Name is the name without its realm.
func (p Principal) Name() string { return strings.Join(p.Components, "/") }

// check refuses names that are another name once they are written: what separates the parts must not be within one.
func (p Principal) check() error {
	if len(p.String()) > maxPrincipalBytes {
		return fmt.Errorf("the name of the principal is longer than %d bytes", maxPrincipalBytes)
	}
	for _, part := range append([]string{p.Realm}, p.Components...) {
		if part == "" || strings.ContainsAny(part, `/@\`) || strings.ContainsFunc(part, unicode.IsControl) {
			return fmt.Errorf("%q is no name of a principal", p.String())
		}
	}
	return nil
}

// is says whether a name in a message is this one. The type of a name means nothing (RFC 4120, 6.2).
func (p Principal) is(name types.PrincipalName, realm string) bool {
	return realm == p.Realm && p.wire().Equal(name)
}

func (p Principal) wire() types.PrincipalName {
	return types.PrincipalName{NameType: nametype.KRB_NT_PRINCIPAL, NameString: p.Components}
}

// Enctypes are types of encryption that are taken, the best first.
type Enctypes []int32

// strongTypes and weakTypes are those that gokrb5 knows. Those of DES are not among them.
var (
	strongTypes = Enctypes{etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96}
	weakTypes   = Enctypes{etypeID.DES3_CBC_SHA1_KD, etypeID.RC4_HMAC}
)

// within are those that are in a list, too.
func (e Enctypes) within(list []int32) Enctypes {
	return slices.DeleteFunc(slices.Clone(e), func(t int32) bool { return !slices.Contains(list, t) })
}

// check refuses a type that is not taken.
func (e Enctypes) check(id int32) error {
	if !slices.Contains(e, id) {
		return fmt.Errorf("encryption type %d is not taken", id)
	}
	return nil
}

// checkKey refuses a key of a type that is not taken, and one that is not as long as its type says.
func (e Enctypes) checkKey(k types.EncryptionKey) error {
	if err := e.check(k.KeyType); err != nil {
		return err
	}
	t, err := crypto.GetEtype(k.KeyType)
	if err != nil {
		return err
	}
	if len(k.KeyValue) != t.GetKeyByteSize() {
		return fmt.Errorf("a key of encryption type %d has %d bytes", k.KeyType, len(k.KeyValue))
	}
	return nil
}

var errDamaged = errors.New("damaged in a way that the decoder does not expect")

// guarded runs f, which gives bytes of others to gokrb5: some of what is damaged has that library panic.
func guarded(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errDamaged
		}
	}()
	return f()
}
