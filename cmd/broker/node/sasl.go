package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/security/sasl"
	"grete/internal/vfs"
	"grete/protocol"
)

const (
	// maxUsersBytes bounds sasl.plain.users.file.
	maxUsersBytes = 16 << 20
	// scramSecretBytes is how long the secret is that the salts of unknown users are made of, bootstrapSaltBytes how
	// long those of the first users are.
	scramSecretBytes, bootstrapSaltBytes = 32, 24
)

// openSASL reads who may log in by PLAIN, how this node logs in to others, and whom a new cluster knows.
func (n *Node) openSASL(ctx context.Context) error {
	n.saslConfig.Store(n.o.Config)
	n.scramSecret = make([]byte, scramSecretBytes)
	n.random(n.scramSecret)
	if key := n.o.Config.Text("delegation.token.secret.key"); key != "" {
		n.tokens = &sasl.TokenCredentials{Secret: []byte(key), Salts: n.scramSecret}
	}
	if name := n.o.Config.Text("sasl.plain.users.file"); name != "" {
		text, err := vfs.ReadFile(n.o.FS, name, maxUsersBytes)
		if err == nil {
			n.plainUsers, err = sasl.ParseUsers(string(text))
		}
		if err != nil {
			return fmt.Errorf("config: sasl.plain.users.file=%s: %w", name, err)
		}
	}
	n.logins = map[string]*protocol.Login{}
	for _, l := range []config.Listener{n.o.Config.InterBrokerListener(), n.o.Config.Quorum} {
		login, err := n.loginTo(ctx, l)
		if err != nil {
			return err
		}
		if login != nil {
			n.logins[l.Name] = login
		}
	}
	n.bearers = map[string]*sasl.TokenRules{}
	for _, l := range slices.Concat(n.o.Config.Listeners, n.o.Config.Controllers) {
		if !l.Protocol.UsesSASL() {
			continue
		}
		for _, m := range n.o.Config.Mechanisms(l) {
			if err := n.openMechanism(ctx, l, m.Name); err != nil {
				return err
			}
		}
	}
	n.saslListeners = map[string]*protocol.SASL{}
	for _, l := range slices.Concat(n.o.Config.Listeners, n.o.Config.Controllers) {
		if l.Protocol.UsesSASL() {
			n.saslListeners[l.Name] = n.saslOf(n.o.Config, l)
		}
	}
	n.watchKeytabs()
	return n.openBootstrap()
}

// openMechanism reads what a mechanism of a listener needs beside the configuration.
func (n *Node) openMechanism(ctx context.Context, l config.Listener, mechanism string) (err error) {
	switch mechanism {
	case sasl.OAuthBearer:
		n.bearers[l.Name], err = n.bearerOf(ctx, l)
	case sasl.GSSAPI:
		_, err = n.openKerberos(l)
	}
	return err
}

// loginTo is how this node authenticates to a listener like l of another; nil where that has no SASL.
func (n *Node) loginTo(ctx context.Context, l config.Listener) (*protocol.Login, error) {
	mechanism, _, _, ok := n.o.Config.NodeLogin(l)
	if !ok {
		return nil, nil
	}
	if mechanism == sasl.OAuthBearer {
		return n.bearerLogin(ctx, l)
	}
	if mechanism == sasl.GSSAPI {
		return n.gssapiLogin(ctx, l)
	}
	return &protocol.Login{Mechanism: mechanism, Begin: func(context.Context, string) (sasl.Client, error) {
		_, username, password, _ := n.saslConfig.Load().NodeLogin(l)
		if h, scram := sasl.HashOf(mechanism); scram {
			return h.NewScramClient(username, password, n.random)
		}
		if mechanism != sasl.Plain {
			return nil, errors.New("this mechanism is not implemented")
		}
		return sasl.NewPlainClient(username, password), nil
	}}, nil
}

// openBootstrap makes the credentials of sasl.bootstrap.users.
func (n *Node) openBootstrap() error {
	users, err := sasl.ParseBootstrapUsers(n.o.Config.Text("sasl.bootstrap.users"))
	if err != nil {
		return fmt.Errorf("config: sasl.bootstrap.users: %w", err)
	}
	for _, u := range users {
		salt := make([]byte, bootstrapSaltBytes)
		n.random(salt)
		c, err := u.Hash.NewCredential(u.Password, salt, u.Iterations)
		if err != nil {
			return fmt.Errorf("config: sasl.bootstrap.users: %w", err)
		}
		n.bootstrap = append(n.bootstrap, &metadata.UserScramCredentialRecord{
			User: u.Name, Mechanism: int8(u.Hash), Salt: c.Salt, StoredKey: c.StoredKey, ServerKey: c.ServerKey, Iterations: int32(c.Iterations),
		})
	}
	return nil
}

