package sasl

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// KeySet is the public keys of an issuer (RFC 7517).
type KeySet struct{ keys []webKey }

type webKey struct {
	id, algorithm, family string
	key                   crypto.PublicKey
}

const (
	// maxWebKeys bounds a set.
	maxWebKeys = 1000
	// minRSABits is what Kafka's library wants of a key at least.
	minRSABits = 2048
)

// ParseKeySet reads a JSON Web Key Set. Keys of kinds that sign nothing here are passed over; one without any other is an error.
func ParseKeySet(text []byte) (*KeySet, error) {
	var set struct {
		Keys []struct{ Kty, Use, Kid, Alg, Crv, N, E, X, Y string }
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > maxWebKeys {
		return nil, fmt.Errorf("a set of more than %d keys", maxWebKeys)
	}
	out := &KeySet{}
	for i, k := range set.Keys {
		if k.Use != "" && k.Use != "sig" {
			continue
		}
		var key webKey
		var err error
		switch {
		case k.Kty == "RSA":
			key, err = rsaKey(k.N, k.E)
		case k.Kty == "EC":
			key, err = ecKey(k.Crv, k.X, k.Y)
		case k.Kty == "OKP" && k.Crv == "Ed25519":
			key, err = edKey(k.X)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		key.id, key.algorithm = k.Kid, k.Alg
		out.keys = append(out.keys, key)
	}
	if len(out.keys) == 0 {
		return nil, errors.New("the JSON Web Key Set has no key for signatures")
	}
	return out, nil
}

// find is the key for a signature by an algorithm; nil when there is none, or without an id more than one.
func (s *KeySet) find(id, algorithm string) crypto.PublicKey {
	var found crypto.PublicKey
	for _, k := range s.keys {
		if id != "" && k.id != id || k.algorithm != "" && k.algorithm != algorithm || !k.signs(algorithm) {
			continue
		}
		if found != nil {
			return nil
		}
		found = k.key
	}
	return found
}

func (k webKey) signs(algorithm string) bool {
	if k.family == "RSA" {
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	}
	return k.family == algorithm
}

func number(text string) (*big.Int, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(b) == 0 {
		return nil, errors.New("a number is not base64url")
	}
	return new(big.Int).SetBytes(b), nil
}

func rsaKey(n, e string) (webKey, error) {
	modulus, err := number(n)
	if err != nil {
		return webKey{}, err
	}
	exponent, err := number(e)
	switch {
	case err != nil:
		return webKey{}, err
	case !exponent.IsInt64() || exponent.Int64() < 3 || exponent.Int64() > 1<<31-1:
		return webKey{}, errors.New("the exponent is out of range")
	case modulus.BitLen() < minRSABits || modulus.BitLen() > 16384:
		return webKey{}, fmt.Errorf("an RSA key of %d bits", modulus.BitLen())
	}
	return webKey{family: "RSA", key: &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}}, nil
}

func ecKey(curve, x, y string) (webKey, error) {
	c, family := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[curve],
		map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}[curve]
	if c == nil {
		return webKey{}, fmt.Errorf("curve %.20q", curve)
	}
	px, err := number(x)
	if err != nil {
		return webKey{}, err
	}
	py, err := number(y)
	if err != nil {
		return webKey{}, err
	}
	size := (c.Params().BitSize + 7) / 8
	if px.BitLen() > 8*size || py.BitLen() > 8*size {
		return webKey{}, errors.New("a point outside its curve")
	}
	point := append([]byte{4}, px.FillBytes(make([]byte, size))...)
	key, err := ecdsa.ParseUncompressedPublicKey(c, append(point, py.FillBytes(make([]byte, size))...))
	return webKey{family: family, key: key}, err
}

func edKey(x string) (webKey, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(x, "="))
	if err != nil || len(b) != ed25519.PublicKeySize {
		return webKey{}, errors.New("not an Ed25519 key")
	}
	return webKey{family: "EdDSA", key: ed25519.PublicKey(b)}, nil
}
