package tool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/internal/clock"
)

// cluster is the cluster that a command asks.
type cluster struct {
	t       *tool
	ctx     context.Context // ends with the command, or when no broker can be reached
	cancel  context.CancelCauseFunc
	options []kgo.Opt
	seeds   []string
	props   map[string]string
	user    string // "" without SASL
	secure  func(host string) *tls.Config
	timeout time.Duration
	one     *kgo.Client // that of adm
	adm     *kadm.Client
	clients []*kgo.Client

	mu      sync.Mutex
	reached bool             // a connection was made once
	refused map[string]error // by address, until one was
}

// open reads how the cluster is reached. Nothing is sent yet.
func (t *tool) open(ctx context.Context, l link) (*cluster, error) {
	p, err := l.properties(t.Files)
	if err != nil {
		return nil, err
	}
	if err := checkSecurity(p); err != nil {
		return nil, err
	}
	c := &cluster{t: t, props: p, timeout: t.timeout, refused: map[string]error{}}
	brokers := p["bootstrap.servers"]
	if brokers == "" {
		brokers = defaultBrokers
	}
	if c.seeds, err = seeds(brokers); err != nil {
		return nil, err
	}
	if c.secure, err = t.tlsOf(p); err != nil {
		return nil, err
	}
	mechanism, user, err := t.loginOf(p)
	if err != nil {
		return nil, err
	}
	id := p["client.id"]
	if id == "" {
		id = "grete"
	}
	c.options = []kgo.Opt{kgo.SeedBrokers(c.seeds...), kgo.ClientID(id), kgo.SoftwareNameAndVersion("grete", softwareVersion(t.Version)), kgo.Dialer(c.dial), kgo.RetryTimeout(t.timeout)}
	if c.user = user; mechanism != nil {
		c.options = append(c.options, kgo.SASL(mechanism))
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c, nil
}

// softwareVersion is a version as KIP-511 takes it.
func softwareVersion(v string) string {
	v = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, v)
	if v = strings.Trim(v, ".-"); v == "" {
		return "dev"
	}
	return v
}

// client returns a client of its own with these options beside those of the connection.
func (c *cluster) client(more ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append(slices.Clone(c.options), more...)...)
	if err == nil {
		c.clients = append(c.clients, cl)
	}
	return cl, err
}

// main returns the client for all that is no record.
func (c *cluster) main() (cl *kgo.Client, err error) {
	if c.one == nil {
		c.one, err = c.client()
	}
	return c.one, err
}

// admin returns the client of main with kadm's methods.
func (c *cluster) admin() (*kadm.Client, error) {
	if c.adm != nil {
		return c.adm, nil
	}
	cl, err := c.main()
	if err != nil {
		return nil, err
	}
	c.adm = kadm.NewClient(cl)
	c.adm.SetTimeoutMillis(int32(min(c.timeout.Milliseconds(), 1<<31-1)))
	return c.adm, nil
}

func (c *cluster) close() {
	c.cancel(nil)
	for _, cl := range c.clients {
		cl.Close()
	}
}

func (c *cluster) addresses() string { return strings.Join(c.seeds, ",") }

// dial makes a connection. As long as there never was one, a refusal of all the brokers that are known is the end.
func (c *cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := c.connect(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.reached = true
		return nc, nil
	}
	c.refused[address] = err
	if !c.reached && len(c.refused) == len(c.seeds) {
		c.cancel(&dialError{err})
	}
	return nil, err
}

// dialError: no broker can be reached.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// tooOld is how franz-go's error begins, which has no name, for a request that a broker does not have.
const tooOld = "broker is too old"

// errHandshake marks what fails in a TLS handshake.
var errHandshake = errors.New("TLS handshake")

func (c *cluster) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := clock.WithTimeout(ctx, c.t.Clock, c.timeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || c.secure == nil {
		return nc, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(nc, c.secure(host))
	if err := secured.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	return secured, nil
}

// explain says why a command failed, and which flag helps.
func (c *cluster) explain(err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*dialError](context.Cause(c.ctx)); ok {
		err = refused.error
	}
	if strings.Contains(err.Error(), tooOld) {
		return errors.New("the broker does not have this request, or no version of it that grete knows (grete api lists what it has)")
	}
	for _, reason := range []func(error) string{c.ofConnection, c.ofTLS, c.ofLogin} {
		if text := reason(err); text != "" {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return err
}

func (c *cluster) ofConnection(err error) string {
	if _, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok {
		switch {
		case c.secure == nil && c.user == "":
			return c.addresses() + " closes the connection, as a listener with TLS (--tls, --ca) or with SASL (--as, --as-password-file) does"
		case c.secure == nil:
			return c.addresses() + " closes the connection, as a listener with TLS does (--tls, --ca)"
		}
		return c.addresses() + " closes the connection"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "no connection to " + c.addresses() + " (--brokers, GRETE_BROKERS)"
	}
	return ""
}

func (c *cluster) ofTLS(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate of " + c.addresses() + " is not trusted (--ca names the file of its authority)"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return c.addresses() + " is no listener with TLS (it goes without --tls, --ca and --cert)"
	}
	op, ok := errors.AsType[*net.OpError](err)
	switch remote := ok && op.Op == "remote error"; {
	case remote && c.props["ssl.keystore.location"] == "" && c.props["ssl.keystore.key"] == "":
		return c.addresses() + " refuses the TLS handshake; it may want a client's certificate (--cert, --key-file)"
	case remote:
		return c.addresses() + " does not trust the client's certificate (--cert, --key-file)"
	case errors.Is(err, errHandshake):
		return c.addresses() + " ends the TLS handshake, as a listener without TLS does (it goes without --tls, --ca and --cert)"
	}
	return ""
}

func (c *cluster) ofLogin(err error) string {
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Sprintf("%s does not log in %s by %s: the password is wrong, or the user has none for that mechanism", c.addresses(), c.user, c.props["sasl.mechanism"])
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Sprintf("%s does not take --as-mechanism=%s", c.addresses(), c.props["sasl.mechanism"])
	case errors.Is(err, kerr.IllegalSaslState):
		return c.addresses() + " is no listener with SASL (it goes without --as)"
	}
	return ""
}

// kerrOf is the error of a code, with the broker's own explanation; nil for 0.
func kerrOf(code int16, message *string) error {
	if message == nil {
		return kerr.ErrorForCode(code)
	}
	return said(kerr.ErrorForCode(code), *message)
}
