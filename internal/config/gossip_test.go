package config

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

func TestGossipSettings(t *testing.T) {
	for _, tt := range []struct {
		file   string
		listen string // "": none
		join   []string
	}{
		{"node.id=2\ngossip.join=a,[::1]:7,::1,[fe80::1]", ":7946", []string{"a:7946", "[::1]:7", "[::1]:7946", "[fe80::1]:7946"}},
		{"", "", nil}, // a lone broker opens no socket for it
		{"listeners=PLAINTEXT://a:1,gossip://:7000", ":7000", nil},
		{"listeners=PLAINTEXT://:1,GOSSIP://:7000\nadvertised.listeners=PLAINTEXT://b:1,GOSSIP://b:7000", ":7000", nil},
		{"listeners=PLAINTEXT://a:1,CONTROLLER://a:2\ncontroller.quorum.voters=1@a:2,2@b:2,3@c:2", "a:7946", []string{"a:7946", "b:7946", "c:7946"}},
		{"listeners=PLAINTEXT://:1,CONTROLLER://:2\ncontroller.quorum.voters=1@a:2,2@b:2,3@c:2\ngossip.join=b", ":7946", []string{"b:7946"}},
		{"listeners=PLAINTEXT://a:1,CONTROLLER://a:2\ncontroller.quorum.voters=1@a:2,2@a:3,3@a:4", "", nil}, // one machine, one port
		{"listeners=PLAINTEXT://a:1,CONTROLLER://a:2,GOSSIP://a:7\ncontroller.quorum.voters=1@a:2,2@a:3\ngossip.join=a:8, a:9", "a:7", []string{"a:8", "a:9"}},
	} {
		b, err := Load(Sources{File: []byte(tt.file), FileName: "f", Hostname: "me"})
		if err != nil {
			t.Errorf("%q: %v", tt.file, err)
			continue
		}
		listen := ""
		if b.Gossip.Listen != nil {
			listen = b.Gossip.Listen.Address()
		}
		if listen != tt.listen || !slices.Equal(b.Gossip.Join, tt.join) {
			t.Errorf("%q: %q, %v", tt.file, listen, b.Gossip.Join)
		}
	}
}

func TestGossipSettingsRefused(t *testing.T) {
	for file, want := range map[string]string{
		"gossip.key=secret": "gossip.key=[hidden] (f): must be base64 of 16, 24 or 32 bytes",
		"gossip.key=" + base64.StdEncoding.EncodeToString(make([]byte, 20)): "must be base64",
		"gossip.join=:1":                                      "is not host:port",
		"node.id=1\ngossip.join=a:b:c":                        "a:b:c is not host:port",
		"node.id=1\ngossip.join=http://a":                     "http://a is not host:port",
		"node.id=1\ngossip.join=a:99999":                      "a:99999 is not host:port",
		"node.id=1\ngossip.join=a:0":                          "a:0 is not host:port",
		"node.id=1\ngossip.join=a:http":                       "a:http is not host:port",
		"node.id=1\ngossip.join=127.0.0.1:7946:1":             "127.0.0.1:7946:1 is not host:port",
		"node.id=1\ngossip.join=a/b":                          "a/b is not host:port",
		"node.id=1\ngossip.join=,":                            "an entry is empty",
		"node.id=1\ngossip.join=a,,b":                         "an entry is empty",
		"gossip.join=a":                                       "needs node.id",
		"gossip.expect=3":                                     "needs gossip.join",
		"gossip.expect=-1":                                    "gossip.expect",
		"listeners=PLAINTEXT://a:1,GOSSIP://a:2,GOSSIP://a:3": "GOSSIP comes twice",
	} {
		_, err := Load(Sources{File: []byte(file), FileName: "f"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", file, err)
		}
	}
	for _, n := range []int{16, 24, 32} {
		b, err := Load(Sources{File: []byte("gossip.key=" + base64.StdEncoding.EncodeToString(make([]byte, n)))})
		if err != nil || len(b.Gossip.Key) != n {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
