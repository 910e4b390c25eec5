package kerberos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
)

// maxTickets bounds the services that tickets are kept for. There is one for each host of the cluster.
const maxTickets = 4096

// Login is a principal that gets tickets, as long as its keys are good.
type Login struct {
	kdc      *KDC
	keys     func() *Keys
	settings LoginSettings
	turn     chan struct{} // one at a time asks the KDC; holds what follows

	granting *granting
	renewAt  time.Time // when to log in again, while the ticket is still good
	failedAt time.Time // of the last login; zero: it went well
	failure  error
	tickets  map[string]*Ticket
}

// LoginSettings are Kafka's for the renewal of tickets.
type LoginSettings struct {
	WindowFactor float64       // share of a ticket's life after which it is renewed (sasl.kerberos.ticket.renew.window.factor)
	Jitter       float64       // largest share that is added, by chance (sasl.kerberos.ticket.renew.jitter)
	MinPause     time.Duration // between a login that failed and the next, while there is a ticket (sasl.kerberos.min.time.before.relogin)
	Chance       func() float64
}

// retryPause is between logins that fail and without which there is no ticket.
const retryPause = time.Second

// NewLogin makes one that has no ticket yet.
func NewLogin(kdc *KDC, keys func() *Keys, s LoginSettings) *Login {
	return &Login{kdc: kdc, keys: keys, settings: s, turn: make(chan struct{}, 1), tickets: map[string]*Ticket{}}
}

// Affirm logs in, if that is due.
func (l *Login) Affirm(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.release()
	return l.affirm(ctx)
}

func (l *Login) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Login) release() { <-l.turn }

// affirm has turn. A ticket that is still good is gone on with where a new one cannot be had.
func (l *Login) affirm(ctx context.Context) error {
	now := l.kdc.Clock.Now()
	good := l.granting != nil && now.Before(l.granting.ends)
	if good && now.Before(l.renewAt) {
		return nil
	}
	pause := retryPause
	if good {
		pause = l.settings.MinPause
	}
	if !l.failedAt.IsZero() && now.Sub(l.failedAt) < pause {
		return l.unless(good)
	}
	g, err := l.kdc.logIn(ctx, l.keys())
	if err != nil {
		if ctx.Err() == nil {
			l.failedAt = now
		}
		l.failure = fmt.Errorf("login of %s: %w", l.keys().Principal, err)
		return l.unless(good)
	}
	share := l.settings.WindowFactor + l.settings.Jitter*l.settings.Chance()
	life := g.ends.Sub(now)
	l.granting, l.renewAt, l.failedAt, l.failure = g, now.Add(time.Duration(share*float64(life))), time.Time{}, nil
	clear(l.tickets) // they end with the old one
	return nil
}

func (l *Login) unless(good bool) error {
	if good {
		return nil
	}
	return l.failure
}

// Ticket is one for a service on a host, of a new login where the old one is not good any more.
func (l *Login) Ticket(ctx context.Context, service, host string) (*Ticket, error) {
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.release()
	if err := l.affirm(ctx); err != nil {
		return nil, err
	}
	name := service + "/" + host
	now := l.kdc.Clock.Now()
	if t := l.tickets[name]; t != nil && now.Before(t.Ends) {
		return t, nil
	}
	t, err := l.kdc.ticketFor(ctx, l.keys().Principal, l.granting, service, host)
	if err != nil {
		if r, refused := errors.AsType[*Refusal](err); refused && r.code != errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN {
			l.renewAt = now // the KDC may have another key now
		}
		return nil, fmt.Errorf("ticket for %s: %w", name, err)
	}
	if len(l.tickets) >= maxTickets {
		clear(l.tickets)
	}
	l.tickets[name] = t
	return t, nil
}
