package kerberos

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"

	"grete/internal/clock"
)

// newLogin is a login at a realm whose one KDC is asked by dial.
func newLogin(t *testing.T, c clock.Clock, dial func() error) *Login {
	t.Helper()
	conf, err := ParseConf([]byte("[libdefaults]\n default_realm = R\n[realms]\n R = {\n  kdc = 127.0.0.1:88\n }\n"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ReadKeys(keytabOf(t, etypeID.AES256_CTS_HMAC_SHA1_96, service), service, strongTypes)
	if err != nil {
		t.Fatal(err)
	}
	kdc := &KDC{Conf: conf, Clock: c, Dial: func(context.Context, string) (net.Conn, error) { return nil, dial() }}
	return NewLogin(kdc, func() *Keys { return keys }, LoginSettings{MinPause: time.Minute, Chance: func() float64 { return 0 }})
}

// A ticket that is to be renewed is used until it ends while no KDC answers; one is asked again after
// sasl.kerberos.min.time.before.relogin, and after a second once there is no ticket.
func TestLoginWithoutKDC(t *testing.T) {
	c, asked, down := clock.NewManual(now), 0, errors.New("down")
	l := newLogin(t, c, func() error { asked++; return down })
	l.granting, l.renewAt = &granting{ends: now.Add(2 * time.Minute)}, now.Add(time.Minute)
	l.tickets["kafka/a"] = &Ticket{Ends: now.Add(2 * time.Minute)}
	for _, step := range []struct {
		at    time.Duration
		asked int
		good  bool
	}{
		{0, 0, true}, {59 * time.Second, 0, true}, {60 * time.Second, 1, true}, {100 * time.Second, 1, true}, {119 * time.Second, 1, true}, {120 * time.Second, 2, false},
		{120*time.Second + retryPause - 1, 2, false}, {120*time.Second + retryPause, 3, false},
	} {
		c.Advance(now.Add(step.at).Sub(c.Now()))
		got, err := l.Ticket(t.Context(), "kafka", "a")
		if asked != step.asked || (err == nil) != step.good || (got != nil) != step.good || !step.good && !errors.Is(err, down) {
			t.Errorf("after %v: asked %d times, not %d; %v, %v", step.at, asked, step.asked, got, err)
		}
	}
}

// A caller that waits while another asks the KDC stops when its own time is over.
func TestLoginEndsWithItsCaller(t *testing.T) {
	l := newLogin(t, clock.NewManual(now), func() error { return errors.New("down") })
	if err := l.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Ticket(ctx, "kafka", "a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What a KDC answers is taken up to a bound, and damaged or cut it is an error.
func TestAnswersOfKDCs(t *testing.T) {
	for name, answer := range map[string]string{
		"none": "", "cut": "\x00\x00\x00\x09abc", "empty": "\x00\x00\x00\x00", "too long": "\x7f\xff\xff\xff", "damaged": "\x00\x00\x00\x03\x6b\x82\x00",
	} {
		l := newLogin(t, clock.NewManual(now), nil)
		ended := make(chan struct{})
		l.kdc.Dial = func(context.Context, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer close(ended)
				defer theirs.Close()
				_, _ = theirs.Read(make([]byte, 1<<16))
				_, _ = theirs.Write([]byte(answer))
			}()
			return ours, nil
		}
		if err := l.Affirm(t.Context()); err == nil {
			t.Error(name, "is taken for a ticket")
		}
		<-ended
	}
}
