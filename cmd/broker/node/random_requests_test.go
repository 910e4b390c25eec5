package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/handlers"
	"grete/internal/vfs"
	"grete/protocol"
	"grete/protocol/batch"
)

// requestMaker makes requests of every key and version that are well-formed and otherwise anything: fields take odd
// values, or values that an earlier request may have made real, so that the requests reach past the first check.
type requestMaker struct {
	rnd      *rand.Rand
	versions []protocol.VersionRange
	topicIDs [][16]byte
	members  []string // ids that the broker gave out
}

var (
	oddNames  = []string{"", ".", "..", "a/b", "\x00", "__consumer_offsets", "__transaction_state", "__cluster_metadata", "\xff\xfe", "no-such", string(make([]byte, 300))}
	realNames = []string{"t", "t", "u", "g", "h", "range", "roundrobin", "consumer", "uniform", "1", "0", "retention.ms", "cleanup.policy", "compact", "root"}
	oddInts   = []int64{math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, math.MinInt16, math.MaxInt16, -6, -5, -4, -3, -2, -1, 127, 1000, 10_000, 100_000}
)

// heldBack are fields whose large values would only make the test slow: waits, and counts of partitions.
var heldBack = map[string]int64{
	"MaxWaitMillis": 20, "TimeoutMillis": 50, "NumPartitions": 4, "Count": 4, "RebalanceTimeoutMillis": 50, "SessionTimeoutMillis": 6500,
}

func (m *requestMaker) name() string {
	switch n := m.rnd.IntN(20); {
	case n == 0:
		return oddNames[m.rnd.IntN(len(oddNames))]
	case n < 4 && len(m.members) > 0:
		return m.members[m.rnd.IntN(len(m.members))]
	default:
		return realNames[m.rnd.IntN(len(realNames))]
	}
}

func (m *requestMaker) number(field string) int64 {
	if m.rnd.IntN(8) > 0 {
		return int64(m.rnd.IntN(4))
	}
	n := oddInts[m.rnd.IntN(len(oddInts))]
	if most, ok := heldBack[field]; ok {
		return min(n, most)
	}
	return n
}

// records are a good batch, a good one with a byte changed, or no batch.
func (m *requestMaker) records() []byte {
	if m.rnd.IntN(20) == 0 {
		return m.garbage()
	}
	records := make([]batch.Record, 1+m.rnd.IntN(3))
	for i := range records {
		records[i] = batch.Record{Offset: int64(i), TimestampMs: time.Now().UnixMilli(), Key: []byte("k"), Value: m.garbage()}
	}
	b, err := batch.Build(batch.BuildOptions{
		Codec: batch.Codec(m.rnd.IntN(5)), ProducerID: int64(m.rnd.IntN(4)) - 1, ProducerEpoch: int16(m.rnd.IntN(2)), BaseSequence: int32(m.rnd.IntN(3)),
		Transactional: m.rnd.IntN(4) == 0, Control: m.rnd.IntN(20) == 0,
	}, records)
	if err != nil {
		panic(err)
	}
	if m.rnd.IntN(4) == 0 {
		b[m.rnd.IntN(len(b))] ^= byte(1 << m.rnd.IntN(8))
	}
	return b
}

func (m *requestMaker) garbage() []byte {
	b := make([]byte, m.rnd.IntN(64))
	for i := range b {
		b[i] = byte(m.rnd.Uint32())
	}
	return b
}

// fill sets v and all that is in it.
func (m *requestMaker) fill(v reflect.Value, field string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Version" && f.Name != "UnknownTags" {
				m.fill(v.Field(i), f.Name)
			}
		}
	case reflect.Pointer:
		if m.rnd.IntN(4) == 0 {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), field)
	case reflect.Slice:
		m.fillSlice(v, field)
	case reflect.Array: // of bytes: an id
		if len(m.topicIDs) > 0 && m.rnd.IntN(3) > 0 {
			reflect.Copy(v, reflect.ValueOf(m.topicIDs[m.rnd.IntN(len(m.topicIDs))]))
		}
	case reflect.String:
		v.SetString(m.name())
	case reflect.Bool:
		v.SetBool(m.rnd.IntN(2) == 0)
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, -1, 1, math.NaN(), math.Inf(1)}[m.rnd.IntN(5)])
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(m.number(field)) & math.MaxUint16)
	default:
		v.SetInt(m.number(field)) // cut to the field's size
	}
}

func (m *requestMaker) fillSlice(v reflect.Value, field string) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		switch {
		case m.rnd.IntN(8) == 0:
			v.SetZero()
		case field == "Records":
			v.SetBytes(m.records())
		default:
			v.SetBytes(m.garbage())
		}
		return
	}
	n := m.rnd.IntN(5) - 1
	if n < 0 {
		v.SetZero()
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		m.fill(v.Index(i), field)
	}
}

func newRequestMaker(seed uint64) *requestMaker {
	versions := slices.DeleteFunc(new(handlers.Broker).Versions(), func(r protocol.VersionRange) bool { return r.Key >= protocol.RaftKey })
	return &requestMaker{rnd: rand.New(rand.NewPCG(seed, 1)), versions: versions}
}