// saslOf is how a listener authenticates.
func (n *Node) saslOf(cfg *config.Broker, l config.Listener) *protocol.SASL {
	out := &protocol.SASL{
		MaxReceiveBytes: int(cfg.ListenerInt(l.Name, "sasl.server.max.receive.size")), FailureDelay: millis(cfg.Int("connection.failed.authentication.delay.ms")),
	}
	for _, m := range cfg.Mechanisms(l) {
		out.Mechanisms = append(out.Mechanisms, protocol.SASLMechanism{Name: m.Name, Begin: n.mechanism(l, m), MaxSession: time.Duration(m.MaxReauthMs) * time.Millisecond})
	}
	return out
}

// mechanism begins exchanges of a mechanism of a listener.
func (n *Node) mechanism(l config.Listener, m config.Mechanism) func() sasl.Exchange {
	switch m.Name {
	case sasl.OAuthBearer:
		rules := n.bearers[l.Name]
		return func() sasl.Exchange { return sasl.NewOAuthBearer(rules) }
	case sasl.GSSAPI:
		return n.gssapi(l)
	}
	if h, scram := sasl.HashOf(m.Name); scram {
		server := &sasl.ScramServer{Hash: h, Secret: n.scramSecret, Random: n.random, Lookup: func(user string) (sasl.Credential, bool) { return n.scramCredential(user, h) }}
		if n.tokens != nil {
			server.Token = func(id string) (sasl.Token, bool) { return n.token(id, h) }
		}
		return server.Begin
	}
	users := sasl.Users{}
	maps.Copy(users, n.plainUsers)
	maps.Copy(users, m.JAAS.Users())
	return func() sasl.Exchange { return sasl.NewPlain(users) }
}

// scramCredential is a user's credential in the metadata. Before there is any metadata, those that the cluster is to
// begin with count: by them its controllers find together.
func (n *Node) scramCredential(user string, h sasl.Hash) (sasl.Credential, bool) {
	im := n.quorum.image()
	c := im.ScramCredential(user, int8(h))
	if im.Offset() < 0 {
		for _, r := range n.bootstrap {
			if first := r.(*metadata.UserScramCredentialRecord); first.User == user && first.Mechanism == int8(h) {
				c = first
			}
		}
	}
	if c == nil {
		return sasl.Credential{}, false
	}
	return sasl.Credential{Salt: c.Salt, StoredKey: c.StoredKey, ServerKey: c.ServerKey, Iterations: int(c.Iterations)}, true
}

// token is a delegation token that is good now, for a login by SCRAM. Its owner must be a user, as who logs in by SCRAM
// is one: Kafka lets a token of Group:ann log in as User:ann.
func (n *Node) token(id string, h sasl.Hash) (sasl.Token, bool) {
	r := n.quorum.image().Token(id)
	if r == nil || r.Expires() < clock.Millis(n.o.Clock) {
		return sasl.Token{}, false
	}
	owner, ok := strings.CutPrefix(r.Owner, "User:")
	if !ok {
		return sasl.Token{}, false
	}
	credential, err := n.tokens.Of(h, id)
	return sasl.Token{Owner: owner, Expires: time.UnixMilli(r.Expires()), Credential: credential}, err == nil
}

// configureSASL follows the broker's dynamic configuration: for logins from now on. One that cannot be honoured leaves
// what was in force.
func (n *Node) configureSASL(im *metadata.Image) {
	l := n.dynamicLayers(im)
	if err := n.o.Config.CheckDynamicSASL(l); err != nil {
		if n.saslRefused != err.Error() {
			n.saslRefused = err.Error()
			n.o.Log.Error().Err(err).Msg("the dynamic configuration of SASL cannot be honoured; what was before stays in force")
		}
		return
	}
	n.saslRefused = ""
	next := n.o.Config.With(l)
	n.saslConfig.Store(next)
	for _, at := range slices.Concat(next.Listeners, next.Controllers) {
		if s := n.saslListeners[at.Name]; s != nil {
			s.Replace(n.saslOf(next, at))
		}
	}
}

// checkDynamicSecurity says why a dynamic configuration of this broker cannot be put in force.
func (n *Node) checkDynamicSecurity(l config.Layers) error {
	if err := n.checkTLS(l); err != nil {
		return err
	}
	return n.o.Config.CheckDynamicSASL(l)
}
