package kafka

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Program is a Java program with its own heap of 256 MiB.
type Program struct {
	LogPath string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
}

// StartJava runs java with a directory of jars and args (a class or a source file, and its arguments); what it says
// goes to logPath.
func StartJava(libs, logPath string, args ...string) (*Program, error) {
	java, err := Java()
	if err != nil {
		return nil, err
	}
	flags := slices.Concat([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(libs, "*")}, args)
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Program{LogPath: logPath, cmd: exec.Command(java, flags...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	return p, nil
}

// Ended reports whether the program has ended, which a service does not do by itself.
func (p *Program) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill is kill -9.
func (p *Program) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks, and waits for the end; after stopTimeout it kills.
func (p *Program) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.Kill()
	}
}

// Tail is the end of what it said.
func (p *Program) Tail() []byte { return tail(p.LogPath) }