func (m *requestMaker) next() kmsg.Request {
	row := m.versions[m.rnd.IntN(len(m.versions))]
	req := kmsg.RequestForKey(row.Key)
	req.SetVersion(row.Min + int16(m.rnd.IntN(int(row.Max-row.Min)+1)))
	m.fill(reflect.ValueOf(req).Elem(), "")
	return req
}

// learn keeps what the broker gave out.
func (m *requestMaker) learn(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		m.keepMember(r.MemberID)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.MemberID != nil {
			m.keepMember(*r.MemberID)
		}
	case *kmsg.MetadataResponse:
		for _, t := range r.Topics {
			if len(m.topicIDs) < 8 && t.TopicID != (metadata.UUID{}) {
				m.topicIDs = append(m.topicIDs, t.TopicID)
			}
		}
	}
}

func (m *requestMaker) keepMember(id string) {
	if id != "" && len(m.members) < 8 {
		m.members = append(m.members, id)
	}
}

// answerPatience is longer than whatever the requests ask the broker to wait.
const answerPatience = 15 * time.Second

// exchange sends a request and reads its answer; io.EOF when the broker closed instead. acks=0 has no answer: it
// returns nil.
func exchange(nc net.Conn, req kmsg.Request, correlation int32) (kmsg.Response, error) {
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("random")).AppendRequest(nil, req, correlation)
	_ = nc.SetDeadline(time.Now().Add(answerPatience))
	if _, err := nc.Write(frame); err != nil {
		return nil, io.EOF
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return nil, nil
	}
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(nc, body); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != correlation {
		return nil, fmt.Errorf("answer to %d instead of %d", got, correlation)
	}
	return decodeAnswer(req, body[4:])
}

func decodeAnswer(req kmsg.Request, body []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// play sends random requests over one connection after another. It stops with an error when a request is neither
// answered nor refused by a closed connection, or when its answer cannot be decoded.
func (m *requestMaker) play(addr string, requests int) error {
	var nc net.Conn
	for i := range requests {
		if nc == nil {
			var err error
			if nc, err = net.Dial("tcp", addr); err != nil {
				return err
			}
			defer nc.Close()
		}
		req := m.next()
		resp, err := exchange(nc, req, int32(i))
		switch {
		case err == nil && resp != nil:
			m.learn(resp)
		case errors.Is(err, io.EOF), isReset(err):
			nc.Close()
			nc = nil
		case err != nil:
			return fmt.Errorf("request %d, %s v%d: %w; body %x", i, kmsg.NameForKey(req.Key()), req.GetVersion(), err, req.AppendTo(nil))
		}
	}
	return nil
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// endOnFailure ends the test's process when the broker logs that a handler has panicked.
type endOnFailure struct{}

func (endOnFailure) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("a handler failed")) {
		panic(string(line))
	}
	return len(line), nil
}

// randomRequestsNode has a topic and two groups' worth of names for the requests to meet.
func randomRequestsNode(t testing.TB) *Node {
	o := options(t, vfs.NewMem(), "offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2", "num.partitions=2")
	o.Log = zerolog.New(endOnFailure{})
	n := start(t, o)
	createTopic(t, client(t, n), "t", 2)
	return n
}

// assertServes fails unless a new client can create, produce and consume in a group.
func assertServes(t *testing.T, n *Node, topic string) {
	t.Helper()
	cl := client(t, n)
	createTopic(t, cl, topic, 1)
	produce(t, cl, topic, 0, 10)
	consume(t, client(t, n, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 10)
}

func TestRandomRequests(t *testing.T) {
	requests := 2000
	if os.Getenv("GRETE_LONG") != "" {
		requests = 100_000
	}
	n := randomRequestsNode(t)
	var players sync.WaitGroup
	for range 4 {
		seed := rand.Uint64()
		players.Go(func() {
			if err := newRequestMaker(seed).play(n.Addr("PLAINTEXT"), requests); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	players.Wait()
	assertServes(t, n, "after")
}

// FuzzBodies gives handlers bodies that began as good requests. The broker must end each connection by itself after the
// peer's end, and answer a good request on the next.
func FuzzBodies(f *testing.F) {
	m := newRequestMaker(1)
	for range 500 {
		req := m.next()
		f.Add(req.Key(), req.GetVersion(), req.AppendTo(nil))
	}
	n := randomRequestsNode(f)
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if err := sendBody(n.Addr("PLAINTEXT"), key, version, body); err != nil {
			t.Fatal(err)
		}
		nc, err := net.Dial("tcp", n.Addr("PLAINTEXT"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := exchange(nc, kmsg.NewPtrApiVersionsRequest(), 1); err != nil {
			t.Fatal(err)
		}
	})
}

// sendBody sends a body behind a good header, ends our side, and reads until the broker ends its own.
func sendBody(addr string, key, version int16, body []byte) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	frame := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(key))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = append(frame, 0, 0, 0, 1, 0xff, 0xff)
	if req := kmsg.RequestForKey(key); req != nil {
		if req.SetVersion(version); req.IsFlexible() {
			frame = append(frame, 0)
		}
	}
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_, err = nc.Write(frame)
	if err == nil {
		err = nc.(*net.TCPConn).CloseWrite()
	}
	if err == nil {
		_ = nc.SetDeadline(time.Now().Add(answerPatience))
		_, err = io.Copy(io.Discard, nc)
	}
	if isReset(err) || errors.Is(err, syscall.ENOTCONN) {
		return nil
	}
	return err
}
