package main

import (
	"net"
	"os"
	"testing"
)

// --join and --expect make the program gossip, and begin a cluster of as many nodes.
func TestJoinFlags(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	p := runProgram(t, nil, "serve", "--node-id", "7", "--join", at, "--expect", "1", "--data-dir", t.TempDir(), "--set", "admin.listen=",
		"--set", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,GOSSIP://"+at)
	if e := p.event("gossiping"); e["address"] != at {
		t.Errorf("%v", e)
	}
	if e := p.event("started"); e["node"] != 7.0 {
		t.Errorf("%v", e)
	}
	p.signals <- os.Interrupt
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
