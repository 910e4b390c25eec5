package config

import (
	"fmt"
	"strings"
	"testing"
)

// What asks for protection and protects nothing is told at the start, one warning for each kind. What is used is not.
func TestWhatProtectsNothingIsTold(t *testing.T) {
	const scram = "listeners=SASL_PLAINTEXT://:9092\nsasl.enabled.mechanisms=SCRAM-SHA-256\n"
	for _, tt := range []struct {
		file string
		want []string // properties of each warning
	}{
		{"", nil},
		{"super.users=User:a\n", []string{"super.users"}},
		{"super.users=User:a\nallow.everyone.if.no.acl.found=true\n", []string{"allow.everyone.if.no.acl.found super.users"}},
		{"super.users=\n", nil},
		{"super.users=User:a\nauthorizer.class.name=" + standardAuthorizer, nil},
		{"sasl.enabled.mechanisms=SCRAM-SHA-256\nsasl.bootstrap.users=a:b\n", []string{"sasl.bootstrap.users sasl.enabled.mechanisms"}},
		{scram + "sasl.bootstrap.users=a:b\n", nil},
		{scram + "ssl.keystore.location=/x\nssl.keystore.password=x\n", []string{"ssl.keystore.location ssl.keystore.password"}},
		{"ssl.keystore.location=/x\nadmin.security.protocol=SSL\n", nil},
		{"listeners=SSL://:9092\nssl.keystore.location=/x\n", nil},
		{"ssl.keystore.location=/x\nsasl.enabled.mechanisms=PLAIN\nsuper.users=User:a\n", []string{"super.users", "sasl.enabled.mechanisms", "ssl.keystore.location"}},
		{"listeners=A://:9092,B://:9093\nlistener.security.protocol.map=A:SASL_SSL,B:PLAINTEXT,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=A\nsasl.mechanism.inter.broker.protocol=SCRAM-SHA-256\n" +
			"sasl.enabled.mechanisms=SCRAM-SHA-256\nlistener.name.a.ssl.client.auth=required\nlistener.name.b.ssl.client.auth=required\nlistener.name.b.scram-sha-256.sasl.jaas.config=" +
			loginModules["SCRAM-SHA-256"] + " required;\n", []string{"listener.name.b.scram-sha-256.sasl.jaas.config", "listener.name.b.ssl.client.auth"}},
		{"process.roles=controller\nlisteners=CONTROLLER://:9093\ncontroller.quorum.voters=1@localhost:9093\nlistener.security.protocol.map=CONTROLLER:SSL\nssl.keystore.location=/x\n", nil},
	} {
		b, err := Load(Sources{FileName: "f", File: []byte(tt.file)})
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		var got []string
		for _, w := range b.Warnings {
			got = append(got, strings.Join(w.Properties, " "))
			if w.Reason == "" || strings.Contains(w.Reason, "\n") {
				t.Errorf("%q", w.Reason)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %q, want %q", tt.file, got, tt.want)
		}
	}
}
