package main

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// floor serves the least work that a broker could do for the same bytes: a produce request is read, its batch
// checksummed and appended to a file per partition; a fetch is answered with sendfile from that file. No metadata,
// no validation, no index, no replication: something to be compared with, not a broker.
//
// With a file that has a key and its certificate the same goes over Go's TLS, with default settings.
func floor(dir, pem string, partitions int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if pem != "" {
		pair, err := tls.LoadX509KeyPair(pem, pem)
		if err != nil {
			return err
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}})
	}
	logs := make([]*floorLog, partitions)
	for i := range logs {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		logs[i] = &floorLog{f: f}
	}
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			if err := serveFloor(c, logs); err != io.EOF {
				fmt.Fprintln(os.Stderr, "floor:", err)
			}
		}()
	}
}

type floorLog struct {
	f   *os.File
	end atomic.Int64
	n   atomic.Int64 // batch size, all alike
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func serveFloor(c net.Conn, logs []*floorLog) error {
	var buf []byte
	for {
		var l [4]byte
		if _, err := io.ReadFull(c, l[:]); err != nil {
			return err
		}
		size := int(binary.BigEndian.Uint32(l[:]))
		if cap(buf) < size {
			buf = make([]byte, size)
		}
		buf = buf[:size]
		if _, err := io.ReadFull(c, buf); err != nil {
			return err
		}
		if err := serveFloorRequest(c, logs, buf); err != nil {
			return err
		}
	}
}

func serveFloorRequest(c net.Conn, logs []*floorLog, buf []byte) error {
	req := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(buf)))
	req.SetVersion(int16(binary.BigEndian.Uint16(buf[2:])))
	body := buf[8:]
	body = body[2+max(0, int(int16(binary.BigEndian.Uint16(body)))):] // client id
	out := append(make([]byte, 4, 256), buf[4:8]...)
	if req.IsFlexible() {
		body = body[1:]
		out = append(out, 0)
	}
	if err := req.ReadFrom(body); err != nil {
		return err
	}
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		resp, err := floorProduce(logs, r)
		if err != nil {
			return err
		}
		out = resp.AppendTo(out)
	case *kmsg.CreateTopicsRequest:
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic = r.Topics[0].Topic
		resp.Topics = append(resp.Topics, t)
		out = resp.AppendTo(out)
	case *kmsg.FetchRequest:
		return floorFetch(c, logs, r, out)
	default:
		return fmt.Errorf("key %d is not served", req.Key())
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	_, err := c.Write(out)
	return err
}

func floorProduce(logs []*floorLog, r *kmsg.ProduceRequest) (kmsg.Response, error) {
	p := r.Topics[0].Partitions[0]
	log := logs[p.Partition]
	if crc32.Checksum(p.Records[21:], castagnoli) != binary.BigEndian.Uint32(p.Records[17:]) {
		return nil, fmt.Errorf("bad checksum")
	}
	at := log.end.Add(int64(len(p.Records))) - int64(len(p.Records))
	if _, err := log.f.WriteAt(p.Records, at); err != nil {
		return nil, err
	}
	log.n.Store(int64(len(p.Records)))
	resp := r.ResponseKind().(*kmsg.ProduceResponse)
	t := kmsg.NewProduceResponseTopic()
	t.Topic = r.Topics[0].Topic
	rp := kmsg.NewProduceResponseTopicPartition()
	rp.Partition = p.Partition
	t.Partitions = append(t.Partitions, rp)
	resp.Topics = append(resp.Topics, t)
	return resp, nil
}

func floorFetch(c net.Conn, logs []*floorLog, r *kmsg.FetchRequest, out []byte) error {
	log := logs[r.Topics[0].Partitions[0].Partition]
	n := log.n.Load()
	if n == 0 {
		return fmt.Errorf("fetch of an empty partition")
	}
	most := min(int64(r.MaxBytes), log.end.Load()) / n * n
	resp := r.ResponseKind().(*kmsg.FetchResponse)
	t := kmsg.NewFetchResponseTopic()
	t.Topic = r.Topics[0].Topic
	t.Partitions = append(t.Partitions, kmsg.NewFetchResponseTopicPartition())
	resp.Topics = append(resp.Topics, t)
	enc := resp.AppendTo(nil)
	// The empty records field is one byte, followed by the three tag sections that close the partition, the topic
	// and the response: the length is put in its place, the batches between.
	out = append(out, enc[:len(enc)-4]...)
	out = binary.AppendUvarint(out, uint64(most)+1)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4)+uint32(most)+3)
	if _, err := c.Write(out); err != nil {
		return err
	}
	f, err := os.Open(log.f.Name())
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(c, &io.LimitedReader{R: f, N: most}); err != nil {
		return err
	}
	_, err = c.Write([]byte{0, 0, 0})
	return err
}
