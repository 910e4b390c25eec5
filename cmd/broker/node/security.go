package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/internal/sched"
	"grete/internal/security/certs"
	"grete/internal/vfs"
	"grete/protocol"
)

const (
	// watchEvery is how often the files of keys and certificates are looked at.
	watchEvery = 2 * time.Second
	// expiryNotice is how long before its end a certificate is warned of, once in expiryEvery.
	expiryNotice = 30 * 24 * time.Hour
	expiryEvery  = 24 * time.Hour
)

// security has the TLS of this node's listeners, and of its connections to those of others.
type security struct {
	byListener map[string]*listenerTLS
	mu         sched.Mutex // one change at a time: by files, and by configuration
}

// listenerTLS is TLS as one listener has it. Connections to listeners of this name, on other nodes, have the same.
type listenerTLS struct {
	listener config.Listener
	serves   bool // this node listens
	source   *certs.Source
	mapping  atomic.Pointer[certs.Mapping]

	// What follows is guarded by security.mu.
	values map[string]string // the properties in force
	stamps []stamp
	failed bool // the last reload failed
	warned time.Time
}

// stamp tells whether a file is another than before.
type stamp struct {
	name     string
	modified time.Time
	size     int64
}

// openSecurity reads keys and certificates before anything is opened that needs them.
func (n *Node) openSecurity(context.Context) error {
	cfg := n.o.Config
	for _, l := range slices.Concat(cfg.Listeners, cfg.Controllers) {
		if err := n.openTLS(l, true); err != nil {
			return err
		}
	}
	if err := n.openTLS(cfg.Quorum, false); err != nil {
		return err
	}
	if len(n.security.byListener) > 0 {
		n.warnOfTrust()
		n.warnOfHosts()
		n.watchCertificates()
	}
	return nil
}

func (n *Node) openTLS(l config.Listener, serves bool) error {
	if !l.Protocol.UsesTLS() || n.security.byListener[l.Name] != nil {
		return nil
	}
	t := &listenerTLS{listener: l, serves: serves, values: n.o.Config.TLS(l)}
	t.stamps = n.stampsOf(t.values)
	mapping, err := certs.ParseMapping(t.values["ssl.principal.mapping.rules"])
	if err != nil {
		return t.refuse(fmt.Errorf("ssl.principal.mapping.rules: %w", err))
	}
	if t.source, err = certs.Open(n.tlsSettings(t, t.values)); err != nil {
		return t.refuse(err)
	}
	t.mapping.Store(&mapping)
	if n.security.byListener == nil {
		n.security.byListener = map[string]*listenerTLS{}
	}
	n.security.byListener[l.Name] = t
	return nil
}

func (t *listenerTLS) refuse(err error) error {
	return fmt.Errorf("config: listener %s: %w", t.listener.Name, err)
}

// tlsSettings are the properties as certs wants them.
func (n *Node) tlsSettings(t *listenerTLS, v map[string]string) certs.Settings {
	return certs.Settings{
		Keystore: certs.Keystore{
			Type: v["ssl.keystore.type"], Location: v["ssl.keystore.location"], Password: v["ssl.keystore.password"], KeyPassword: v["ssl.key.password"],
			Key: v["ssl.keystore.key"], Chain: v["ssl.keystore.certificate.chain"],
		},
		Truststore: certs.Truststore{
			Type: v["ssl.truststore.type"], Location: v["ssl.truststore.location"], Password: v["ssl.truststore.password"], Certificates: v["ssl.truststore.certificates"],
		},
		ClientAuth: certs.ClientAuth(v["ssl.client.auth"]), Protocols: certs.Names(v["ssl.enabled.protocols"]), CipherSuites: certs.Names(v["ssl.cipher.suites"]),
		VerifyHost: v["ssl.endpoint.identification.algorithm"] != "", AllowDN: v["ssl.allow.dn.changes"] == "true", AllowSANs: v["ssl.allow.san.changes"] == "true",
		Now: n.o.Clock.Now, NeedsKeystore: t.serves,
		Read: func(name string, maxBytes int64) ([]byte, error) { return vfs.ReadFile(n.o.FS, name, maxBytes) },
	}
}

func (n *Node) stampsOf(values map[string]string) []stamp {
	var out []stamp
	for _, name := range []string{values["ssl.keystore.location"], values["ssl.truststore.location"]} {
		if name != "" {
			out = append(out, n.stampOf(name))
		}
	}
	return out
}

func (n *Node) stampOf(name string) stamp {
	s := stamp{name: name}
	if info, err := n.o.FS.Stat(name); err == nil {
		s.modified, s.size = info.ModTime(), info.Size()
	}
	return s
}

// securities are how the listeners of a server secure connections.
func (n *Node) securities(listeners []config.Listener) map[string]*protocol.Security {
	out := map[string]*protocol.Security{}
	for _, l := range listeners {
		s := &protocol.Security{}
		if l.Protocol.UsesTLS() {
			t := n.security.byListener[l.Name] // openSecurity has put it there
			s.TLS = t.source.Server()
			if !l.Protocol.UsesSASL() {
				s.Name = t.name
			}
		}
		if l.Protocol.UsesSASL() {
			s.SASL = n.saslListeners[l.Name] // openSASL has put it there
		}
		out[l.Name] = s
	}
	return out
}

