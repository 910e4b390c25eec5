package certs

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"strings"
)

// keywords are the attribute types that Java's X500Principal writes by name in the form of RFC 2253; all others are
// written as numbers.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type attributeSET []attribute

// DN returns the subject of a certificate as Java's X500Principal.getName() does, the name that principal mapping rules
// see: the last attribute first, joined by commas without spaces.
func DN(c *x509.Certificate) string {
	var sequence []attributeSET
	if rest, err := asn1.Unmarshal(c.RawSubject, &sequence); err != nil || len(rest) > 0 {
		return ""
	}
	parts := make([]string, 0, len(sequence))
	for i := len(sequence) - 1; i >= 0; i-- {
		var set []string
		for _, a := range sequence[i] {
			set = append(set, a.String())
		}
		parts = append(parts, strings.Join(set, "+"))
	}
	return strings.Join(parts, ",")
}

func (a attribute) String() string {
	name, known := keywords[a.Type.String()]
	text, printable := stringOf(a.Value)
	if !known || !printable {
		if !known {
			name = a.Type.String()
		}
		return name + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	return name + "=" + escape(text)
}

// stringOf returns the text of an ASN.1 string.
func stringOf(v asn1.RawValue) (string, bool) {
	if v.Class != asn1.ClassUniversal {
		return "", false
	}
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, asn1.TagT61String:
		return string(v.Bytes), true
	case asn1.TagBMPString:
		var s string
		_, err := asn1.Unmarshal(v.FullBytes, &s)
		return s, err == nil
	}
	return "", false
}

// escape puts a backslash before what RFC 2253 wants it before.
func escape(s string) string {
	var out strings.Builder
	for i, r := range s {
		edge := i == 0 || i == len(s)-1
		switch {
		case strings.ContainsRune(`,+"\<>;`, r), edge && r == ' ', i == 0 && r == '#':
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
