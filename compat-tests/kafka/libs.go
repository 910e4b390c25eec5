// Package kafka starts brokers for tests: a real Apache Kafka, one KRaft node, and our own binary, both in a
// directory of the caller and on free loopback ports.
package kafka

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Version is the Apache Kafka that the tests compare with; pom.xml says the same.
const Version = "4.4.0"

// ErrMissing means that the machine lacks a toolchain: a test skips and prints the reason.
var ErrMissing = errors.New("toolchain missing")

//go:embed pom.xml
var pom []byte

// Libs returns the directory with Kafka's jars: the environment's KAFKA_LIBS, or a cache that Maven fills once.
func Libs(ctx context.Context) (string, error) {
	if dir := os.Getenv("KAFKA_LIBS"); dir != "" {
		return dir, nil
	}
	return Jars(ctx, "kafka-"+Version, pom)
}

// Jars returns a directory with the jars that a pom depends on: a cache beside this module, filled when the pom is new.
func Jars(ctx context.Context, name string, pom []byte) (string, error) {
	dir := Cache(name)
	libs := filepath.Join(dir, "libs")
	if has, err := os.ReadFile(filepath.Join(dir, "complete")); err == nil && bytes.Equal(has, pom) {
		return libs, nil
	}
	return libs, fetch(ctx, dir, libs, pom)
}

func fetch(ctx context.Context, dir, libs string, pom []byte) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("%w: mvn, which fetches the jars of %s", ErrMissing, filepath.Base(dir))
	}
	if err := errors.Join(os.RemoveAll(libs), os.MkdirAll(libs, 0o755)); err != nil {
		return err
	}
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", file, "dependency:copy-dependencies", "-DoutputDirectory="+libs)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch %s: %w\n%s", filepath.Base(dir), err, out)
	}
	return os.WriteFile(filepath.Join(dir, "complete"), pom, 0o644)
}

// Java returns the java command.
func Java() (string, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("%w: java", ErrMissing)
	}
	return java, nil
}

func moduleDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}
