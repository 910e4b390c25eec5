package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/clock"
	"grete/protocol"
)

// errHandshake: there is a connection, and no TLS on it.
var errHandshake = errors.New("TLS handshake")

// refusedCertificates are the alerts of TLS by which a server refuses a client for its certificate. Go tells them as
// texts alone.
var refusedCertificates = []string{"tls: bad certificate", "tls: certificate required", "tls: unknown certificate", "tls: unknown certificate authority"}

// explain says why a command failed, and which flag helps. An error that is no answer of a network or a broker stays as
// it is.
func (f *userFlags) explain(ctx context.Context, o protocol.ClientOptions, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer from %s within %v", f.server, userTimeout)
	}
	for _, reason := range []func(error) string{f.ofConnection, f.ofTLS, f.ofLogin, f.ofRights} {
		if text := reason(err); text != "" {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	if closed(err) {
		return f.whyClosed(ctx, o, err)
	}
	return err
}

// ofConnection: the connection was not made.
func (f *userFlags) ofConnection(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "no connection to " + f.server
	}
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return "--bootstrap-server=" + f.server + " is not host:port"
	}
	return ""
}

// ofTLS: one of both sides refuses the handshake.
func (f *userFlags) ofTLS(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate of " + f.server + " is not trusted (--ca names the file of its authority)"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return f.server + " is no listener with TLS (it goes without --ca and --cert)"
	}
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case !ok || op.Op != "remote error":
		return ""
	case !slices.Contains(refusedCertificates, op.Err.Error()):
		return f.server + " refuses the TLS handshake"
	case f.cert == "":
		return f.server + " wants a client's certificate (--cert, --key)"
	}
	return f.server + " does not trust the certificate of --cert"
}

// ofLogin: SASL ended without a user.
func (f *userFlags) ofLogin(err error) string {
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Sprintf("%s does not log in %s by %s: the password is wrong, or the user has none for that mechanism", f.server, f.as, f.asMechanism)
	case errors.Is(err, kerr.UnsupportedSaslMechanism) && f.as != "":
		return fmt.Sprintf("%s does not take --as-mechanism=%s", f.server, f.asMechanism)
	case errors.Is(err, kerr.IllegalSaslState):
		return f.server + " is no listener with SASL (it goes without --as)"
	}
	return ""
}

// ofRights: the broker knows who asks, and does not do it.
func (f *userFlags) ofRights(err error) string {
	switch {
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		who := "this client"
		if f.as != "" {
			who = f.as
		}
		return "not authorized: " + who + " needs ALTER on the cluster to change users, DESCRIBE to list them"
	case errors.Is(err, kerr.UnsupportedVersion), errors.Is(err, protocol.ErrNoVersion):
		return f.server + " has no users of SCRAM: its version, or the feature level of its cluster (metadata.version), is too old"
	}
	return ""
}

// closed: the broker has closed the connection without an answer, or what came is no answer.
func closed(err error) bool {
	op, lost := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, protocol.ErrMalformed) || lost && (op.Op == "read" || op.Op == "write")
}

// whyClosed asks the listener for the mechanisms of its SASL: one that has some closes the connection of a client that
// has not logged in.
func (f *userFlags) whyClosed(ctx context.Context, o protocol.ClientOptions, err error) error {
	if errors.Is(err, errHandshake) {
		return fmt.Errorf("%s closed the connection, as a listener without TLS does (it goes without --ca and --cert): %w", f.server, err)
	}
	if o.Login == nil {
		if mechanisms := f.askMechanisms(ctx, o); mechanisms != "" {
			return fmt.Errorf("%s wants a login (--as, --as-password-file, --as-mechanism): %s", f.server, mechanisms)
		}
	}
	if o.Dial == nil {
		return fmt.Errorf("%s closed the connection, as a listener with TLS does (--ca, --cert): %w", f.server, err)
	}
	return fmt.Errorf("%s closed the connection: %w", f.server, err)
}

// askMechanisms returns what a listener with SASL says when it is asked for a mechanism that there is not, "" from any
// other one.
func (f *userFlags) askMechanisms(ctx context.Context, o protocol.ClientOptions) string {
	ctx, cancel := clock.WithTimeout(ctx, clock.System, userTimeout)
	defer cancel()
	o.Login = &protocol.Login{Mechanism: "none"}
	c, err := protocol.Dial(ctx, f.server, o)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, kerr.UnsupportedSaslMechanism) {
		return ""
	}
	_, mechanisms, _ := strings.Cut(err.Error(), "; ")
	return mechanisms
}
