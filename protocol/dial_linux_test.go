package protocol

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection to another node is given up when its machine acknowledges nothing for the patience.
func TestConnectionsToNodesHavePatience(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for patience, want := range map[time.Duration]int{0: 0, 2500 * time.Millisecond: 2500} {
		nc, err := DialTCP(context.Background(), l.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var got int
		if failed := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); failed != nil || err != nil {
			t.Fatal(failed, err)
		}
		if got != want {
			t.Errorf("patience %v: TCP_USER_TIMEOUT is %d ms", patience, got)
		}
		nc.Close()
	}
}
