package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"grete/internal/security/kerberos"
)

const krb5Conf = "[libdefaults]\n default_realm = R\n"

// serviceKeys has keys of principals of the realm R, made of a password.
func serviceKeys(t *testing.T, password string, principals ...string) (*keytab.Keytab, []byte) {
	t.Helper()
	kt := keytab.New()
	for _, p := range principals {
		if err := kt.AddEntry(p, "R", password, time.Unix(1, 0), 1, etypeID.AES128_CTS_HMAC_SHA1_96); err != nil {
			t.Fatal(err)
		}
	}
	file, err := kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return kt, file
}

// ticketOf logs in by tickets for kafka/a that it makes with the service's own keys.
type ticketOf struct {
	t    *testing.T
	keys *keytab.Keytab
	user string
}

func (ticketOf) Name() string { return "GSSAPI" }

func (k ticketOf) Authenticate(context.Context, string) (sasl.Session, []byte, error) {
	name := func(text string) types.PrincipalName { return types.NewPrincipalName(1, text) }
	from, until := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	message, key, err := messages.NewTicket(name(k.user), "R", name("kafka/a"), "R", types.NewKrbFlags(), k.keys, etypeID.AES128_CTS_HMAC_SHA1_96, 1, from, from, until, until)
	if err != nil {
		return nil, nil, err
	}
	ticket := kerberos.Ticket{Client: kerberos.Principal{Components: strings.Split(k.user, "/"), Realm: "R"}, Message: message, Key: key}
	i, token, err := ticket.Begin(time.Now(), func(p []byte) { clear(p) }, kerberos.Enctypes{etypeID.AES128_CTS_HMAC_SHA1_96})
	return &ticketSession{initiator: i}, token, err
}

type ticketSession struct {
	initiator *kerberos.Initiator
	context   *kerberos.Context
	chosen    bool
}

func (s *ticketSession) Challenge(challenge []byte) (done bool, token []byte, err error) {
	switch {
	case s.context == nil:
		s.context, err = s.initiator.Prove(challenge)
		return false, []byte{}, err
	case s.chosen:
		return true, nil, nil
	}
	s.chosen = true
	if _, err := s.context.Unwrap(challenge); err != nil {
		return false, nil, err
	}
	token, err = s.context.Wrap([]byte{1, 0, 0, 0})
	return false, token, err
}

func gssapiListener(more ...string) []string {
	return append([]string{
		"listeners=SASL_PLAINTEXT://127.0.0.1:0", "java.security.krb5.conf=/krb5.conf", "sasl.kerberos.service.name=kafka",
		`listener.name.sasl_plaintext.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="/keytab" principal="kafka/a";`,
	}, more...)
}

// A keytab that is replaced is read while the node runs; one that cannot be read leaves the keys of before in force.
func TestKerberosListener(t *testing.T) {
	first, firstFile := serviceKeys(t, "first", "kafka/a")
	second, secondFile := serviceKeys(t, "second", "kafka/a")
	c := emptyCluster(t)
	c.add(gssapiListener("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ann")...)
	disk := c.disks[0]
	write(t, disk, "/krb5.conf", []byte(krb5Conf))
	write(t, disk, "/keytab", firstFile)
	log := &logBuffer{}
	c.options[0].Log = zerolog.New(log)
	c.start(0)
	as := func(keys *keytab.Keytab, user string) *kgo.Client {
		return saslClient(t, c.running[0], "SASL_PLAINTEXT", ticketOf{t, keys, user})
	}
	if err := ping(t, as(first, "ann")); err != nil {
		t.Fatal(err)
	}
	for name, cl := range map[string]*kgo.Client{"keys of another service": as(second, "ann"), "a name of three parts": as(first, "ann/b/c")} {
		if err := ping(t, cl); err == nil {
			t.Errorf("%s: got in", name)
		}
	}
	write(t, disk, "/keytab", []byte("nothing"))
	c.eventually("a line about the keytab", func() bool { return log.count("the keytab has changed") == 1 })
	if err := ping(t, as(first, "ann")); err != nil {
		t.Error("the keys of before are out of force:", err)
	}
	write(t, disk, "/keytab", secondFile)
	c.eventually("the new keys", func() bool { return ping(t, as(second, "ann")) == nil })
	if err := ping(t, as(first, "ann")); err == nil {
		t.Error("keys that are withdrawn still count")
	}
}

func TestStartWithoutWhatKerberosNeeds(t *testing.T) {
	_, good := serviceKeys(t, "x", "kafka/a")
	_, other := serviceKeys(t, "x", "kafka/b", "kafka")
	for name, c := range map[string]struct {
		conf, keytab, want string
	}{
		"no krb5.conf":      {"", string(good), "java.security.krb5.conf=/krb5.conf: "},
		"a bad krb5.conf":   {"[libdefaults]\n x", string(good), "java.security.krb5.conf=/krb5.conf: "},
		"no realm":          {"[libdefaults]\n", string(good), "keytab /keytab: the principal has no realm"},
		"no keytab":         {krb5Conf, "", "keytab /keytab: "},
		"a bad keytab":      {krb5Conf, "x", "keytab /keytab: the file is no keytab, or damaged"},
		"another principal": {krb5Conf, string(other), "keytab /keytab: the keytab has no key for kafka/a@R"},
	} {
		cl := emptyCluster(t)
		cl.add(gssapiListener()...)
		for file, text := range map[string]string{"/krb5.conf": c.conf, "/keytab": c.keytab} {
			if text != "" {
				write(t, cl.disks[0], file, []byte(text))
			}
		}
		n, err := Start(t.Context(), cl.options[0])
		if err == nil {
			stopNode(t, n)
			err = errors.New("started")
		}
		if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
