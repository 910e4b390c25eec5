package config

import (
	"strings"
	"testing"
)

const (
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	krb5Module  = "com.sun.security.auth.module.Krb5LoginModule"
	scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
	plainUsers  = "listener.name.sasl_plaintext.plain.sasl.jaas.config=" + plainModule + ` required username="node" password="hunter2" user_node="hunter2" user_ann="x";` + "\n"
)

func TestSASLListeners(t *testing.T) {
	file := "listeners=SASL_PLAINTEXT://:1,CONTROLLER://:2\nlistener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT\n" + plainUsers +
		"sasl.enabled.mechanisms=SCRAM-SHA-512\nlistener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n" +
		"connections.max.reauth.ms=1\nlistener.name.sasl_plaintext.connections.max.reauth.ms=2\nlistener.name.sasl_plaintext.plain.connections.max.reauth.ms=3\n" +
		"sasl.mechanism.inter.broker.protocol=PLAIN\nsasl.mechanism.controller.protocol=SCRAM-SHA-512\nsasl.node.username=other\nsasl.node.password=y\n" +
		"sasl.server.max.receive.size=5\nlistener.name.controller.sasl.server.max.receive.size=6"
	b, err := Load(Sources{FileName: "f", File: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	clients, controllers := b.Mechanisms(b.Listeners[0]), b.Mechanisms(b.Controllers[0])
	if len(clients) != 2 || clients[0].Name != "PLAIN" || clients[0].MaxReauthMs != 3 || clients[1].MaxReauthMs != 2 || len(clients[0].JAAS.Users()) != 2 {
		t.Errorf("%+v", clients)
	}
	if len(controllers) != 1 || controllers[0].Name != "SCRAM-SHA-512" || controllers[0].MaxReauthMs != 1 {
		t.Errorf("%+v", controllers)
	}
	if n := b.ListenerInt("SASL_PLAINTEXT", "sasl.server.max.receive.size"); n != 5 {
		t.Error(n)
	}
	if n := b.ListenerInt("CONTROLLER", "sasl.server.max.receive.size"); n != 6 {
		t.Error(n)
	}
	for l, want := range map[Listener]string{b.InterBrokerListener(): "PLAIN node hunter2 true", b.Quorum: "SCRAM-SHA-512 other y true", {}: "   false"} {
		mechanism, user, password, ok := b.NodeLogin(l)
		if got := strings.Join([]string{mechanism, user, password, map[bool]string{true: "true", false: "false"}[ok]}, " "); got != want {
			t.Errorf("%s: %s", l.Name, got)
		}
	}
	if len(b.Unused) > 0 {
		t.Error(b.Unused)
	}
}

// A node that is alone needs no login of its own.
func TestSASLAlone(t *testing.T) {
	for _, file := range []string{
		"listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=SCRAM-SHA-256\nsasl.bootstrap.users=a:hunter2",
		"listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=PLAIN\n" + plainUsers,
		"listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=PLAIN\nsasl.plain.users.file=x",
		"listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=OAUTHBEARER\nsasl.oauthbearer.jwks.endpoint.url=file:///k\norg.apache.kafka.sasl.oauthbearer.allowed.urls=https://x/y,file:///k\n" +
			"sasl.oauthbearer.expected.audience=a,b\nsasl.oauthbearer.allow.unverified.issuer=true\nlistener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=" + bearerHandler,
	} {
		if _, err := Load(Sources{FileName: "f", File: []byte(file)}); err != nil {
			t.Error(err)
		}
	}
}

func TestSASLRefusals(t *testing.T) {
	const bearer = "listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=OAUTHBEARER\n"
	const keys = "sasl.oauthbearer.jwks.endpoint.url=file:///k\norg.apache.kafka.sasl.oauthbearer.allowed.urls=file:///k,https://x/y\n"
	const unsecured = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
	const nodes = "listeners=SASL_PLAINTEXT://:1,CONTROLLER://:2\nlistener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT\nsasl.enabled.mechanisms=OAUTHBEARER\n" + keys +
		"sasl.oauthbearer.expected.audience=a\nsasl.oauthbearer.expected.issuer=i\nsasl.mechanism.inter.broker.protocol=OAUTHBEARER\nsasl.mechanism.controller.protocol=OAUTHBEARER\nsecurity.inter.broker.protocol=SASL_PLAINTEXT\n"
	const two = "listeners=SASL_PLAINTEXT://:1,CONTROLLER://:2\nlistener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT\n"
	for file, want := range map[string]string{
		"listeners=SASL_PLAINTEXT://:1":                                                                                                                   "config: listener.name.sasl_plaintext.gssapi.sasl.jaas.config=[hidden] (): listener SASL_PLAINTEXT has mechanism GSSAPI, which needs the login module " + krb5Module,
		"listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=":                                                                                         "has no mechanism",
		"listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=plain":                                                                                    "has mechanism plain, which is not implemented",
		"listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=PLAIN":                                                                                    "nobody can log in",
		"listener.name.plaintext.plain.sasl.jaas.config=x":                                                                                                "[hidden] (f): login module control flag",
		"listener.name.plaintext.sasl.jaas.config=" + plainModule + " required;":                                                                          "protects, and is not implemented",
		"sasl.jaas.config=" + plainModule + " required;":                                                                                                  "protects, and is not implemented",
		"listener.name.external.plain.sasl.jaas.config=" + plainModule + " required;":                                                                     "there is no listener EXTERNAL",
		"listener.name.plaintext.ntlm.sasl.jaas.config=" + plainModule + " required;":                                                                     "protects, and is not implemented",
		"sasl.bootstrap.users=SCRAM-SHA-256=[name=a,password=hunter2,iterations=1]":                                                                       "user 1: iterations must be from 4096 to 16384",
		"sasl.bootstrap.users=a:hunter2;hunter2":                                                                                                          "user 2: not name:password",
		"listener.name.plaintext.plain.sasl.server.callback.handler.class=a.B":                                                                            "protects, and is not implemented",
		two + "sasl.enabled.mechanisms=SCRAM-SHA-256":                                                                                                     "sasl.mechanism.inter.broker.protocol= (): must be among sasl.enabled.mechanisms of listener SASL_PLAINTEXT",
		two + "sasl.enabled.mechanisms=SCRAM-SHA-256\nsasl.mechanism.inter.broker.protocol=NTLM":                                                          "this mechanism is not implemented between nodes",
		two + "sasl.enabled.mechanisms=SCRAM-SHA-256\nsasl.mechanism.inter.broker.protocol=PLAIN":                                                         "must be among sasl.enabled.mechanisms of listener SASL_PLAINTEXT",
		two + "sasl.enabled.mechanisms=PLAIN\nsasl.plain.users.file=x\nsasl.mechanism.inter.broker.protocol=PLAIN":                                        "this node has no username and password",
		"listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=SCRAM-SHA-256\nlistener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=a.B required;": "the login module of SCRAM-SHA-256 is " + scramModule,
		bearer: "sasl.oauthbearer.jwks.endpoint.url= (): OAUTHBEARER on listener SASL_PLAINTEXT needs the keys",
		bearer + "sasl.oauthbearer.jwks.endpoint.url=https://a/b": "must be one of org.apache.kafka.sasl.oauthbearer.allowed.urls",
		bearer + "sasl.oauthbearer.jwks.endpoint.url=ldap://a/b":  "must begin with https://",
		bearer + keys: "sasl.oauthbearer.expected.",
		bearer + keys + "sasl.oauthbearer.expected.audience=a":                                                                                                               "sasl.oauthbearer.expected.issuer= (): OAUTHBEARER on listener SASL_PLAINTEXT needs it",
		bearer + "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=a.B":                                                                           "must be " + bearerHandler,
		bearer + "sasl.oauthbearer.jwt.validator.class=a.B":                                                                                                                  "protects, and is not implemented",
		bearer + "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=" + unsecuredHandler + "\n" + keys:                                             "asks for signatures",
		bearer + "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=" + unsecuredHandler + "\n" + unsecured + "unsecuredValidatorRequiredScope=a;": "is not implemented",
		nodes: "sasl.oauthbearer.token.endpoint.url= (): this node has nobody to get tokens from",
		nodes + "sasl.oauthbearer.token.endpoint.url=https://no":                                                          "must be one of org.apache.kafka.sasl.oauthbearer.allowed.urls",
		nodes + "sasl.oauthbearer.token.endpoint.url=https://x/y":                                                         "this node needs an id and a secret",
		nodes + "listener.name.sasl_plaintext.oauthbearer.sasl.login.callback.handler.class=a.B":                          "the only class is",
		nodes + unsecured + "unsecuredLoginNumberClaim_sub=\"7\";":                                                        "it has no unsecuredLoginStringClaim_sub",
		nodes + unsecured + "unsecuredLoginStringClaim_sub=node unsecuredLoginLifetimeSeconds=\"-1\";":                    "must be a positive number",
		nodes + "sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever": "protects, and is not implemented",
	} {
		_, err := Load(Sources{FileName: "f", File: []byte(file)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", file, err)
		}
	}
}
