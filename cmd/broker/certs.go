package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"grete/internal/clock"
	"grete/internal/security/certs"
	"grete/internal/vfs"
)

const (
	authorityFile    = "ca.pem"
	authorityKeyFile = "ca.key"
	maxPEMBytes      = 1 << 20
)

// certsFlags are the flags of grete certs.
type certsFlags struct {
	nodes, clients []string
	days           int
}

func newCertsCommand(p process) *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "certs <directory>",
		Short: "Make a certificate authority and certificates for nodes and clients, to try TLS out",
		Long: "Make ca.pem and ca.key in a directory, unless they are there, and for each --node and --client a file <name>.pem with its private key and\n" +
			"certificates. A node has\n\n" +
			"  ssl.keystore.type=PEM\n  ssl.keystore.location=<directory>/<name>.pem\n  ssl.truststore.type=PEM\n  ssl.truststore.location=<directory>/ca.pem\n\n" +
			"and so has a client. No file is overwritten. Keep ca.key to yourself: who has it can be anybody.",
		Args: oneArg,
		RunE: func(_ *cobra.Command, args []string) error { return f.run(p, vfs.OS, args[0]) },
	}
	cmd.Flags().StringArrayVar(&f.nodes, "node", nil, "`name[,host,…]`: a certificate for a node, good for these host names and addresses beside localhost; may be repeated")
	cmd.Flags().StringArrayVar(&f.clients, "client", nil, "`name` of a client for a certificate; may be repeated")
	cmd.Flags().IntVar(&f.days, "days", 365, "how many days the certificates of nodes and clients are valid")
	return cmd
}

// wantedCertificate is one of the files to be made.
type wantedCertificate struct {
	name, file string
	hosts      []string
}

func (f certsFlags) run(p process, files vfs.FS, dir string) error {
	wanted, err := f.wanted(files, dir)
	if err != nil {
		return err
	}
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	authority, err := openAuthority(p, files, dir)
	if err != nil {
		return err
	}
	for _, w := range wanted {
		pem, err := authority.Issue(w.name, w.hosts, f.days)
		if err == nil {
			err = writeNew(p, files, w.file, pem, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wanted are the files to be made; none of them may be there.
func (f certsFlags) wanted(files vfs.FS, dir string) ([]wantedCertificate, error) {
	if f.days < 1 {
		return nil, fmt.Errorf("certs: --days=%d: must be at least 1", f.days)
	}
	var out []wantedCertificate
	add := func(name string, hosts []string) error {
		file := path.Join(dir, name+".pem")
		if name == "" || name == "ca" || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") {
			return fmt.Errorf("certs: %q cannot be the name of a file", name)
		}
		if _, err := files.Stat(file); err == nil {
			return fmt.Errorf("certs: %s exists, and is not overwritten", file)
		}
		for _, other := range out {
			if other.file == file {
				return fmt.Errorf("certs: %s comes twice", name)
			}
		}
		out = append(out, wantedCertificate{name, file, hosts})
		return nil
	}
	for _, node := range f.nodes {
		names := strings.Split(node, ",")
		if err := add(names[0], append([]string{"localhost", "127.0.0.1", "::1"}, names[1:]...)); err != nil {
			return nil, err
		}
	}
	for _, client := range f.clients {
		if err := add(client, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// openAuthority reads the directory's authority, or makes it.
func openAuthority(p process, files vfs.FS, dir string) (*certs.Authority, error) {
	file, keyFile := path.Join(dir, authorityFile), path.Join(dir, authorityKeyFile)
	now := clock.System.Now()
	certificate, err := vfs.ReadFile(files, file, maxPEMBytes)
	key, keyErr := vfs.ReadFile(files, keyFile, maxPEMBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist):
	case err != nil || keyErr != nil:
		return nil, fmt.Errorf("certs: %w", errors.Join(err, keyErr))
	default:
		a, err := certs.OpenAuthority(certificate, key, rand.Reader, now)
		if err != nil {
			err = fmt.Errorf("certs: %s and %s: %w", file, keyFile, err)
		}
		return a, err
	}
	a, err := certs.NewAuthority("Grete test authority", rand.Reader, now)
	if err != nil {
		return nil, err
	}
	if key, err = a.Key(); err != nil {
		return nil, err
	}
	if err := writeNew(p, files, keyFile, key, 0o600); err != nil {
		return nil, err
	}
	return a, writeNew(p, files, file, a.Certificate(), 0o644)
}

// writeNew writes a file that is not there yet.
func writeNew(p process, files vfs.FS, name string, content []byte, mode fs.FileMode) error {
	f, err := files.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("certs: %s exists, and is not overwritten", name)
	} else if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	_, err = f.WriteAt(content, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	_, err = fmt.Fprintln(p.stdout, name)
	return err
}
