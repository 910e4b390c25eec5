package cluster

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// fencings counts what the brokers' logs say of brokers that were fenced.
func (r *rig) fencings() (n int) {
	for _, node := range r.Nodes {
		log, err := os.ReadFile(node.LogPath())
		if err != nil {
			r.t.Fatal(err)
		}
		n += bytes.Count(log, []byte("fencing a broker"))
	}
	return n
}

// burn has as many processes work as busily as they can; stop ends them.
func burn(t *testing.T, processes int) (stop func()) {
	t.Helper()
	var burning []*exec.Cmd
	for range processes {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		burning = append(burning, c)
	}
	return func() {
		for _, c := range burning {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
}

// Nobody is fenced who is merely slow, or whom one other node does not reach: a broker that is paused for two seconds,
// brokers that have a quarter of the processors that they could use, a broker that another does not reach, and one that
// the controller does not, for less than its session.
func TestHealthyBrokersAreNotFenced(t *testing.T) {
	r, m := onMachines(t, defaults)
	r.create("kept", 3)
	controller := r.activeController()
	one, two := controller%3+1, (controller+1)%3+1
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	none := func(while string) {
		t.Helper()
		if n := r.fencings(); n > 0 {
			t.Fatalf("%s: %d brokers were fenced", while, n)
		}
	}
	for range 3 {
		must(r.Node(one).Pause())
		time.Sleep(2 * time.Second)
		must(r.Node(one).Resume())
		time.Sleep(time.Second)
	}
	none("a broker was paused for two seconds, three times")
	must(m.Part(one, two))
	time.Sleep(time.Duration(longer(5, 30)) * time.Second)
	must(m.Join(one, two))
	none("one other broker did not reach it")
	must(m.Part(controller, one))
	time.Sleep(6 * time.Second)
	must(m.Join(controller, one))
	none("the controller did not reach it, another broker did")
	stop := burn(t, 4*runtime.NumCPU())
	defer stop()
	w := r.writer("kept", 0)
	for began := time.Now(); time.Since(began) < loaded(); time.Sleep(100 * time.Millisecond) {
		w.write(1)
	}
	none("the processors were oversubscribed fourfold")
	stop()
	must(m.Cut(one))
	r.eventually("fencing of a broker that is silent indeed", func() bool { return r.fencings() > 0 })
}

// loaded is how long the processors are oversubscribed: OVERLOAD, such as 10m, for figures.
func loaded() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("OVERLOAD")); err == nil {
		return d
	}
	return 10 * time.Second
}
