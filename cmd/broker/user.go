package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cmd/broker/tool"
	"grete/internal/clock"
	"grete/internal/security/certs"
	"grete/internal/security/sasl"
	"grete/internal/vfs"
	"grete/protocol"
)

const (
	// userTimeout bounds a command of grete user.
	userTimeout = 30 * time.Second
	// userSaltBytes is the length of the salt of a new credential.
	userSaltBytes = 24
	// maxUserResponseBytes bounds an answer: what is longer, as TLS's records are when they are read as one, is none.
	maxUserResponseBytes = 64 << 20
)

// userFlags say which broker is asked, and as whom.
type userFlags struct {
	server, as, asPasswordFile, asMechanism string
	ca, cert, key                           string

	passwordFile string
	mechanisms   []string
	iterations   int
}

func newUserCommand(p process) *cobra.Command {
	var f userFlags
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Add, remove and list users of SASL/SCRAM on a running cluster",
		Long: "Add, remove and list users of SASL/SCRAM on a running cluster. A new cluster's first user comes with it:\n\n" +
			"  grete serve --set sasl.bootstrap.users=admin:secret …    (or KAFKA_SASL_BOOTSTRAP_USERS in the environment)\n\n" +
			"Passwords are read from files, of which the first line counts, so that no list of processes shows them.",
		Args: cobra.NoArgs, // a command that it has not is an error
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.server, "bootstrap-server", "localhost:9092", "`host:port` of a broker")
	flags.StringVar(&f.as, "as", "", "`user` to log in as, where the listener has SASL")
	flags.StringVar(&f.asPasswordFile, "as-password-file", "", "`file` with that user's password")
	flags.StringVar(&f.asMechanism, "as-mechanism", sasl.ScramSHA256, "`mechanism` to log in by: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	flags.StringVar(&f.ca, "ca", "", "PEM `file` of the authorities to believe, where the listener has TLS; with --cert alone those of the system")
	flags.StringVar(&f.cert, "cert", "", "PEM `file` of this client's certificate and the chain to its authority, where the listener has TLS and wants one")
	flags.StringVar(&f.key, "key", "", "PEM `file` of the certificate's private key; that of --cert unless given")

	add := &cobra.Command{
		Use: "add <name>", Short: "Add a user, or give one another password", Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), vfs.OS, func(ctx context.Context, c *protocol.Client) error { return f.add(ctx, vfs.OS, c, args[0]) })
		},
	}
	add.Flags().StringVar(&f.passwordFile, "password-file", "", "`file` with the user's password")
	add.Flags().IntVar(&f.iterations, "iterations", sasl.MinIterations, "iterations of the hash, from 4096 to 16384")
	_ = add.MarkFlagRequired("password-file")
	remove := &cobra.Command{
		Use: "remove <name>", Short: "Remove a user", Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), vfs.OS, func(ctx context.Context, c *protocol.Client) error { return f.remove(ctx, c, args[0]) })
		},
	}
	for _, sub := range []*cobra.Command{add, remove} {
		sub.Flags().StringSliceVar(&f.mechanisms, "mechanism", []string{sasl.ScramSHA256, sasl.ScramSHA512}, "`mechanisms` of the credential")
	}
	list := &cobra.Command{
		Use: "list", Short: "List users and their mechanisms", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), vfs.OS, func(ctx context.Context, c *protocol.Client) error { return listUsers(ctx, c, p.stdout) })
		},
	}
	cmd.AddCommand(add, remove, list)
	return cmd
}

// with runs a command on a connection to the broker.
func (f *userFlags) with(ctx context.Context, files vfs.FS, run func(context.Context, *protocol.Client) error) error {
	o := protocol.ClientOptions{ClientID: "grete-user", MaxResponseBytes: maxUserResponseBytes}
	if f.as != "" {
		login, err := f.login(files)
		if err != nil {
			return err
		}
		o.Login = login
	}
	if f.ca != "" || f.cert != "" || f.key != "" {
		dial, err := f.tlsDial(files)
		if err != nil {
			return err
		}
		o.Dial = dial
	}
	limited, cancel := clock.WithTimeout(ctx, clock.System, userTimeout)
	defer cancel()
	c, err := protocol.Dial(limited, f.server, o)
	if err != nil {
		return f.explain(ctx, o, err)
	}
	defer c.Close()
	return f.explain(ctx, o, run(limited, c))
}

func (f *userFlags) login(files vfs.FS) (*protocol.Login, error) {
	password, err := tool.FirstLine(files, "--as-password-file", f.asPasswordFile)
	if err != nil {
		return nil, err
	}
	h, scram := sasl.HashOf(f.asMechanism)
	if !scram && f.asMechanism != sasl.Plain {
		return nil, fmt.Errorf("--as-mechanism=%s: must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", f.asMechanism)
	}
	return &protocol.Login{Mechanism: f.asMechanism, Begin: func(context.Context, string) (sasl.Client, error) {
		if scram {
			return h.NewScramClient(f.as, password, entropy)
		}
		return sasl.NewPlainClient(f.as, password), nil
	}}, nil
}

func entropy(p []byte) { _, _ = rand.Read(p) } // never fails

