package kafka

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// processes are the brokers' of a cluster. They tell whose a connection is, whatever goes over it.
type processes struct {
	mu   sync.Mutex
	pids map[int32]int
}

func (p *processes) started(id int32, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pids == nil {
		p.pids = map[int32]int{}
	}
	p.pids[id] = pid
}

// dialler is the broker that has the other end of c, a connection over loopback.
func (p *processes) dialler(c net.Conn) (int32, error) {
	inode, err := socketOf(c.RemoteAddr().(*net.TCPAddr), c.LocalAddr().(*net.TCPAddr))
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, pid := range p.pids {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if to, _ := os.Readlink(filepath.Join(dir, e.Name())); to == "socket:["+inode+"]" {
				return id, nil
			}
		}
	}
	return 0, errStranger
}

// socketOf is the inode of a socket by its two addresses.
func socketOf(local, remote *net.TCPAddr) (inode string, err error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // number, local, remote, state, …, inode
		if len(fields) > 9 && fields[1] == hexed(local) && fields[2] == hexed(remote) {
			return fields[9], nil
		}
	}
	return "", errStranger
}

// hexed is an address as /proc/net/tcp has it: the kernel's bytes of it, which are in little-endian order here.
func hexed(a *net.TCPAddr) string {
	ip := a.IP.To4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], a.Port)
}
