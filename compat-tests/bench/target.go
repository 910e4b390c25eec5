package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"grete/compat-tests/kafka"
)

// target is a running broker under load, or three.
type target struct {
	name     string
	endpoint          // of one of them
	plain    endpoint // where endpoint is of a listener with TLS or SASL
	pids     []int
	stop     func() error
	kill     func() error
	// cluster is nil for a lone broker; of a cluster's topics every broker has a replica.
	cluster *kafka.Cluster
	// dataDir is where a broker has its logs.
	dataDir string
}

// brokerJVM is what Kafka's own start scripts give a broker.
var brokerJVM = []string{"-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
	"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
	"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}

const floorPartitions = 6

// startTarget starts floor, grete or kafka with its data in dir, as c wants it.
func startTarget(ctx context.Context, name string, c comparison, dir string) (*target, error) {
	switch {
	case c.listener != "":
		return startSecured(ctx, name, c.listener, dir)
	case name == "floor":
		return startFloor(dir, "")
	case c.brokers > 1:
		return startCluster(ctx, name, dir, nil)
	case name == "grete":
		return fromBroker(name)(kafka.StartGrete(ctx, kafka.Options{Dir: dir}))
	default:
		return fromBroker(name)(kafka.StartApache(ctx, kafka.Options{Dir: dir, JVM: brokerJVM}))
	}
}

func fromBroker(name string) func(*kafka.Broker, error) (*target, error) {
	return func(b *kafka.Broker, err error) (*target, error) {
		if err != nil {
			return nil, err
		}
		return &target{name: name, endpoint: endpoint{addr: b.Addr}, pids: []int{b.Pid()}, stop: b.Stop, kill: b.Kill, dataDir: b.DataDir}, nil
	}
}

func startFloor(dir, pem string) (*target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "floor", dir, pem)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	end := func() error {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil
	}
	return &target{name: "floor", endpoint: endpoint{addr: strings.TrimSpace(addr)}, pids: []int{cmd.Process.Pid}, stop: end, kill: end}, nil
}

const ticksPerSecond = 100 // USER_HZ, the unit of /proc's times

// cpuSeconds is the user and system time of the processes so far.
func (t *target) cpuSeconds() (sum float64) {
	for _, pid := range t.pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0
		}
		f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+2:]))
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		sum += (user + system) / ticksPerSecond
	}
	return sum
}

// rssMiB is the resident set of a lone broker.
func (t *target) rssMiB() float64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.pids[0]))
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "VmRSS:") {
			kib, _ := strconv.ParseFloat(strings.Fields(line)[1], 64)
			return kib / 1024
		}
	}
	return 0
}

// startTimed starts our binary on dir and returns it with the time from exec to its first answered Metadata.
func startTimed(dir, addr string) (*target, time.Duration, error) {
	bin, err := kafka.GreteBin()
	if err != nil {
		return nil, 0, err
	}
	log, err := os.Create(filepath.Join(dir, "broker.log"))
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	cmd := exec.Command(bin, "serve", "--listen", addr, "--data-dir", filepath.Join(dir, "data"), "--set", "admin.listen=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	kill := func() error { _ = cmd.Process.Kill(); _ = cmd.Wait(); return nil }
	stop := func() error { _ = cmd.Process.Signal(os.Interrupt); return cmd.Wait() }
	t := &target{name: "grete", endpoint: endpoint{addr: addr}, pids: []int{cmd.Process.Pid}, stop: stop, kill: kill}
	for time.Since(began) < time.Minute {
		if answersMetadata(addr) {
			return t, time.Since(began), nil
		}
		time.Sleep(time.Millisecond)
	}
	_ = kill()
	return nil, 0, fmt.Errorf("no Metadata answer within a minute, see %s", log.Name())
}