// tlsDial connects by TLS, with the certificate of --cert if there is one.
func (f *userFlags) tlsDial(files vfs.FS) (func(context.Context, string) (net.Conn, error), error) {
	keystore, err := f.keystore(files)
	if err != nil {
		return nil, err
	}
	source, err := certs.Open(certs.Settings{
		Keystore: keystore, Truststore: certs.Truststore{Type: "PEM", Location: f.ca}, Now: clock.System.Now, VerifyHost: true,
		Read: func(name string, maxBytes int64) ([]byte, error) { return vfs.ReadFile(files, name, maxBytes) },
	})
	if refused, ok := errors.AsType[*certs.StoreError](err); ok {
		flag := "--ca=" + f.ca
		if strings.HasPrefix(refused.Property, "ssl.key") {
			flag = "--cert=" + f.cert
		}
		return nil, fmt.Errorf("%s: %w", flag, refused.Err)
	} else if err != nil {
		return nil, err
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		c := tls.Client(nc, source.Client(host))
		if err := c.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, fmt.Errorf("%w: %w", errHandshake, err)
		}
		return c, nil
	}, nil
}

// keystore has the client's certificate and key.
func (f *userFlags) keystore(files vfs.FS) (certs.Keystore, error) {
	switch {
	case f.cert == "" && f.key == "":
		return certs.Keystore{}, nil
	case f.cert == "":
		return certs.Keystore{}, errors.New("--key needs --cert")
	case f.key == "":
		return certs.Keystore{Type: "PEM", Location: f.cert}, nil
	}
	chain, err := vfs.ReadFile(files, f.cert, maxPEMBytes)
	if err != nil {
		return certs.Keystore{}, fmt.Errorf("--cert: %w", err)
	}
	key, err := vfs.ReadFile(files, f.key, maxPEMBytes)
	if err != nil {
		return certs.Keystore{}, fmt.Errorf("--key: %w", err)
	}
	return certs.Keystore{Type: "PEM", Key: string(key), Chain: string(chain)}, nil
}

// hashes are the mechanisms that were asked for.
func (f *userFlags) hashes() ([]sasl.Hash, error) {
	var out []sasl.Hash
	for _, name := range f.mechanisms {
		h, ok := sasl.HashOf(name)
		if !ok {
			return nil, fmt.Errorf("--mechanism=%s: must be SCRAM-SHA-256 or SCRAM-SHA-512", name)
		}
		out = append(out, h)
	}
	return out, nil
}

// add sets a credential for each mechanism, by a request of its own: a user comes once in a request.
func (f *userFlags) add(ctx context.Context, files vfs.FS, c *protocol.Client, name string) error {
	password, err := tool.FirstLine(files, "--password-file", f.passwordFile)
	if err != nil {
		return err
	}
	hashes, err := f.hashes()
	if err != nil {
		return err
	}
	for _, h := range hashes {
		salt := make([]byte, userSaltBytes)
		entropy(salt)
		salted, err := h.SaltPassword(password, salt, max(f.iterations, 1))
		if err != nil {
			return err
		}
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = name, int8(h), int32(f.iterations), salt, salted
		req.Upsertions = append(req.Upsertions, u)
		if err := alterUser(ctx, c, req); err != nil {
			return err
		}
	}
	return nil
}

// remove removes what there is of the mechanisms that were asked for; an error when there is nothing.
func (f *userFlags) remove(ctx context.Context, c *protocol.Client, name string) error {
	hashes, err := f.hashes()
	if err != nil {
		return err
	}
	removed := false
	for _, h := range hashes {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
		d.Name, d.Mechanism = name, int8(h)
		req.Deletions = append(req.Deletions, d)
		err := alterUser(ctx, c, req)
		if err != nil && !errors.Is(err, kerr.ResourceNotFound) {
			return err
		}
		removed = removed || err == nil
	}
	if !removed {
		return fmt.Errorf("there is no user %s", name)
	}
	return nil
}

func alterUser(ctx context.Context, c *protocol.Client, req *kmsg.AlterUserSCRAMCredentialsRequest) error {
	resp, err := c.Call(ctx, req)
	if err != nil {
		return err
	}
	for _, r := range resp.(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
		if r.ErrorCode != 0 {
			return answered(r.ErrorCode, r.ErrorMessage)
		}
	}
	return nil
}

// answered is an error of the broker's.
func answered(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if message != nil {
		return fmt.Errorf("%w: %s", err, *message)
	}
	return err
}

func listUsers(ctx context.Context, c *protocol.Client, out io.Writer) error {
	resp, err := c.Call(ctx, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest())
	if err != nil {
		return err
	}
	answer := resp.(*kmsg.DescribeUserSCRAMCredentialsResponse)
	if answer.ErrorCode != 0 {
		return answered(answer.ErrorCode, answer.ErrorMessage)
	}
	slices.SortFunc(answer.Results, func(a, b kmsg.DescribeUserSCRAMCredentialsResponseResult) int { return strings.Compare(a.User, b.User) })
	for _, r := range answer.Results {
		var mechanisms []string
		for _, info := range r.CredentialInfos {
			mechanisms = append(mechanisms, fmt.Sprintf("%v (%d iterations)", sasl.Hash(info.Mechanism), info.Iterations))
		}
		if _, err := fmt.Fprintf(out, "%s\t%s\n", r.User, strings.Join(mechanisms, ", ")); err != nil {
			return err
		}
	}
	return nil
}
