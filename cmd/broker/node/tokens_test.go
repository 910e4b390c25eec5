package node

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func requestToken(t *testing.T, cl *kgo.Client, lifeMs int64) *kmsg.CreateDelegationTokenResponse {
	t.Helper()
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.MaxLifetimeMillis = lifeMs
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func tokenAuth(t *kmsg.CreateDelegationTokenResponse) scram.Auth {
	return scram.Auth{User: t.TokenID, Pass: base64.StdEncoding.EncodeToString(t.HMAC), IsToken: true}
}

// requireTokenSurvives stops the controller and starts it again: by the token one logs in before and after, and the
// next controller renews it. It returns a client of its owner's.
func requireTokenSurvives(t *testing.T, c *nodes, token *kmsg.CreateDelegationTokenResponse) *kgo.Client {
	t.Helper()
	first := c.leader()
	c.stop(first)
	next := c.leader()
	if err := ping(t, saslClient(t, c.running[next], "SASL_PLAINTEXT", tokenAuth(token).AsSha256Mechanism())); err != nil {
		t.Error("by the next controller:", err)
	}
	ann := saslClient(t, c.running[next], "SASL_PLAINTEXT", plain.Auth{User: "ann", Pass: "x"}.AsMechanism())
	renew := kmsg.NewPtrRenewDelegationTokenRequest()
	renew.HMAC, renew.RenewTimeMillis = token.HMAC, 3_600_000
	renewed, err := renew.RequestWith(t.Context(), ann)
	if err != nil || renewed.ErrorCode != 0 {
		t.Fatal(renewed, err)
	}
	c.start(first)
	c.eventually("the token is renewed where it was away", func() bool {
		r := c.running[first].image().Token(token.TokenID)
		return r != nil && r.ExpirationTimestamp == renewed.ExpiryTimestamp
	})
	if err := ping(t, saslClient(t, c.running[first], "SASL_PLAINTEXT", tokenAuth(token).AsSha512Mechanism())); err != nil {
		t.Error("after a start:", err)
	}
	return ann
}

// Who has a token is its owner on every broker, may ask for no other, and until its end alone; nobody else gets in, and
// no log has the secret or an HMAC.
func TestDelegationTokens(t *testing.T) {
	at := freePorts(t, 3)
	var voters []string
	for i := range at {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, at[i]))
	}
	c := emptyCluster(t)
	for i := range at {
		c.add("controller.quorum.voters="+strings.Join(voters, ","), "listeners=SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://"+at[i],
			"listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT", "security.inter.broker.protocol=SASL_PLAINTEXT",
			"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=PLAIN", "sasl.mechanism.controller.protocol=PLAIN",
			"listener.name.sasl_plaintext.plain.sasl.jaas.config="+saslUsers, "listener.name.controller.plain.sasl.jaas.config="+saslUsers,
			"delegation.token.secret.key=hunter2", "connection.failed.authentication.delay.ms=0")
	}
	log := c.logs(0)
	c.start(0, 1, 2)
	ann := saslClient(t, c.running[0], "SASL_PLAINTEXT", plain.Auth{User: "ann", Pass: "x"}.AsMechanism())
	token, short := requestToken(t, ann, -1), requestToken(t, ann, 3000)
	if token.ErrorCode != 0 || token.PrincipalName != "ann" || short.ErrorCode != 0 {
		t.Fatalf("%+v", token)
	}
	hmac := base64.StdEncoding.EncodeToString(token.HMAC)
	for i := range c.running {
		c.eventually("the token is known", func() bool { return c.running[i].image().Token(short.TokenID) != nil })
		by := saslClient(t, c.running[i], "SASL_PLAINTEXT", tokenAuth(token).AsSha512Mechanism())
		if resp := requestToken(t, by, -1); resp.ErrorCode != kerr.DelegationTokenRequestNotAllowed.Code || resp.PrincipalName != "ann" {
			t.Errorf("broker %d: %+v", i+1, resp)
		}
		for _, wrong := range []scram.Auth{{User: token.TokenID, Pass: hmac}, {User: token.TokenID, Pass: "x", IsToken: true}, {User: "ann", Pass: "x", IsToken: true}, {User: short.TokenID, Pass: hmac, IsToken: true}} {
			if err := ping(t, saslClient(t, c.running[i], "SASL_PLAINTEXT", wrong.AsSha256Mechanism())); !errors.Is(err, kerr.SaslAuthenticationFailed) {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
	}
	brief := saslClient(t, c.running[1], "SASL_PLAINTEXT", tokenAuth(short).AsSha256Mechanism())
	if err := ping(t, brief); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Until(time.UnixMilli(short.MaxTimestamp)) + 10*time.Millisecond)
	if err := ping(t, brief); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("after the token's end: %v", err)
	}
	ann = requireTokenSurvives(t, c, token)
	end := kmsg.NewPtrExpireDelegationTokenRequest()
	end.HMAC, end.ExpiryPeriodMillis = token.HMAC, -1
	if resp, err := end.RequestWith(t.Context(), ann); err != nil || resp.ErrorCode != 0 {
		t.Error(resp, err)
	}
	for i := range c.running {
		c.eventually("the token is gone", func() bool { return c.running[i].image().Token(token.TokenID) == nil })
		if err := ping(t, saslClient(t, c.running[i], "SASL_PLAINTEXT", tokenAuth(token).AsSha256Mechanism())); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("a token that is gone: %v", err)
		}
	}
	configs := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
	configs.Resources, configs.IncludeSynonyms = append(configs.Resources, res), true
	resp, err := configs.RequestWith(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(resp); err != nil || !strings.Contains(string(text), "delegation.token.secret.key") || strings.Contains(string(text), "hunter2") {
		t.Error("DescribeConfigs has the secret, or no key", err)
	}
	if log.count("hunter2") > 0 || log.count(hmac) > 0 || log.count(string(token.HMAC)) > 0 {
		t.Error("the log has a secret")
	}
}
