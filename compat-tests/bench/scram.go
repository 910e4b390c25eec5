package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
)

const (
	scramUser, scramPassword = "ann", "ann's password"
	loginsAtOnce             = 8
	loginsPerRound           = 8000
)

// scramLoad connects, logs in and hangs up, over and over. The client derives its key once, so that the broker is
// measured and not PBKDF2, which is the client's alone.
type scramLoad struct {
	mechanism  string
	iterations int
}

func (l scramLoad) run(t *target, _ int) (sample, error) {
	if err := l.makeUser(t); err != nil {
		return sample{}, err
	}
	client, err := l.hash().NewClient(scramUser, scramPassword, "")
	if err != nil {
		return sample{}, err
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) { // until the broker has read of the user
		if err = l.login(t.endpoint, client); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		return sample{}, err
	}
	m := startMeter(t)
	var next atomic.Int64
	err = parallel(loginsAtOnce, func(int) error {
		var lat []time.Duration
		for next.Add(1) <= loginsPerRound {
			at := time.Now()
			if err := l.login(t.endpoint, client); err != nil {
				return err
			}
			lat = append(lat, time.Since(at))
		}
		m.add(lat)
		return nil
	})
	s := m.sample(1)
	s.msPerLogin = s.seconds * 1000 / loginsPerRound
	return s, err
}

func (l scramLoad) hash() scram.HashGeneratorFcn {
	if l.mechanism == "SCRAM-SHA-512" {
		return scram.SHA512
	}
	return scram.SHA256
}

// login is one connection.
func (l scramLoad) login(to endpoint, client *scram.Client) error {
	c, err := to.dialBuffered(1 << 10)
	if err != nil {
		return err
	}
	defer c.close()
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Version, hello.Mechanism = 1, l.mechanism
	resp, err := c.call(hello)
	if err != nil {
		return err
	}
	if code := resp.(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
		return fmt.Errorf("SaslHandshake: error code %d", code)
	}
	conversation, challenge := client.NewConversation(), ""
	for !conversation.Done() {
		token, err := conversation.Step(challenge)
		if err != nil {
			return err
		}
		if conversation.Done() {
			break
		}
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = 1, []byte(token)
		resp, err := c.call(req)
		if err != nil {
			return err
		}
		answer := resp.(*kmsg.SASLAuthenticateResponse)
		if answer.ErrorCode != 0 {
			return fmt.Errorf("SaslAuthenticate: error code %d", answer.ErrorCode)
		}
		challenge = string(answer.SASLAuthBytes)
	}
	if !conversation.Valid() {
		return errors.New("the broker does not know the password")
	}
	return nil
}

// makeUser sets the credential over the plain listener.
func (l scramLoad) makeUser(t *target) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.plain.addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mechanism := kadm.ScramSha256
	if l.mechanism == "SCRAM-SHA-512" {
		mechanism = kadm.ScramSha512
	}
	user := kadm.UpsertSCRAM{User: scramUser, Mechanism: mechanism, Iterations: int32(l.iterations), Password: scramPassword}
	answers, err := kadm.NewClient(cl).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{user})
	if err == nil {
		err = answers.Error()
	}
	return err
}
