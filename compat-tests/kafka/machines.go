package kafka

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
)

// Machines are network namespaces of Linux, one per broker, behind a bridge: a cable can be pulled, and nothing says so
// to the others.
type Machines struct {
	id     string // in the names of the bridge, the namespaces and the cables
	count  int
	subnet string
}

// machines are those of this process, which have names and a network of their own.
var machines atomic.Int64

// NewMachines makes the machines of brokers 1 to count. ErrMissing: this system does not let us.
func NewMachines(count int) (*Machines, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: network namespaces, which need root", ErrMissing)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("%w: the command ip, of iproute2", ErrMissing)
	}
	made := machines.Add(1)
	m := &Machines{id: fmt.Sprintf("%x.%d", os.Getpid(), made), count: count, subnet: fmt.Sprintf("10.%d.%d", 200+os.Getpid()%50, (os.Getpid()/50+int(made))%250)}
	if err := m.open(); err != nil {
		m.Close()
		return nil, fmt.Errorf("%w: network namespaces: %w", ErrMissing, err)
	}
	return m, nil
}

func (m *Machines) bridge() string            { return "gbr" + m.id }
func (m *Machines) namespace(id int32) string { return fmt.Sprintf("grete-%s-%d", m.id, id) }

// cable is its end at the bridge; the other is in the machine.
func (m *Machines) cable(id int32) string { return fmt.Sprintf("gv%s-%d", m.id, id) }

// Host is a machine's address.
func (m *Machines) Host(id int32) string { return fmt.Sprintf("%s.%d", m.subnet, id) }

// Under is the command that runs another on a machine.
func (m *Machines) Under(id int32) []string { return []string{"ip", "netns", "exec", m.namespace(id)} }

// Cut pulls a machine's cable: nothing leaves it, nothing reaches it, and nobody is told.
func (m *Machines) Cut(id int32) error { return ip("link", "set", m.cable(id), "down") }

// Heal plugs it in again.
func (m *Machines) Heal(id int32) error { return ip("link", "set", m.cable(id), "up") }

func (m *Machines) open() error {
	err := errors.Join(ip("link", "add", m.bridge(), "type", "bridge"), ip("addr", "add", m.subnet+".254/24", "dev", m.bridge()), ip("link", "set", m.bridge(), "up"))
	for id := int32(1); err == nil && id <= int32(m.count); id++ {
		err = m.add(id)
	}
	return err
}

func (m *Machines) add(id int32) error {
	ns := m.namespace(id)
	for _, args := range [][]string{
		{"netns", "add", ns},
		{"link", "add", m.cable(id), "type", "veth", "peer", "name", "eth0", "netns", ns},
		{"link", "set", m.cable(id), "master", m.bridge()},
		{"link", "set", m.cable(id), "up"},
		{"-n", ns, "addr", "add", m.Host(id) + "/24", "dev", "eth0"},
		{"-n", ns, "link", "set", "eth0", "up"},
		{"-n", ns, "link", "set", "lo", "up"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	return nil
}

// Close takes the machines away; their processes have ended.
func (m *Machines) Close() {
	for id := int32(1); id <= int32(m.count); id++ {
		_ = ip("netns", "del", m.namespace(id))
	}
	_ = ip("link", "del", m.bridge())
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// nobody is an address that no network card has.
const nobody = "02:00:00:00:00:01"

// Part has two machines not reach each other, in silence; the others reach both.
func (m *Machines) Part(a, b int32) error {
	return errors.Join(m.mislead(a, b), m.mislead(b, a))
}

// Join ends Part.
func (m *Machines) Join(a, b int32) error {
	return errors.Join(ip("-n", m.namespace(a), "neigh", "del", m.Host(b), "dev", "eth0"), ip("-n", m.namespace(b), "neigh", "del", m.Host(a), "dev", "eth0"))
}

// mislead has what one machine sends to another go nowhere.
func (m *Machines) mislead(from, to int32) error {
	return ip("-n", m.namespace(from), "neigh", "replace", m.Host(to), "lladdr", nobody, "dev", "eth0", "nud", "permanent")
}
