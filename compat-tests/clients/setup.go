package clients

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"grete/compat-tests/kafka"
)

func here() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// python starts agent.py for a client, in a virtual environment of its own with the packages.
func python(log io.Writer, addr, client, env string, packages ...string) (Client, error) {
	bin, err := kafka.Python(env, packages...)
	if err != nil {
		return nil, err
	}
	return startAgent(log, bin, filepath.Join(here(), "agents", "agent.py"), client, addr)
}

// node starts agent.js beside its packages.
func node(log io.Writer, addr string) (Client, error) {
	script, err := nodeScript("agent.js")
	if err != nil {
		return nil, err
	}
	return startAgent(log, "node", script, addr)
}

// nodeScript is an agent in the directory of its packages: node looks for them there.
func nodeScript(name string) (string, error) {
	dir := kafka.Cache("node")
	err := kafka.Once(dir, func() error {
		return kafka.Install(dir, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, "kafkajs", "kafkajs-snappy", "kafkajs-lz4")
	})
	if err != nil {
		return "", err
	}
	script := filepath.Join(dir, name)
	source, err := os.ReadFile(filepath.Join(here(), "agents", name))
	if err != nil {
		return "", err
	}
	return script, os.WriteFile(script, source, 0o644)
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
