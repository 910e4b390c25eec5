package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"grete/internal/config"
	"grete/internal/security/kerberos"
	"grete/internal/security/sasl"
	"grete/internal/vfs"
	"grete/protocol"
)

// kerberosState is what a node has of Kerberos once one of its listeners, or of those that it logs in to, has GSSAPI.
type kerberosState struct {
	conf    *kerberos.Conf
	replays *kerberos.Replays
	byName  map[string]*kerberosListener // by listener
}

// kerberosListener is GSSAPI of one listener, on this node and on others.
type kerberosListener struct {
	settings config.Kerberos
	rules    *kerberos.Rules
	keys     atomic.Pointer[kerberos.Keys]
	login    *kerberos.Login // nil: this node logs in to none

	// What follows is of the watch over keytabs alone.
	stamp  stamp
	failed bool
}

// openKerberos reads krb5.conf and the keytab of a listener, unless that has been done.
func (n *Node) openKerberos(l config.Listener) (*kerberosListener, error) {
	k := &n.kerberos
	if k.byName[l.Name] != nil {
		return k.byName[l.Name], nil
	}
	if k.conf == nil {
		name := n.o.Config.Text("java.security.krb5.conf")
		text, err := vfs.ReadFile(n.o.FS, name, kerberos.MaxConfBytes)
		if err == nil {
			k.conf, err = kerberos.ParseConf(text)
		}
		if err != nil {
			return nil, fmt.Errorf("config: java.security.krb5.conf=%s: %w", name, err)
		}
		k.replays, k.byName = kerberos.NewReplays(), map[string]*kerberosListener{}
	}
	of := &kerberosListener{settings: n.o.Config.Kerberos(l)}
	var err error
	if of.rules, err = kerberos.ParseRules(of.settings.Rules, k.conf.DefaultRealm()); err != nil {
		return nil, fmt.Errorf("config: listener %s: sasl.kerberos.principal.to.local.rules: %w", l.Name, err)
	}
	of.stamp = n.stampOf(of.settings.Keytab)
	if err := n.readKeytab(of); err != nil {
		return nil, fmt.Errorf("config: listener %s: keytab %s: %w", l.Name, of.settings.Keytab, err)
	}
	k.byName[l.Name] = of
	return of, nil
}

func (n *Node) readKeytab(of *kerberosListener) error {
	conf := n.kerberos.conf
	principal, err := kerberos.ParsePrincipal(of.settings.Principal, conf.DefaultRealm())
	if err != nil {
		return err
	}
	file, err := vfs.ReadFile(n.o.FS, of.settings.Keytab, kerberos.MaxKeytabBytes)
	if err != nil {
		return err
	}
	keys, err := kerberos.ReadKeys(file, principal, conf.Enctypes())
	if err == nil {
		of.keys.Store(keys)
	}
	return err
}

// watchKeytabs reads keytabs anew that have changed, until the node stops.
func (n *Node) watchKeytabs() {
	if len(n.kerberos.byName) == 0 {
		return
	}
	n.watch("watch over keytabs", func() {
		for name, of := range n.kerberos.byName {
			n.followKeytab(name, of)
		}
	})
}

// followKeytab leaves the keys of before in force where the file cannot be read, and tries again: it may be about to
// be written.
func (n *Node) followKeytab(listener string, of *kerberosListener) {
	now := n.stampOf(of.settings.Keytab)
	changed := now != of.stamp
	if !changed && !of.failed {
		return
	}
	err := n.readKeytab(of)
	of.stamp, of.failed = now, err != nil
	switch {
	case err == nil:
		n.o.Log.Info().Str("listener", listener).Str("keytab", of.settings.Keytab).Msg("the keytab has changed, and its keys are in force")
	case changed:
		n.o.Log.Error().Err(err).Str("listener", listener).Str("keytab", of.settings.Keytab).Msg("the keytab has changed and cannot be read; the keys of before stay in force")
	}
}

// gssapi begins exchanges of GSSAPI on a listener.
func (n *Node) gssapi(l config.Listener) func() sasl.Exchange {
	k := n.kerberos
	of := k.byName[l.Name]
	server := &sasl.GSSAPIServer{Rules: of.rules, Acceptor: &kerberos.Acceptor{
		Keys: of.keys.Load, Types: k.conf.Enctypes(), Skew: k.conf.Skew(), Replays: k.replays, Now: n.o.Clock.Now, Random: n.random,
	}}
	return server.Begin
}

// gssapiLogin is how this node logs in to listeners like l of others. It logs in at the KDC at once: a keytab that is
// not good there must not wait to be found out. A KDC that does not answer is tried again with each connection.
func (n *Node) gssapiLogin(ctx context.Context, l config.Listener) (*protocol.Login, error) {
	of, err := n.openKerberos(l)
	if err != nil {
		return nil, err
	}
	cfg, conf := n.o.Config, n.kerberos.conf
	of.login = kerberos.NewLogin(&kerberos.KDC{Conf: conf, Dial: n.o.Dial, Clock: n.o.Clock}, of.keys.Load, kerberos.LoginSettings{
		WindowFactor: cfg.Float("sasl.kerberos.ticket.renew.window.factor"), Jitter: cfg.Float("sasl.kerberos.ticket.renew.jitter"),
		MinPause: millis(cfg.Int("sasl.kerberos.min.time.before.relogin")), Chance: n.chance,
	})
	err = of.login.Affirm(ctx)
	if _, refused := errors.AsType[*kerberos.Refusal](err); refused {
		return nil, fmt.Errorf("config: listener %s: keytab %s: %w", l.Name, of.settings.Keytab, err)
	}
	if err != nil {
		n.o.Log.Warn().Err(err).Str("listener", l.Name).Msg("no KDC answers; each connection to another node tries again")
	}
	begin := &sasl.GSSAPILogin{Login: of.login, Service: of.settings.Service, Now: n.o.Clock.Now, Random: n.random, Types: conf.Enctypes()}
	return &protocol.Login{Mechanism: sasl.GSSAPI, Begin: begin.Begin}, nil
}

// chance is from 0 to 1.
func (n *Node) chance() float64 {
	var p [8]byte
	n.random(p[:])
	return float64(binary.BigEndian.Uint64(p[:])) / math.MaxUint64
}
