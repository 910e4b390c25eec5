package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol/batch"
)

// stormAddresses names the variable that makes a process of this test the hostile one: addresses of the four
// listeners, how many connections to hold, and for how many milliseconds.
const stormAddresses = "GRETE_TEST_STORM"

// hostility is one way to be a nuisance, on a new connection to one of the listeners, until the broker cuts it.
type hostility struct {
	name     string
	listener int // of frontListeners
	act      func(nc net.Conn, until time.Time)
}

// hostilities are what the hostile process does, in turn.
var hostilities = []hostility{
	{"idle", 0, func(nc net.Conn, until time.Time) { awaitCut(nc, until) }},
	{"a large claim", 0, func(nc net.Conn, until time.Time) {
		_, _ = nc.Write(append(binary.BigEndian.AppendUint32(nil, 90<<20), make([]byte, 2000)...))
		awaitCut(nc, until)
	}},
	{"half a hello", 1, func(nc net.Conn, until time.Time) {
		_, _ = nc.Write(append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 100)...))
		awaitCut(nc, until)
	}},
	{"garbage", 1, func(nc net.Conn, until time.Time) {
		_, _ = nc.Write(bytes.Repeat([]byte("garbage!"), 100))
		awaitCut(nc, until)
	}},
	{"a slow login", 2, func(nc net.Conn, until time.Time) { trickle(nc, until) }},
	{"a handshake, and a slow login", 3, func(nc net.Conn, until time.Time) {
		c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
		_ = c.SetDeadline(until)
		if c.Handshake() == nil {
			trickle(c, until)
		}
	}},
	{"a wrong password", 2, func(nc net.Conn, until time.Time) {
		handshake, token := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLAuthenticateRequest()
		handshake.Version, handshake.Mechanism = 1, "PLAIN"
		token.Version, token.SASLAuthBytes = 2, []byte("\x00ann\x00guessed")
		_, _ = nc.Write(kmsg.NewRequestFormatter().AppendRequest(kmsg.NewRequestFormatter().AppendRequest(nil, handshake, 1), token, 2))
		awaitCut(nc, until)
	}},
	{"handshakes one after the other", 1, func(nc net.Conn, until time.Time) {
		_ = nc.SetDeadline(until)
		_ = tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).Handshake()
	}},
}

func awaitCut(nc net.Conn, until time.Time) {
	_ = nc.SetReadDeadline(until)
	for b := make([]byte, 64); ; {
		if _, err := nc.Read(b); err != nil {
			return
		}
	}
}

// trickle sends a login a byte at a time.
func trickle(nc net.Conn, until time.Time) {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, "SCRAM-SHA-512"
	for _, b := range kmsg.NewRequestFormatter().AppendRequest(nil, handshake, 1) {
		_ = nc.SetDeadline(time.Now().Add(time.Second))
		if _, err := nc.Write([]byte{b}); err != nil {
			return
		}
		if _, err := nc.Read(make([]byte, 1)); err != nil && !strings.Contains(err.Error(), "timeout") || time.Now().After(until) {
			return
		}
	}
}

// TestStormOfAnother is the hostile process of TestStorm, and nothing by itself.
func TestStormOfAnother(t *testing.T) {
	fields := strings.Fields(os.Getenv(stormAddresses))
	if len(fields) != 6 {
		t.Skip("not a hostile process")
	}
	var connections int
	var milliseconds int64
	if _, err := fmt.Sscan(fields[4]+" "+fields[5], &connections, &milliseconds); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	var wg sync.WaitGroup
	var opened, open, most atomic.Int64
	for i := range connections {
		h := hostilities[i%len(hostilities)]
		wg.Go(func() {
			for time.Now().Before(until) {
				nc, err := net.DialTimeout("tcp", fields[h.listener], 5*time.Second)
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				opened.Add(1)
				if n := open.Add(1); n > most.Load() {
					most.Store(n)
				}
				h.act(nc, until)
				nc.Close()
				open.Add(-1)
				time.Sleep(min(time.Duration(rand.Int64N(int64(2*time.Second))), time.Until(until)))
			}
		})
		if i%100 == 99 { // an attacker's network has a rate, too
			time.Sleep(10 * time.Millisecond)
		}
	}
	wg.Wait()
	fmt.Printf("opened %d most %d\n", opened.Load(), most.Load())
}

// latencies has a client on a listener produce again and again for so long.
func (f *front) latencies(c *caller, d time.Duration) []time.Duration {
	f.t.Helper()
	var out []time.Duration
	good := built(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, []byte("good"))
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		began := time.Now()
		if code := asked[*kmsg.ProduceResponse](c, produced("good", "", good)).Topics[0].Partitions[0].ErrorCode; code != 0 {
			f.t.Fatalf("error %d", code)
		}
		out = append(out, time.Since(began))
	}
	slices.Sort(out)
	return out
}

func p99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }

// stormSlack is what a p99 may be whatever it is on a quiet broker: slices of the machine's scheduler are that long.
const stormSlack = 5 * time.Millisecond

// Clients by the hundreds who may do nothing connect again and again: a client that means well is served all the
// while, on its old connection and on new ones. GRETE_LONG: ten thousand of them, and the good client's p99 is bounded.
func TestStorm(t *testing.T) {
	connections, length := 500, 1500*time.Millisecond
	long := os.Getenv("GRETE_LONG") != ""
	if long {
		connections, length = 10_000, 40*time.Second
	}
	f := newFront(t)
	maker := f.dial("PLAINTEXT")
	if code := creating("", named("good"), 1, nil).ask(maker, ""); code != 0 {
		t.Fatalf("error %d", code)
	}
	c := f.dial("SASL_SSL")
	defer c.Close()
	f.latencies(c, length/10)
	quiet := f.latencies(c, length/4)
	ctx, cancel := context.WithTimeout(t.Context(), length+time.Minute)
	defer cancel()
	args := []string{os.Args[0], "-test.run", "^TestStormOfAnother$", "-test.v"}
	if chrt, err := exec.LookPath("chrt"); err == nil { // its work is that of other machines
		args = append([]string{chrt, "--idle", "0"}, args...)
	}
	hostile := exec.CommandContext(ctx, args[0], args[1:]...)
	var told bytes.Buffer
	hostile.Stdout, hostile.Stderr = &told, &told
	var addresses []string
	for _, listener := range frontListeners {
		addresses = append(addresses, f.n.Addr(listener))
	}
	hostile.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", stormAddresses, strings.Join(addresses, " "), connections, length.Milliseconds()))
	if err := hostile.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(length / 4)
	began := time.Now()
	stormy := f.latencies(c, length/2)
	for _, listener := range frontListeners { // new connections, too
		f.serves(listener)
	}
	if err := hostile.Wait(); err != nil || !strings.Contains(told.String(), "opened ") {
		t.Fatalf("%v: %s", err, told.String())
	}
	t.Logf("%s%d requests quiet: p50 %v, p99 %v, max %v; %d in the storm: p50 %v, p99 %v, max %v; %v", told.String(), len(quiet), quiet[len(quiet)/2], p99(quiet), quiet[len(quiet)-1],
		len(stormy), stormy[len(stormy)/2], p99(stormy), stormy[len(stormy)-1], time.Since(began))
	if long && p99(stormy) > max(3*p99(quiet), stormSlack) {
		t.Errorf("p99 is %v, and %v when it is quiet", p99(stormy), p99(quiet))
	}
}
