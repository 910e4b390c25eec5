package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = 90 * time.Second
	stopTimeout  = 20 * time.Second
	logTailBytes = 4 << 10
)

// Options say how a broker is started.
type Options struct {
	Dir        string            // log.dirs, its configuration and its log live here
	Properties map[string]string // Kafka's properties on top of the harness's own
	JVM        []string          // flags for a Java broker, instead of those that favour a quick start
	Port       int               // 0: a free one; a broker that clients are to find again keeps its port
	Host       string            // of our broker's listener; "": 127.0.0.1
	Args       []string          // further flags of our broker
	Listeners  []string          // beside the plain one, such as SSL://127.0.0.1:9093
	Under      []string          // a command that runs our broker, such as prlimit --nofile=100
	TLS        *tls.Config       // of a client of the listener that clients use; nil: it is a plain one
	Started    func(pid int)     // is called as soon as there is a process
}

// Broker is a process that answers on Addr.
type Broker struct {
	Addr    string // host:port
	DataDir string
	LogPath string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
}

// Pid is the broker's process id.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Done is closed when the process has ended; ExitCode is known then.
func (b *Broker) Done() <-chan struct{} { return b.done }

// ExitCode is the process's, -1 after a signal.
func (b *Broker) ExitCode() int { return b.cmd.ProcessState.ExitCode() }

// Stop ends the broker's process group, first asking, then by force.
func (b *Broker) Stop() error {
	if err := b.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-b.done:
		return nil
	case <-time.After(stopTimeout):
	}
	err := b.Kill()
	return errors.Join(fmt.Errorf("%s: still running %v after SIGTERM", b.cmd.Path, stopTimeout), err)
}

// Kill is kill -9.
func (b *Broker) Kill() error {
	err := b.signal(syscall.SIGKILL)
	<-b.done
	return err
}

// Pause is SIGSTOP: the broker's connections stay open and silent. It returns once all threads have stopped, which on a
// busy machine takes a while: one of them has to run to do it.
func (b *Broker) Pause() error {
	if err := b.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if b.stopped() {
			return nil
		}
	}
	return fmt.Errorf("%s: not stopped %v after SIGSTOP", b.cmd.Path, stopTimeout)
}

// stopped: there is no thread that is not, or no process.
func (b *Broker) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", b.Pid()))
	for _, t := range threads {
		stat, err := os.ReadFile(t)
		if err == nil && !bytes.Contains(stat, []byte(") T ")) {
			return false
		}
	}
	return true
}

// Resume is SIGCONT.
func (b *Broker) Resume() error { return b.signal(syscall.SIGCONT) }

func (b *Broker) signal(s syscall.Signal) error {
	select {
	case <-b.done:
		return nil
	default:
		return syscall.Kill(-b.cmd.Process.Pid, s)
	}
}

// launch starts cmd in a process group of its own and waits until addr speaks Kafka.
func launch(ctx context.Context, cmd *exec.Cmd, addr string, opts Options) (*Broker, error) {
	b := &Broker{Addr: addr, DataDir: filepath.Join(opts.Dir, "data"), LogPath: filepath.Join(opts.Dir, "broker.log"), cmd: cmd, done: make(chan struct{})}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(b.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { cmd.Wait(); close(b.done) }()
	if opts.Started != nil {
		opts.Started(cmd.Process.Pid)
	}
	if err := b.waitReady(ctx, opts.TLS); err != nil {
		b.Kill()
		return nil, fmt.Errorf("%w; end of %s:\n%s", err, b.LogPath, tail(b.LogPath))
	}
	return b, nil
}

func (b *Broker) waitReady(ctx context.Context, secured *tls.Config) error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		if answersApiVersions(b.Addr, secured) {
			return nil
		}
		select {
		case <-b.done:
			return fmt.Errorf("%s ended at start", b.cmd.Path)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer on %s after %v", b.cmd.Path, b.Addr, startTimeout)
}

// answersApiVersions sends ApiVersions v0 and reports whether its correlation id comes back.
func answersApiVersions(addr string, secured *tls.Config) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	if secured != nil {
		c = tls.Client(c, secured)
	}
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff}); err != nil {
		return false
	}
	var head [8]byte
	_, err = io.ReadFull(c, head[:])
	return err == nil && head[7] == 7
}

// ports returns n loopback ports that were free a moment ago; the first is opts.Port if that is set.
func (opts Options) ports(n int) ([]int, error) {
	ports, err := FreePorts(n)
	if err == nil && opts.Port != 0 {
		ports[0] = opts.Port
	}
	return ports, err
}

// Brokers that are started again need the ports that they had. So none is from the range of which the kernel gives
// outgoing connections theirs, and none is handed out twice.
const firstPort, endPort = 10000, 32000

var handedOut sync.Map

// FreePorts returns ports of loopback that nobody listens on.
func FreePorts(n int) (ports []int, err error) {
	for range 1000 + n {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(endPort-firstPort)
		if _, taken := handedOut.LoadOrStore(port, true); taken {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = l.Close()
			ports = append(ports, port)
		}
	}
	return nil, errors.Join(errors.New("no free port found"), err)
}

// FreeAddr is a loopback address whose port was free a moment ago.
func FreeAddr() (string, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(loopback, ":", ports[0]), nil
}

func tail(path string) []byte {
	b, _ := os.ReadFile(path)
	return b[max(0, len(b)-logTailBytes):]
}
