package handlers

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator/group"
	"grete/internal/clock"
	"grete/protocol"
)

var recordAnswers = flag.String("record-groups", "", "host:port of a fresh real Kafka to record testdata/group_answers.txt from")

const answersFile = "testdata/group_answers.txt"

// TestGroupAnswersAreKafkas sends a script of group requests, every key at every version, and compares the answers
// with those that a real Kafka 4.4 gave.
func TestGroupAnswersAreKafkas(t *testing.T) {
	want, err := os.ReadFile(answersFile)
	if err != nil && *recordAnswers == "" {
		t.Fatal(err)
	}
	var w *wire
	if *recordAnswers != "" {
		c, err := net.Dial("tcp", *recordAnswers)
		if err != nil {
			t.Fatal(err)
		}
		w = &wire{t: t, c: c}
	} else {
		w = newGroupRig(t).dial()
	}
	s := &script{w: w, t: t}
	s.play()
	got := s.text()
	if *recordAnswers != "" {
		if err := os.WriteFile(answersFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	compareBlocks(t, got, string(want))
}

func compareBlocks(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(g) != len(w) {
		t.Errorf("%d lines, want %d", len(g), len(w))
	}
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("line %d\n got: %s\nwant: %s", i+1, g[i], w[i])
		}
	}
}

// newGroupRig is a broker with its group coordinator and the topic t of two partitions.
func newGroupRig(t *testing.T) *rig {
	r := newRig(t)
	cfg := group.DefaultConfig()
	cfg.InitialRebalanceDelayMs = 50
	r.broker.Groups = group.NewService(group.Options{
		Config: cfg, Clock: r.clock, Log: zerolog.Nop(), Partitions: func() int32 { return 5 }, NewUUID: uuid.NewString,
	})
	r.broker.Markers.Groups = r.broker.Groups
	r.broker.CoordinatorTopics = NewCoordinatorTopics(topicMaker{r}, clock.System, zerolog.Nop(), CoordinatorTopic{Name: offsetsTopic, Partitions: 5, ReplicationFactor: 1})
	r.createTopic("t", 2)
	t.Cleanup(r.broker.Groups.Close)
	t.Cleanup(r.broker.CoordinatorTopics.Close)
	return r
}

// topicMaker stands in for the controller, and for the wiring of leadership to the coordinator.
type topicMaker struct{ r *rig }

func (m topicMaker) Do(_ context.Context, _ protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	create := req.(*kmsg.CreateTopicsRequest).Topics[0]
	m.r.createTopic(create.Topic, int(create.NumPartitions), "cleanup.policy", "compact")
	for i := range create.NumPartitions {
		p, err := m.r.broker.Replicas.Partition(create.Topic, i)
		if err != nil {
			return nil, err
		}
		if create.Topic == transactionsTopic {
			m.r.broker.Txns.BecomeLeader(i, 0, p.CoordinatorLog())
			continue
		}
		m.r.broker.Groups.BecomeLeader(i, 0, p.CoordinatorLog())
	}
	return kmsg.NewPtrCreateTopicsResponse(), nil
}

// script plays requests and keeps the answers in a form that can be compared: without what is empty or zero, and with
// names for what is random.
type script struct {
	w      *wire
	t      *testing.T
	lines  []string
	topic  [16]byte
	member string // of group gg
	ids    map[string]string
}

func (s *script) do(label string, version int16, req kmsg.Request) kmsg.Response {
	s.t.Helper()
	req.SetVersion(version)
	resp := s.w.receive(req, s.w.send(req))
	raw, err := json.Marshal(resp)
	if err != nil {
		s.t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		s.t.Fatal(err)
	}
	raw, _ = json.Marshal(s.trim(tree))
	s.lines = append(s.lines, fmt.Sprintf("%s %s v%d: %s", strings.TrimSuffix(kmsg.NameForKey(req.Key()), "Request"), label, version, raw))
	return resp
}

