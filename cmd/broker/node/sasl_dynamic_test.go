package node

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"grete/internal/config"
)

const ofSASL = "listener.name.sasl_plaintext."

// dynamicSASLRig is a broker with a listener for the admin and one that authenticates.
func dynamicSASLRig(t *testing.T) *nodes {
	c := emptyCluster(t)
	c.add("listeners=SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256", ofSASL+"plain.sasl.jaas.config="+saslUsers,
		"sasl.bootstrap.users=bob:b", "connection.failed.authentication.delay.ms=0")
	return c
}

func (c *nodes) admin(t *testing.T) *kgo.Client {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.running[0].Addr("PLAINTEXT")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// jaasOf is a line of PLAIN with users, each as name=password.
func jaasOf(users ...string) string {
	line := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for _, u := range users {
		name, password, _ := strings.Cut(u, "=")
		line += " user_" + name + `="` + password + `"`
	}
	return line + ";"
}

// Users, mechanisms, sessions and sizes of a listener change with the answer to kafka-configs, for new logins and for
// those who log in again; they are there after a start, and go away with the property. What cannot be is refused, and
// leaves what was.
func TestDynamicSASL(t *testing.T) {
	c := dynamicSASLRig(t)
	log := c.logs(0)
	c.start(0)
	set := func(name, value string, want int16) {
		t.Helper()
		v := &value
		if value == "" {
			v = nil
		}
		if code, message := alterConfig(t, c.admin(t), kmsg.ConfigResourceTypeBroker, "1", name, v); code != want || strings.Contains(message, "hunter") {
			t.Errorf("%s: %d %s", name, code, message)
		}
	}
	in := func(user, password string, want bool) {
		t.Helper()
		if err := ping(t, saslClient(t, c.running[0], "SASL_PLAINTEXT", plain.Auth{User: user, Pass: password}.AsMechanism())); (err == nil) != want {
			t.Errorf("%s %s: %v", user, password, err)
		}
	}
	in("ann", "x", true)
	in("zed", "hunter3", false)
	set(ofSASL+"plain.sasl.jaas.config", jaasOf("ann=y", "zed=hunter3"), 0)
	in("ann", "x", false)
	in("ann", "y", true)
	in("zed", "hunter3", true)
	for _, bad := range []string{"hunter4", jaasOf(), strings.TrimSuffix(jaasOf("eve=hunter4"), ";"), "a.B required user_eve=hunter4;"} {
		set(ofSASL+"plain.sasl.jaas.config", bad, 42)
	}
	in("zed", "hunter3", true)
	in("eve", "hunter4", false)

	set(ofSASL+"plain.connections.max.reauth.ms", "1500", 0)
	set(ofSASL+"connections.max.reauth.ms", "soon", 42)
	zed := saslClient(t, c.running[0], "SASL_PLAINTEXT", plain.Auth{User: "zed", Pass: "hunter3"}.AsMechanism())
	if err := ping(t, zed); err != nil {
		t.Fatal(err)
	}
	set(ofSASL+"plain.sasl.jaas.config", jaasOf("ann=y"), 0) // who is not there any more does not go on after the session
	time.Sleep(1600 * time.Millisecond)
	if err := ping(t, zed); err == nil {
		t.Error("a user who is gone goes on")
	}
	set(ofSASL+"sasl.server.max.receive.size", "10", 0)
	in("ann", "y", false)
	set(ofSASL+"sasl.server.max.receive.size", "", 0)

	set(ofSASL+"sasl.enabled.mechanisms", "SCRAM-SHA-256", 0)
	in("ann", "y", false)
	for _, bad := range []string{"NONSENSE", "PLAIN,OAUTHBEARER"} {
		set(ofSASL+"sasl.enabled.mechanisms", bad, 42)
	}
	bob := saslClient(t, c.running[0], "SASL_PLAINTEXT", scram.Auth{User: "bob", Pass: "b"}.AsSha256Mechanism())
	if err := ping(t, bob); err != nil {
		t.Error(err)
	}
	c.stop(0)
	c.start(0)
	in("ann", "y", false)
	set(ofSASL+"sasl.enabled.mechanisms", "", 0)
	in("ann", "y", true)
	describe := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
	describe.Resources, describe.IncludeSynonyms = append(describe.Resources, res), true
	resp, err := describe.RequestWith(t.Context(), c.admin(t))
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(resp); !strings.Contains(string(text), "plain.sasl.jaas.config") || strings.Contains(string(text), "user_ann") {
		t.Error("DescribeConfigs has no line of users, or shows it")
	}
	set(ofSASL+"plain.sasl.jaas.config", "", 0)
	in("ann", "x", true)
	if log.count("hunter") > 0 || log.count("user_") > 0 {
		t.Error("the log has a secret")
	}
}

// Each property of SASL under the name of a listener, or of a mechanism of it, is applied or refused: none is taken in
// vain.
func TestEveryDynamicPropertyOfSASLIsAppliedOrRefused(t *testing.T) {
	c := dynamicSASLRig(t)
	c.start(0)
	cl := c.admin(t)
	applied := map[string]string{
		"sasl.enabled.mechanisms": "PLAIN", "sasl.server.max.receive.size": "1000", "connections.max.reauth.ms": "1000",
		"plain.connections.max.reauth.ms": "1000", "scram-sha-256.connections.max.reauth.ms": "1000", "scram-sha-512.connections.max.reauth.ms": "", "oauthbearer.connections.max.reauth.ms": "",
		"plain.sasl.jaas.config": jaasOf("ann=z"), "scram-sha-256.sasl.jaas.config": "", "scram-sha-512.sasl.jaas.config": "",
	}
	now := func() string {
		n := c.running[0]
		l := n.o.Config.Listeners[0]
		text, _ := json.Marshal(n.saslConfig.Load().Mechanisms(l))
		return string(text) + n.saslConfig.Load().ListenerText(l.Name, "sasl.server.max.receive.size")
	}
	for d := range config.BrokerDefs.All() {
		if !strings.HasPrefix(d.Name, "sasl.") && d.Name != "connections.max.reauth.ms" {
			continue
		}
		for _, at := range []string{"", "plain.", "scram-sha-256.", "scram-sha-512.", "oauthbearer."} {
			value, honoured := applied[at+d.Name]
			if value == "" {
				value = "7"
				for _, candidate := range candidates {
					if d.Validate(candidate) == nil {
						value = candidate
					}
				}
			}
			before := now()
			code, message := alterConfig(t, cl, kmsg.ConfigResourceTypeBroker, "1", ofSASL+at+d.Name, &value)
			switch {
			case code != 0 && (code != 42 || now() != before):
				t.Errorf("%s: %d %s, and something changes", at+d.Name, code, message)
			case code == 0 && !honoured:
				t.Errorf("%s=%s is taken, and nothing shows it", at+d.Name, value)
			case code == 0 && applied[at+d.Name] != "" && now() == before || code != 0 && applied[at+d.Name] != "":
				t.Errorf("%s=%s changes nothing: %d %s", at+d.Name, value, code, message)
			}
			if code == 0 {
				alterConfig(t, cl, kmsg.ConfigResourceTypeBroker, "1", ofSASL+at+d.Name, nil)
			}
			if now() != before {
				t.Errorf("%s does not go away", at+d.Name)
			}
			if code, message := alterConfig(t, cl, kmsg.ConfigResourceTypeBroker, "", ofSASL+at+d.Name, &value); code != 42 || strings.Contains(message, "user_") {
				t.Errorf("%s for all brokers: %d %s", at+d.Name, code, message)
			}
		}
	}
}
