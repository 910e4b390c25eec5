package kafka

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// GreteBin is the binary under test: GRETE_BIN, or bin/grete of the repository.
func GreteBin() (string, error) {
	bin := os.Getenv("GRETE_BIN")
	if bin == "" {
		bin = filepath.Join(filepath.Dir(moduleDir()), "bin", "grete")
	}
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("%w: %s (make build, or name a binary in GRETE_BIN)", ErrMissing, bin)
	}
	return filepath.Abs(bin)
}

// StartGrete starts our binary as one node in opts.Dir. Calling it again with the same Dir restarts on the same data.
func StartGrete(ctx context.Context, opts Options) (*Broker, error) {
	bin, err := GreteBin()
	if err != nil {
		return nil, err
	}
	ports, err := opts.ports(1)
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("%s:%d", cmp.Or(opts.Host, "127.0.0.1"), ports[0])
	args := []string{"serve", "--listen", addr, "--data-dir", filepath.Join(opts.Dir, "data"), "--set", "admin.listen=127.0.0.1:0"}
	if len(opts.Listeners) > 0 {
		args = append(args, "--set", "listeners="+strings.Join(append([]string{"PLAINTEXT://" + addr}, opts.Listeners...), ","))
	}
	for _, k := range slices.Sorted(maps.Keys(opts.Properties)) {
		args = append(args, "--set", k+"="+opts.Properties[k])
	}
	args = append(args, opts.Args...)
	command := append(append(slices.Clone(opts.Under), bin), args...)
	return launch(ctx, exec.Command(command[0], command[1:]...), addr, opts)
}
