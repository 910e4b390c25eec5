package handlers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/metadata/acl"
	"grete/cluster/replica"
	"grete/internal/vfs"
	"grete/protocol"
	"grete/protocol/batch"
)

// diskRig is a rig on the real file system: sendfile and page cache as in production.
func diskRig(b *testing.B) *rig {
	return newRig(b, withFS(vfs.OS, b.TempDir()))
}

// BenchmarkProduce sends one batch at a time over loopback: the round trip, and what it allocates.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{300, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := diskRig(b)
			r.createTopic("t", 1)
			w := r.dial()
			req := produceRequest("t", 0, -1, records(b, plain, strings.Repeat("x", size-100)))
			req.SetVersion(9)
			frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
			reply := make([]byte, 256)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.c.Write(frame); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadAtLeast(w.c, reply, 4); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMay is what a small Produce pays for authorization beside BenchmarkProduce: to ask whether the client may
// write, with 10,000 ACLs.
func BenchmarkMay(b *testing.B) {
	r, _ := guarded(b, acl.Rules{})
	var records []metadata.Record
	for i := range 10_000 {
		e := allow(0, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic, fmt.Sprint("topic-", i))
		e.ID = metadata.UUID{0: byte(i), 1: byte(i >> 8), 2: 1}
		records = append(records, e)
	}
	r.apply(append(records, allow(1, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic, "t"))...)
	r.createTopic("t", 1)
	conn := &protocol.Conn{RemoteAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}
	conn.SetPrincipal(protocol.Principal{Type: "User", Name: "ANONYMOUS"})
	req := &protocol.Request{Conn: conn}
	b.ReportAllocs()
	for b.Loop() {
		if !r.broker.mayTopic(req, kmsg.ACLOperationWrite, "t") {
			b.Fatal("denied")
		}
	}
}

// BenchmarkProduceHandled is a Produce without the network: validation, append, response.
func BenchmarkProduceHandled(b *testing.B) {
	for _, size := range []int{300, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := diskRig(b)
			r.createTopic("t", 1)
			p, err := r.broker.Replicas.Partition("t", 0)
			if err != nil {
				b.Fatal(err)
			}
			raw := records(b, plain, strings.Repeat("x", size-100))
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				batch.Batch(raw).SetBaseOffset(0)
				if _, err := p.Produce(replica.ProduceRequest{Records: raw, ProduceVersion: 9, Acks: replica.AckAll}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFetch reads 50 MiB responses from the page cache over loopback.
func BenchmarkFetch(b *testing.B) {
	r := diskRig(b)
	r.createTopic("t", 1)
	w := r.dial()
	raw := records(b, plain, strings.Repeat("x", 900<<10))
	for range 60 {
		resp := call[*kmsg.ProduceResponse](w, 9, produceRequest("t", 0, -1, bytes.Clone(raw)))
		if resp.Topics[0].Partitions[0].ErrorCode != 0 {
			b.Fatal(resp)
		}
	}
	req := fetchRequest("t", 0, 0)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
	req.SetVersion(12)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
	b.SetBytes(50 << 20)
	b.ReportAllocs()
	sink := make([]byte, 1<<20)
	for b.Loop() {
		if _, err := w.c.Write(frame); err != nil {
			b.Fatal(err)
		}
		for left := frameSize(b, w); left > 0; {
			n, err := w.c.Read(sink[:min(left, len(sink))])
			if err != nil {
				b.Fatal(err)
			}
			left -= n
		}
	}
}

func frameSize(b *testing.B, w *wire) int {
	var size [4]byte
	if _, err := io.ReadFull(w.c, size[:]); err != nil {
		b.Fatal(err)
	}
	return int(binary.BigEndian.Uint32(size[:]))
}
