package config

import (
	"strings"
	"testing"
)

const (
	krb5Line = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config=" + krb5Module + ` required useKeyTab=true storeKey=true keyTab="/etc/k" principal="kafka/a@R";` + "\n"
	krb5     = "listeners=SASL_PLAINTEXT://:1\n" + krb5Line
)

func TestKerberos(t *testing.T) {
	b, err := Load(Sources{FileName: "f", Env: []string{"KRB5_CONFIG=/x/krb5.conf"}, File: []byte(krb5 + "sasl.kerberos.service.name=kafka\nlistener.name.sasl_plaintext.sasl.kerberos.principal.to.local.rules=RULE:[1:$1]/L,DEFAULT\n" +
		"sasl.kerberos.kinit.cmd=/usr/local/bin/kinit")})
	if err != nil {
		t.Fatal(err)
	}
	k := b.Kerberos(b.Listeners[0])
	if k.Keytab != "/etc/k" || k.Principal != "kafka/a@R" || !k.Initiates || k.Service != "kafka" || len(k.Rules) != 2 || b.Text("java.security.krb5.conf") != "/x/krb5.conf" || len(b.Unused) > 0 {
		t.Errorf("%+v, %s, unused %v", k, b.Text("java.security.krb5.conf"), b.Unused)
	}
	b, err = Load(Sources{FileName: "f", Env: []string{"KRB5_CONFIG=/x/krb5.conf"}, File: []byte("java.security.krb5.conf=/y")})
	if err != nil || b.Text("java.security.krb5.conf") != "/y" {
		t.Error(err, b.Text("java.security.krb5.conf"))
	}
}

// A keytab and a principal can be given without a line of JAAS, which counts before them.
func TestKerberosPlainForm(t *testing.T) {
	const plain = "sasl.kerberos.service.name=kafka\nsasl.kerberos.keytab=/etc/all\nsasl.kerberos.principal=kafka/b\n"
	for file, want := range map[string]string{"listeners=SASL_PLAINTEXT://:1\n" + plain: "/etc/all kafka/b", krb5 + plain: "/etc/k kafka/a@R"} {
		b, err := Load(Sources{FileName: "f", File: []byte(file)})
		if err != nil {
			t.Fatal(err)
		}
		if k := b.Kerberos(b.Listeners[0]); k.Keytab+" "+k.Principal != want || !k.Initiates || len(b.Unused) > 0 {
			t.Errorf("%+v, unused %v", k, b.Unused)
		}
	}
}

func TestKerberosRefusals(t *testing.T) {
	const two = "listeners=SASL_PLAINTEXT://:1,CONTROLLER://:2\nlistener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\ngossip.key=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
	line := func(options string) string {
		return "listeners=SASL_PLAINTEXT://:1\nsasl.kerberos.service.name=kafka\nlistener.name.sasl_plaintext.gssapi.sasl.jaas.config=" + krb5Module + " required " + options + ";\n"
	}
	for file, want := range map[string]string{
		krb5: "config: sasl.kerberos.service.name= (): listener SASL_PLAINTEXT has mechanism GSSAPI, which needs the name of the service",
		krb5 + "sasl.kerberos.service.name=kafka\nsasl.kerberos.principal.to.local.rules=RULE:[1:$2]":                                 "config: sasl.kerberos.principal.to.local.rules=RULE:[1:$2] (f): invalid rule \"RULE:[1:$2]\": $2 is no component",
		krb5 + "sasl.kerberos.service.name=kafka\nlistener.name.sasl_plaintext.sasl.kerberos.principal.to.local.rules=RULE:[1:$1](()": "config: listener.name.sasl_plaintext.sasl.kerberos.principal.to.local.rules=",
		line(""):                        "a login by Kerberos is one by a keytab",
		"listeners=SASL_PLAINTEXT://:1": "or sasl.kerberos.keytab and sasl.kerberos.principal",
		"listeners=SASL_PLAINTEXT://:1\nsasl.kerberos.keytab=k":                                                             `config: sasl.kerberos.keytab=k (f): principal="<name>/<host>@<realm>" is missing`,
		"listeners=SASL_PLAINTEXT://:1\nsasl.kerberos.principal=k":                                                          "a login by Kerberos is one by a keytab",
		line("useKeyTab=true storeKey=true principal=a"):                                                                    "a login by Kerberos is one by a keytab",
		line("useKeyTab=true keyTab=k principal=a"):                                                                         "storeKey=true is missing",
		line("useKeyTab=true storeKey=true keyTab=k"):                                                                       "is missing",
		line("useKeyTab=true storeKey=true keyTab=k useTicketCache=true principal=a"):                                       "useTicketCache=true",
		line(`useKeyTab=true storeKey=true keyTab=k principal="a/"`):                                                        "is no name of a principal",
		line(`useKeyTab=true storeKey=true keyTab=k principal=a serviceName=other`):                                         "is not the serviceName of",
		krb5 + "sasl.kerberos.service.name=kafka\nlistener.name.sasl_plaintext.gssapi.sasl.login.class=a.B":                 "protects, and is not implemented",
		two + strings.ReplaceAll(krb5Line, "useKeyTab", "isInitiator=false useKeyTab") + "sasl.kerberos.service.name=kafka": "isInitiator=false: this node logs in to other nodes by it",
	} {
		_, err := Load(Sources{FileName: "f", File: []byte(file)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", file, err)
		}
	}
}
