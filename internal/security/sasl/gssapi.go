package sasl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"grete/internal/security/kerberos"
)

// GSSAPI is the name of the mechanism of RFC 4752, which is Kerberos 5.
const GSSAPI = "GSSAPI"

// Security layers of RFC 4752. There is none here: TLS is that.
const layerNone = 1

// offer is what Java's server offers: no layer, and tokens of 64 KiB, which say nothing then.
var offer = []byte{layerNone, 1, 0, 0}

// layerBytes is the length of an offer and of a choice; a name to act as may follow.
const layerBytes = 4

// GSSAPIServer begins exchanges.
type GSSAPIServer struct {
	Acceptor *kerberos.Acceptor
	Rules    *kerberos.Rules // make the user's name of the principal
}

// Begin begins an exchange.
func (s *GSSAPIServer) Begin() Exchange { return &gssapiExchange{server: s} }

// gssapiExchange is AP-REQ and AP-REP, where the client wants that, then the offer of a layer and its choice, each in
// a Wrap token.
type gssapiExchange struct {
	server  *GSSAPIServer
	context *kerberos.Context
	offered bool
	name    string
}

func (e *gssapiExchange) Result() Result { return Result{Name: e.name} }

func (e *gssapiExchange) Claimed() string {
	if e.context == nil {
		return ""
	}
	return e.context.Client.String()
}

func (e *gssapiExchange) Next(token []byte) (challenge []byte, done bool, err error) {
	switch {
	case e.context == nil:
		if e.context, challenge, err = e.server.Acceptor.Accept(token); err != nil || challenge != nil {
			return challenge, false, err
		}
	case e.offered:
		return []byte{}, true, e.choose(token)
	case len(token) > 0:
		return nil, false, errors.New("a token where none is due")
	}
	e.offered = true
	challenge, err = e.context.Wrap(offer)
	return challenge, false, err
}

// choose takes the client's choice. Whom it asks to act as does not matter, as in Kafka: it is who the ticket says.
func (e *gssapiExchange) choose(token []byte) error {
	choice, err := e.context.Unwrap(token)
	switch {
	case err != nil:
		return err
	case len(choice) < layerBytes:
		return errors.New("the choice of a security layer is too short")
	case choice[0]&layerNone == 0:
		return fmt.Errorf("the client wants security layer %d, and there is none", choice[0])
	}
	e.name, err = e.server.Rules.ShortName(e.context.Client)
	return err
}

// GSSAPILogin is how a node logs in by GSSAPI.
type GSSAPILogin struct {
	Login   *kerberos.Login
	Service string // the first part of the brokers' principals (sasl.kerberos.service.name)
	Now     func() time.Time
	Random  func(p []byte)
	Types   kerberos.Enctypes
}

// Begin begins a login at the service on a host. It asks the KDC for a ticket, if there is none.
func (l *GSSAPILogin) Begin(ctx context.Context, host string) (Client, error) {
	ticket, err := l.Login.Ticket(ctx, l.Service, host)
	if err != nil {
		return nil, err
	}
	initiator, first, err := ticket.Begin(l.Now(), l.Random, l.Types)
	return &gssapiClient{initiator: initiator, first: first}, err
}

type gssapiClient struct {
	initiator *kerberos.Initiator
	context   *kerberos.Context
	first     []byte
	chosen    bool
}

func (c *gssapiClient) Next(challenge []byte) (token []byte, done bool, err error) {
	switch {
	case c.first != nil:
		token, c.first = c.first, nil
		return token, false, nil
	case c.context == nil:
		c.context, err = c.initiator.Prove(challenge)
		return []byte{}, false, err
	case c.chosen:
		return nil, true, nil
	}
	c.chosen = true
	layers, err := c.context.Unwrap(challenge)
	switch {
	case err != nil:
		return nil, false, err
	case len(layers) != layerBytes || layers[0]&layerNone == 0:
		return nil, false, errors.New("the server wants a security layer")
	}
	token, err = c.context.Wrap([]byte{layerNone, 0, 0, 0})
	return token, false, err
}
