package sasl

import (
	"strings"
	"testing"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// What GSSAPI allocates for a first token follows its length, as for the other mechanisms.
func TestGSSAPIAllocatesInProportion(t *testing.T) {
	f := newGSSAPI(t)
	const size = 400 << 10
	for name, realm := range map[string]string{"many components": "R", "a long realm": strings.Repeat("R", size)} {
		service := types.PrincipalName{NameType: 2, NameString: []string{"kafka", "a"}}
		if name == "many components" {
			service.NameString = make([]string, size/2)
		}
		sealed := types.EncryptedData{EType: 18, Cipher: make([]byte, 100)}
		request, err := (&messages.APReq{
			PVNO: 5, MsgType: 14, APOptions: asn1.BitString{Bytes: make([]byte, 4), BitLength: 32},
			Ticket: messages.Ticket{TktVNO: 5, Realm: realm, SName: service, EncPart: sealed}, EncryptedAuthenticator: sealed,
		}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		token := append([]byte("\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00"), request...)
		n := len(token)
		token = append([]byte{0x60, 0x83, byte(n >> 16), byte(n >> 8), byte(n)}, token...)
		e := f.server.Begin()
		inProportion(t, "GSSAPI with "+name, e, token)
		if _, _, err := f.server.Begin().Next(token); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	inProportion(t, "GSSAPI with zeros", f.server.Begin(), make([]byte, size))
}
