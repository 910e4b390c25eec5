package kerberos

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/types"
)

// MaxKeytabBytes bounds a keytab.
const MaxKeytabBytes = 1 << 20

// Keys are the keys of one principal.
type Keys struct {
	Principal Principal

	keytab *keytab.Keytab
	types  Enctypes
}

// ReadKeys finds the keys of a principal in a keytab. No error tells what is in the file.
func ReadKeys(file []byte, p Principal, allowed Enctypes) (*Keys, error) {
	k := &Keys{Principal: p, keytab: keytab.New(), types: allowed}
	if err := guarded(func() error { return k.keytab.Unmarshal(file) }); err != nil {
		return nil, errors.New("the file is no keytab, or damaged")
	}
	has := false
	for _, t := range slices.Concat(strongTypes, weakTypes) {
		if _, _, err := k.keytab.GetEncryptionKey(p.wire(), p.Realm, 0, t); err != nil {
			continue
		}
		if allowed.check(t) == nil {
			return k, nil
		}
		has = true
	}
	if has {
		return nil, fmt.Errorf("the keytab has keys for %s of encryption types alone that krb5.conf does not allow (allow_weak_crypto, permitted_enctypes)", p)
	}
	return nil, fmt.Errorf("the keytab has no key for %s", p)
}

// open decrypts what is encrypted with a key of the principal.
func (k *Keys) open(data types.EncryptedData, use uint32) ([]byte, error) {
	if err := k.types.check(data.EType); err != nil {
		return nil, err
	}
	key, _, err := k.keytab.GetEncryptionKey(k.Principal.wire(), k.Principal.Realm, data.KVNO, data.EType)
	if err != nil {
		return nil, fmt.Errorf("the keytab has no key of version %d and encryption type %d for %s", data.KVNO, data.EType, k.Principal)
	}
	return decrypt(data, key, use)
}

// decrypt tells nothing about the key in its error.
func decrypt(data types.EncryptedData, key types.EncryptionKey, use uint32) ([]byte, error) {
	if data.EType != key.KeyType {
		return nil, fmt.Errorf("encryption type %d where %d is due", data.EType, key.KeyType)
	}
	plain, err := crypto.DecryptEncPart(data, key, use)
	if err != nil {
		return nil, errors.New("the key does not fit")
	}
	return plain, nil
}
