package clients

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"grete/compat-tests/kafka"
)

func here() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func cache(name string) string { return filepath.Join(filepath.Dir(here()), ".cache", name) }

// once runs install unless it has been done before; a half-done one is done again.
func once(dir string, install func() error) error {
	mark := filepath.Join(dir, ".complete")
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := install(); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}

func command(dir, name string, args ...string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%w: %s", kafka.ErrMissing, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// python starts agent.py for a client, in a virtual environment of its own with the packages.
func python(log io.Writer, addr, client, env string, packages ...string) (Client, error) {
	dir := cache("python-" + env)
	err := once(dir, func() error {
		if err := command(dir, "python3", "-m", "venv", dir); err != nil {
			return err
		}
		return command(dir, filepath.Join(dir, "bin", "pip"), append([]string{"install", "-q", "--disable-pip-version-check"}, packages...)...)
	})
	if err != nil {
		return nil, err
	}
	return startAgent(log, filepath.Join(dir, "bin", "python"), filepath.Join(here(), "agents", "agent.py"), client, addr)
}

// node starts agent.js beside its packages.
func node(log io.Writer, addr string, packages ...string) (Client, error) {
	dir := cache("node")
	err := once(dir, func() error {
		return command(dir, "npm", append([]string{"install", "--silent", "--no-audit", "--no-fund", "--prefix", dir}, packages...)...)
	})
	if err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "agent.js")
	source, err := os.ReadFile(filepath.Join(here(), "agents", "agent.js"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(script, source, 0o644); err != nil { // node finds packages beside the script
		return nil, err
	}
	return startAgent(log, "node", script, addr)
}

// java starts Agent.java with the jars of Kafka.
func java(log io.Writer, addr, protocol string) (Client, error) {
	bin, err := kafka.Java()
	if err != nil {
		return nil, err
	}
	libs, err := kafka.Libs(context.Background())
	if err != nil {
		return nil, err
	}
	return startAgent(log, bin, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", filepath.Join(libs, "*"), filepath.Join(here(), "agents", "Agent.java"), addr, protocol)
}