// trim drops what is zero and puts lists of groups in order.
func (s *script) trim(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if x = s.trim(x); k == "Groups" {
				inOrder(x)
			}
			if x == nil || k == "Version" || k == "UnknownTags" || k == "Port" || k == "Host" {
				delete(v, k)
			} else {
				v[k] = x
			}
		}
		if len(v) == 0 {
			return nil
		}
		return v
	case []any:
		return s.trimList(v)
	case string:
		if v == "" {
			return nil
		}
		return s.mask(v)
	case float64:
		if v == 0 {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

func (s *script) trimList(list []any) any {
	if len(list) == 16 && s.isTopic(list) {
		return "topic id"
	}
	zero := true
	for i := range list {
		list[i] = s.trim(list[i])
		zero = zero && list[i] == nil
	}
	if len(list) == 0 || (len(list) == 16 && zero) {
		return nil
	}
	return list
}

// inOrder sorts a list of groups, whose order is that of partitions in a hash map at Kafka's.
func inOrder(groups any) {
	if list, ok := groups.([]any); ok {
		sort.Slice(list, func(i, j int) bool { return fmt.Sprint(list[i]) < fmt.Sprint(list[j]) })
	}
}

func (s *script) isTopic(list []any) bool {
	for i, b := range s.topic {
		if f, ok := list[i].(float64); !ok || f != float64(b) {
			return false
		}
	}
	return true
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

func (s *script) mask(text string) string {
	return uuidPattern.ReplaceAllStringFunc(text, func(id string) string {
		if s.ids == nil {
			s.ids = map[string]string{}
		}
		if s.ids[id] == "" {
			s.ids[id] = fmt.Sprint("#", len(s.ids)+1)
		}
		return s.ids[id]
	})
}

func (s *script) text() string { return strings.Join(s.lines, "\n") + "\n" }

// ready makes what the script needs: the topic t, and a coordinator that has loaded.
func (s *script) ready() {
	if *recordAnswers != "" {
		create := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 2, 1
		create.Topics, create.TimeoutMillis = append(create.Topics, topic), 5000
		s.topic = call[*kmsg.CreateTopicsResponse](s.w, 7, create).Topics[0].TopicID
	} else {
		s.topic = topicID("t")
	}
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		probe := kmsg.NewPtrOffsetFetchRequest()
		for i := range 50 {
			probe.Groups = append(probe.Groups, kmsg.OffsetFetchRequestGroup{Group: fmt.Sprint("probe", i), MemberEpoch: -1})
		}
		find := findCoordinator("g", 0)
		if call[*kmsg.FindCoordinatorResponse](s.w, 2, find).ErrorCode == 0 && allServed(call[*kmsg.OffsetFetchResponse](s.w, 8, probe)) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Fatal("no coordinator")
}

func allServed(resp *kmsg.OffsetFetchResponse) bool {
	for _, g := range resp.Groups {
		if g.ErrorCode != 0 {
			return false
		}
	}
	return true
}

func findCoordinator(key string, kind int8) *kmsg.FindCoordinatorRequest {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = key, kind, []string{key}
	return req
}

func TestJavaHost(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:5": "/127.0.0.1", "[::1]:5": "/0:0:0:0:0:0:0:1", "[::ffff:10.0.0.1]:5": "/10.0.0.1", "[fe80::a:b%eth0]:5": "/fe80:0:0:0:0:0:a:b%eth0",
	} {
		if got := javaHost(addrText(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

type addrText string

func (addrText) Network() string  { return "tcp" }
func (a addrText) String() string { return string(a) }

// TestGroupsAreReloaded reads the coordinator's partitions back from the real log, a few bytes at a time.
func TestGroupsAreReloaded(t *testing.T) {
	r := newGroupRig(t)
	w := r.dial()
	s := &script{w: w, t: t}
	s.ready()
	for i := range 200 {
		req := commitRequest(fmt.Sprint("group-", i%20), -1, "", "t", int32(i%2))
		req.Topics[0].Partitions[0].Offset = int64(i)
		if code := call[*kmsg.OffsetCommitResponse](w, 8, req).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("commit %d: %d", i, code)
		}
	}
	join := call[*kmsg.JoinGroupResponse](w, 3, joinRequest("group-1", ""))
	if code := call[*kmsg.SyncGroupResponse](w, 3, syncRequest("group-1", join.MemberID, 1)).ErrorCode; code != 0 {
		t.Fatal(code)
	}
	before := groupsText(t, r.broker.Groups)
	r.broker.Groups.Close()
	cfg := group.DefaultConfig()
	cfg.LoadBufferBytes = 500
	again := group.NewService(group.Options{
		Config: cfg, Clock: r.clock, Log: zerolog.Nop(), Partitions: func() int32 { return 5 }, NewUUID: uuid.NewString,
	})
	t.Cleanup(again.Close)
	for i := range int32(5) {
		p, err := r.broker.Replicas.Partition(offsetsTopic, i)
		if err != nil {
			t.Fatal(err)
		}
		again.BecomeLeader(i, 0, p.CoordinatorLog())
	}
	if after := groupsText(t, again); after != before {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
}

// groupsText is the offsets of twenty groups, and the members of one, once they are loaded.
func groupsText(t *testing.T, s *group.Service) string {
	t.Helper()
	text := ""
	for i := range 20 {
		id := fmt.Sprint("group-", i)
		for range 1000 {
			answer := make(chan kmsg.OffsetFetchResponseGroup, 1)
			s.FetchOffsets(kmsg.OffsetFetchRequestGroup{Group: id}, false, func(g kmsg.OffsetFetchResponseGroup) { answer <- g })
			g := <-answer
			if g.ErrorCode == 0 {
				raw, _ := json.Marshal(g)
				text += string(raw)
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	answer := make(chan kmsg.DescribeGroupsResponseGroup, 1)
	s.DescribeGroup("group-1", 4, func(g kmsg.DescribeGroupsResponseGroup) { answer <- g })
	raw, _ := json.Marshal(<-answer)
	return text + string(raw)
}
