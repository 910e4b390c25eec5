package kafka

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Cache is a directory beside this module for what a toolchain has fetched.
func Cache(name string) string { return filepath.Join(moduleDir(), ".cache", name) }

// Once runs install unless it has been done before in dir; a half-done one is done again.
func Once(dir string, install func() error) error {
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

// Install runs a command of a toolchain, which may be missing.
func Install(dir, name string, args ...string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%w: %s", ErrMissing, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// Python is the interpreter of a virtual environment of its own that has the packages.
func Python(env string, packages ...string) (string, error) {
	dir := Cache("python-" + env)
	bin := filepath.Join(dir, "bin")
	return filepath.Join(bin, "python"), Once(dir, func() error {
		if err := Install(dir, "python3", "-m", "venv", dir); err != nil {
			return err
		}
		return Install(dir, filepath.Join(bin, "pip"), append([]string{"install", "-q", "--disable-pip-version-check"}, packages...)...)
	})
}
