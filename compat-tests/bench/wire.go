package main

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))

// conn is one connection that sends encoded requests and reads whole response frames.
type conn struct {
	c    net.Conn
	r    *bufio.Reader
	corr int32
}

// endpoint is where a broker is reached.
type endpoint struct {
	addr string
	tls  *tls.Config // nil: without TLS
}

func (e endpoint) dial() (*conn, error) { return e.dialBuffered(256 << 10) }

// dialBuffered makes a connection that reads up to so many bytes at once.
func (e endpoint) dialBuffered(sizeBytes int) (*conn, error) {
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		return nil, err
	}
	if e.tls != nil {
		c = tls.Client(c, e.tls)
	}
	return &conn{c: c, r: bufio.NewReaderSize(c, sizeBytes)}, nil
}

func (c *conn) close() { _ = c.c.Close() }

func (c *conn) call(req kmsg.Request) (kmsg.Response, error) {
	c.corr++
	if _, err := c.c.Write(formatter.AppendRequest(nil, req, c.corr)); err != nil {
		return nil, err
	}
	body, err := c.readFrame()
	if err != nil {
		return nil, err
	}
	off := 4
	if req.IsFlexible() && req.Key() != 18 {
		off++ // the empty tag section of the response header
	}
	resp := req.ResponseKind()
	return resp, resp.ReadFrom(body[off:])
}

func (c *conn) readFrame() ([]byte, error) {
	var l [4]byte
	if _, err := io.ReadFull(c.r, l[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(l[:]))
	_, err := io.ReadFull(c.r, b)
	return b, err
}

// frameReader walks the fields of one response frame without holding it in memory.
type frameReader struct {
	r    *bufio.Reader
	left int
	err  error
	buf  [64]byte
}

func (c *conn) openFrame() *frameReader {
	f := &frameReader{r: c.r, left: 4}
	f.left = 4 + int(binary.BigEndian.Uint32(f.next(4)))
	f.left -= 4
	return f
}

func (f *frameReader) next(n int) []byte {
	if f.err == nil {
		_, f.err = io.ReadFull(f.r, f.buf[:n])
	}
	f.left -= n
	return f.buf[:n]
}

func (f *frameReader) skip(n int) {
	if f.err == nil {
		_, f.err = f.r.Discard(n)
	}
	f.left -= n
}

func (f *frameReader) uvarint() int {
	var v uint64
	for shift := 0; ; shift += 7 {
		b := f.next(1)[0]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 || f.err != nil {
			return int(v)
		}
	}
}

// recordBatch builds one uncompressed v2 batch of about sizeBytes that holds random values of recBytes.
func recordBatch(sizeBytes, recBytes int, nowMs int64) []byte {
	rnd := rand.New(rand.NewSource(1))
	var recs []byte
	count := 0
	for len(recs)+recBytes+20+61 <= sizeBytes || count == 0 {
		v := make([]byte, recBytes)
		rnd.Read(v)
		body := []byte{0} // attributes
		body = binary.AppendVarint(body, 0)
		body = binary.AppendVarint(body, int64(count))
		body = binary.AppendVarint(body, -1)
		body = binary.AppendVarint(body, int64(len(v)))
		body = append(body, v...)
		body = binary.AppendVarint(body, 0)
		recs = binary.AppendVarint(recs, int64(len(body)))
		recs = append(recs, body...)
		count++
	}
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(count - 1),
		FirstTimestamp: nowMs, MaxTimestamp: nowMs, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(count), Records: recs,
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func encodeProduce(topic string, partition int32, raw []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, raw
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return formatter.AppendRequest(nil, req, 1)
}

// readAck reads the answer to a Produce of one partition.
func (c *conn) readAck() error {
	body, err := c.readFrame()
	if err != nil {
		return err
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	if err := resp.ReadFrom(body[5:]); err != nil {
		return err
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("produce: error code %d", code)
	}
	return nil
}

func encodeFetch(topic string, partition int32, offset int64, maxBytes, maxWaitMs int32) []byte {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, maxWaitMs, 1, maxBytes, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, maxBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return formatter.AppendRequest(nil, req, 1)
}

// readFetch reads one fetch v12 response of one partition: its records' bytes, and the last offset of the last
// whole batch (-1: none), discarding the records.
func (c *conn) readFetch() (recordBytes int, last int64, err error) {
	f := c.openFrame()
	f.next(4 + 1)     // correlation id, header tags
	f.next(4 + 2 + 4) // throttle, error, session
	f.uvarint()       // topics
	f.skip(f.uvarint() - 1)
	f.uvarint() // partitions
	f.next(4)
	if code := int16(binary.BigEndian.Uint16(f.next(2))); code != 0 && f.err == nil {
		return 0, -1, fmt.Errorf("fetch: error code %d", code)
	}
	f.next(8 + 8 + 8)
	f.uvarint() // aborted transactions: none here
	f.next(4)
	recordBytes, last = f.uvarint()-1, -1
	for size := recordBytes; size >= 61 && f.err == nil; {
		h := f.next(27)
		base, length := int64(binary.BigEndian.Uint64(h)), int(binary.BigEndian.Uint32(h[8:]))
		delta := int64(binary.BigEndian.Uint32(h[23:]))
		if 12+length > size {
			break
		}
		f.skip(12 + length - 27)
		size -= 12 + length
		last = base + delta
	}
	f.skip(f.left)
	return recordBytes, last, f.err
}

func createTopic(to *target, topic string, partitions int32) error {
	return createTopics(to, partitions, topic)
}

// createTopics makes topics in one request.
func createTopics(to *target, partitions int32, topics ...string) error {
	c, err := to.dial()
	if err != nil {
		return err
	}
	defer c.close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 60000
	for _, topic := range topics {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, to.replication()
		req.Topics = append(req.Topics, t)
	}
	resp, err := c.call(req)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != 0 && t.ErrorCode != 36 {
			return fmt.Errorf("create topic %s: error code %d", t.Topic, t.ErrorCode)
		}
	}
	return nil
}
