package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"grete/internal/config"
	"grete/internal/vfs"
)

// maxConfigBytes bounds a server.properties: Kafka's own, with every property and its comment, is far smaller.
const maxConfigBytes = 16 << 20

// serveFlags are the flags of grete serve.
type serveFlags struct {
	config, listen, dataDir string
	set                     []string
	ephemeral, strict       bool
	brokers                 int
	nodeID, expect          int
	join                    string
	tempDir                 string // of --ephemeral, once it exists
}

// check refuses numbers that mean "not given" here and that somebody has given.
func (f *serveFlags) check(given func(flag string) bool) error {
	switch {
	case given("node-id") && f.nodeID < 0:
		return fmt.Errorf("config: --node-id=%d: a node id is at least 0", f.nodeID)
	case given("expect") && f.expect < 0:
		return fmt.Errorf("config: --expect=%d: must be at least 0", f.expect)
	}
	return nil
}

// load reads all sources of the configuration; own has what one of several brokers does not share.
func (f *serveFlags) load(fs vfs.FS, env []string, own map[string]string) (*config.Broker, error) {
	s := config.Sources{Strict: f.strict, Env: env, FileName: f.config, Hostname: f.hostname()}
	if f.config != "" {
		file, err := vfs.ReadFile(fs, f.config, maxConfigBytes)
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		s.File = file
	}
	var err error
	if s.Flags, err = f.assignments(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		s.Flags = append(s.Flags, config.Assignment{From: "--brokers", Name: name, Value: own[name]})
	}
	return config.Load(s)
}

// assignments are the flags as properties.
func (f *serveFlags) assignments() ([]config.Assignment, error) {
	var out []config.Assignment
	if f.listen != "" {
		host, port, err := net.SplitHostPort(f.listen)
		if err != nil {
			return nil, fmt.Errorf("config: --listen=%s: not host:port", f.listen)
		}
		if host == "0.0.0.0" || host == "::" { // all addresses: advertised under the machine's name
			host = ""
		}
		out = append(out, config.Assignment{From: "--listen", Name: "listeners", Value: "PLAINTEXT://" + net.JoinHostPort(host, port)})
	}
	if f.nodeID >= 0 {
		out = append(out, config.Assignment{From: "--node-id", Name: "node.id", Value: strconv.Itoa(f.nodeID)})
	}
	if f.join != "" {
		out = append(out, config.Assignment{From: "--join", Name: "gossip.join", Value: f.join})
	}
	if f.expect > 0 {
		out = append(out, config.Assignment{From: "--expect", Name: "gossip.expect", Value: strconv.Itoa(f.expect)})
	}
	if f.dataDir != "" {
		out = append(out, config.Assignment{From: "--data-dir", Name: "log.dirs", Value: f.dataDir})
	}
	if f.tempDir != "" {
		out = append(out, config.Assignment{From: "--ephemeral", Name: "log.dirs", Value: f.tempDir})
	}
	for _, pair := range f.set {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("config: --set %s: not key=value", pair)
		}
		out = append(out, config.Assignment{From: "--set", Name: name, Value: value})
	}
	return out, nil
}

// makeTempDir makes the directory of --ephemeral. It is on TMPDIR, not in shared memory, which containers keep small.
func (f *serveFlags) makeTempDir(fs vfs.FS, env []string, entropy io.Reader) error {
	base := "/tmp"
	for _, pair := range env {
		if dir, ok := strings.CutPrefix(pair, "TMPDIR="); ok && dir != "" {
			base = dir
		}
	}
	var id [8]byte
	if _, err := io.ReadFull(entropy, id[:]); err != nil {
		return err
	}
	f.tempDir = path.Join(base, "grete-"+hex.EncodeToString(id[:]))
	return fs.MkdirAll(f.tempDir, 0o700)
}

// hostname is what clients and nodes elsewhere are told. A node that finds others takes the address that a route to one
// begins with: they need no name service for it. Kafka takes the canonical host name, as do we else.
func (f *serveFlags) hostname() string {
	for _, seed := range config.SplitList(f.join) {
		if !strings.Contains(seed, ":") {
			seed = net.JoinHostPort(seed, config.GossipPort)
		}
		if nc, err := net.Dial("udp", seed); err == nil { // sends nothing
			defer nc.Close()
			return nc.LocalAddr().(*net.UDPAddr).IP.String()
		}
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