// name is the principal of a peer of TLS, as Kafka's DefaultKafkaPrincipalBuilder has it.
func (t *listenerTLS) name(state tls.ConnectionState) (protocol.Principal, error) {
	if len(state.PeerCertificates) == 0 {
		return protocol.Principal{Type: "User", Name: "ANONYMOUS"}, nil
	}
	dn := certs.DN(state.PeerCertificates[0])
	name, ok := t.mapping.Load().Name(dn)
	if !ok {
		return protocol.Principal{}, fmt.Errorf("no rule of ssl.principal.mapping.rules is for %s", dn)
	}
	return protocol.Principal{Type: "User", Name: name}, nil
}

// dialer connects to listeners of that name on other nodes.
func (n *Node) dialer(listener string) func(ctx context.Context, address string) (net.Conn, error) {
	t := n.security.byListener[listener]
	if t == nil {
		return n.o.Dial
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		nc, err := n.o.Dial(ctx, address)
		if err != nil {
			return nil, err
		}
		c := tls.Client(nc, t.source.Client(host))
		if err := c.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
		return clientTLS{c, nc}, nil
	}
}

// clientTLS ends at once: TLS would wait for a peer that does not read.
type clientTLS struct {
	*tls.Conn
	socket net.Conn
}

func (c clientTLS) Close() error { return c.socket.Close() }

// watchCertificates reads files anew that have changed, until the node stops.
func (n *Node) watchCertificates() {
	n.warnOfExpiry()
	n.watch("watch over certificates", func() {
		n.reloadChanged()
		n.warnOfExpiry()
	})
	for _, t := range n.security.byListener {
		if _, ok := t.source.NotAfter(); ok {
			n.metrics.Certificate(t.listener.Name, func() time.Time { at, _ := t.source.NotAfter(); return at })
		}
	}
}

// watch has files looked at every watchEvery, until the node stops.
func (n *Node) watch(what string, look func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	ticker := n.o.Clock.NewTicker(watchEvery)
	go func() {
		defer close(ended)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C():
				look()
			case <-stop:
				return
			}
		}
	}()
	n.onStop(what, func(context.Context) error { close(stop); <-ended; return nil })
}

// reloadChanged tries again, too, what failed: files of one change may come one after the other.
func (n *Node) reloadChanged() {
	n.security.mu.Lock()
	defer n.security.mu.Unlock()
	for _, t := range n.security.byListener {
		stamps := n.stampsOf(t.values)
		changed := !slices.Equal(stamps, t.stamps)
		if !changed && !t.failed {
			continue
		}
		t.stamps = stamps
		n.replace(t, t.values, changed)
	}
}

// replace puts values in force, and reads the files that they name; what fails leaves the old in force. security.mu is
// held.
func (n *Node) replace(t *listenerTLS, values map[string]string, tell bool) {
	mapping, err := certs.ParseMapping(values["ssl.principal.mapping.rules"])
	if err == nil {
		err = t.source.Replace(n.tlsSettings(t, values))
	}
	t.failed = err != nil
	switch {
	case err == nil:
		t.values = values
		t.mapping.Store(&mapping)
		n.o.Log.Info().Str("listener", t.listener.Name).Msg("keys and certificates were read anew")
	case tell:
		n.o.Log.Error().Err(err).Str("listener", t.listener.Name).Msg("keys and certificates cannot be read anew; those of before stay in force")
	}
}

// configureTLS follows the broker's dynamic configuration. An entry that was written again has the files read again, as
// in Kafka.
func (n *Node) configureTLS(im *metadata.Image) {
	l := n.dynamicLayers(im)
	n.security.mu.Lock()
	defer n.security.mu.Unlock()
	for _, t := range n.security.byListener {
		values := l.TLS(t.listener)
		stamps := n.stampsOf(values)
		if maps.Equal(values, t.values) && slices.Equal(stamps, t.stamps) {
			continue
		}
		t.stamps = stamps
		n.replace(t, values, true)
	}
}

// checkTLS says why a dynamic configuration of this broker cannot be put in force, as Kafka's DynamicBrokerConfig does.
func (n *Node) checkTLS(l config.Layers) error {
	n.security.mu.Lock()
	defer n.security.mu.Unlock()
	for _, t := range n.security.byListener {
		values := l.TLS(t.listener)
		if maps.Equal(values, t.values) {
			continue
		}
		_, err := certs.ParseMapping(values["ssl.principal.mapping.rules"])
		if err == nil {
			err = t.source.Check(n.tlsSettings(t, values))
		}
		if err != nil {
			reason := strings.ReplaceAll(err.Error(), "\n", " ")
			return errors.New("Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic config update of SSLFactory failed: " +
				reason + " for configuration Invalid dynamic configuration") // Kafka's text
		}
	}
	return nil
}

// warnOfExpiry warns once a day of certificates that end soon, or have ended.
func (n *Node) warnOfExpiry() {
	n.security.mu.Lock()
	defer n.security.mu.Unlock()
	now := n.o.Clock.Now()
	for _, t := range n.security.byListener {
		at, ok := t.source.NotAfter()
		if ok && at.Sub(now) < expiryNotice && (t.warned.IsZero() || now.Sub(t.warned) >= expiryEvery) {
			t.warned = now
			verb := "expires"
			if !at.After(now) {
				verb = "has expired"
			}
			n.o.Log.Warn().Str("listener", t.listener.Name).Str("file", t.values["ssl.keystore.location"]).
				Msgf("the certificate %s on %s", verb, at.UTC().Format(time.DateTime+" MST"))
		}
	}
}
