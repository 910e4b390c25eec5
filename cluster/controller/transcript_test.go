package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/internal/transcript"
)

// TestTranscripts plays testdata/*.txt. A command is a request, whose meaning is told by commands; it leads to the
// records that it makes and its answer.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, 9, func(*testing.T) func(string) string { return newStage().run })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is a controller without log and time: every decision is applied at once.
type stage struct {
	image    *metadata.Image
	index    *partitionIndex
	now      time.Time
	rand     *rand.Rand
	static   config.Layers
	sessions *sessions
	features []Feature
	deleted  map[metadata.UUID]string
}

func newStage() *stage {
	return &stage{
		image: &metadata.Image{}, index: newPartitionIndex(&metadata.Image{}), now: time.UnixMilli(1_000_000), rand: rand.New(rand.NewPCG(1, 1)),
		sessions: newSessions(9000), deleted: map[metadata.UUID]string{}, static: config.Layers{Static: map[string]string{}},
		features: append(DefaultFeatures(), Feature{Name: "group.version", Max: 1}),
	}
}

func (s *stage) view() *view {
	return &view{
		lost:  func(int32) bool { return false },
		image: s.image, index: s.index, now: s.now, rand: s.rand, sessions: s.sessions, tokens: newTokens(s.static), features: s.features, static: s.static,
		config: s.static.WithDynamic(s.image.Configs(metadata.BrokerResource, "1"), s.image.Configs(metadata.BrokerResource, "")),
		nodeID: 1, clusterID: "cluster", nextOffset: s.image.Offset() + 1,
	}
}

func (s *stage) apply(records []metadata.Record) {
	for t := range s.image.Topics() {
		s.deleted[t.ID] = t.Name
	}
	next, delta, err := s.image.Apply(records, s.image.Offset()+int64(len(records)), 1)
	if err != nil {
		panic(err)
	}
	s.index.follow(s.image, next, delta.Topics)
	s.image = next
	if err := compareIndex(s.index, next); err != nil {
		panic(err)
	}
	s.sessions.appended(next.Offset() + 1)
}

func (s *stage) run(command string) string {
	words := strings.Fields(command)
	switch verb, args := words[0], words[1:]; verb {
	case "time":
		d, _ := time.ParseDuration(args[0])
		s.now = s.now.Add(d)
		return ""
	case "static":
		for _, a := range args {
			k, v, _ := strings.Cut(a, "=")
			s.static.Static[k] = v
		}
		return ""
	case "expire":
		var out string
		for b := range s.image.Brokers() {
			if !b.Fenced && !s.now.Before(s.sessions.expiresAt(b.ID)) {
				records := s.view().fence(b)
				s.apply(records)
				out += s.print(records)
			}
		}
		return out
	case "balance":
		records := s.view().balance()
		s.apply(records)
		return s.print(records)
	case "rescue":
		records := s.view().rescue()
		s.apply(records)
		return s.print(records)
	case "spread":
		return s.spread(int(number(args[0])), int(number(args[1])))
	case "show":
		return s.show(args[0])
	default:
		records, response, err := s.view().decide(commands[verb](s, args))
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		s.apply(records)
		return s.print(records) + printResponse(response)
	}
}

// spread places partitions and tells how many of each broker's replicas come first, and how many there are; twice on a
// broker, or on fewer racks than there could be, is told, too.
func (s *stage) spread(partitions, factor int) string {
	placed, reason := s.view().place(partitions, factor)
	if reason != "" {
		return reason + "\n"
	}
	all := map[string]bool{}
	for b := range s.image.Brokers() {
		if !b.InControlledShutdown || b.Fenced {
			all[b.Rack] = true
		}
	}
	leads, has := map[int32]int{}, map[int32]int{}
	var out strings.Builder
	for _, replicas := range placed {
		racks, ids := map[string]bool{}, map[int32]bool{}
		for _, id := range replicas {
			has[id]++
			ids[id], racks[s.image.Broker(id).Rack] = true, true
		}
		leads[replicas[0]]++
		if len(ids) < factor || len(racks) < min(factor, len(all)) {
			fmt.Fprintf(&out, "badly spread: %v\n", replicas)
		}
	}
	fmt.Fprintf(&out, "first %v all %v\n", leads, has)
	return out.String()
}

func (s *stage) show(topic string) string {
	var out strings.Builder
	t := s.image.Topic(topic)
	if t == nil {
		return "no such topic\n"
	}
	for i, p := range t.Partitions {
		fmt.Fprintf(&out, "%s-%d leader=%d epoch=%d pepoch=%d isr=%v replicas=%v",
			topic, i, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.ISR, p.Replicas)
		for _, list := range []struct {
			name string
			ids  []int32
		}{{"elr", p.ELR}, {"lastKnown", p.LastKnownELR}, {"adding", p.Adding}, {"removing", p.Removing}} {
			if len(list.ids) > 0 {
				fmt.Fprintf(&out, " %s=%v", list.name, list.ids)
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// commands make requests of words: key=value options and bare names.
var commands = map[string]func(*stage, []string) kmsg.Request{
	"register": func(s *stage, w []string) kmsg.Request { // register ID [run=N] [rack=R] [cluster=C] [dirs=A,B] [unclean]
		r := kmsg.NewPtrBrokerRegistrationRequest()
		r.Version = r.MaxVersion()
		r.BrokerID, r.ClusterID = number(w[0]), option(w, "cluster", "cluster")
		r.IncarnationID = [16]byte{0: 1, 1: byte(r.BrokerID), 2: byte(number(option(w, "run", "1")))}
		if rack := option(w, "rack", ""); rack != "" {
			r.Rack = &rack
		}
		for _, d := range strings.Split(option(w, "dirs", fmt.Sprint(100+r.BrokerID)), ",") {
			r.LogDirs = append(r.LogDirs, [16]byte{15: byte(number(d))})
		}
		r.Features = []kmsg.BrokerRegistrationRequestFeature{
			{Name: metadataVersionFeature, MinSupportedVersion: 7, MaxSupportedVersion: int16(number(option(w, "mv", "33")))},
			{Name: "group.version", MaxSupportedVersion: 1}, {Name: elrVersionFeature, MaxSupportedVersion: 1},
		}
		if b := s.image.Broker(r.BrokerID); b != nil && !slices.Contains(w, "unclean") {
			r.PreviousBrokerEpoch = b.Epoch
		}
		return r
	},
	"assigndir": assignDirCommand,
	"heartbeat": func(s *stage, w []string) kmsg.Request { // heartbeat ID [epoch=N] [offset=N] [offline=DIR,DIR] [fence] [shutdown]
		r := kmsg.NewPtrBrokerHeartbeatRequest()
		r.BrokerID = number(w[0])
		for _, d := range numbers(option(w, "offline", "")) {
			r.OfflineLogDirs = append(r.OfflineLogDirs, [16]byte{15: byte(d)})
		}
		if b := s.image.Broker(r.BrokerID); b != nil {
			r.BrokerEpoch = b.Epoch
		}
		r.BrokerEpoch = int64(number(option(w, "epoch", fmt.Sprint(r.BrokerEpoch))))
		r.CurrentMetadataOffset = int64(number(option(w, "offset", fmt.Sprint(s.image.Offset()))))
		r.WantFence, r.WantShutdown = slices.Contains(w, "fence"), slices.Contains(w, "shutdown")
		return r
	},
	"unregister": func(s *stage, w []string) kmsg.Request {
		r := kmsg.NewPtrUnregisterBrokerRequest()
		r.BrokerID = number(w[0])
		return r
	},
	"elect": electCommand,
	"pids": func(s *stage, w []string) kmsg.Request { // pids BROKER [epoch=N]
		r := kmsg.NewPtrAllocateProducerIDsRequest()
		r.BrokerID = number(w[0])
		r.BrokerEpoch = int64(number(option(w, "epoch", fmt.Sprint(s.image.Broker(r.BrokerID).Epoch))))
		return r
	},
	"create": createCommand, "delete": deleteCommand, "partitions": partitionsCommand,
	"alter": alterCommand, "incr": incrCommand, "isr": isrCommand, "feature": featureCommand,
	"reassign": reassignCommand, "reassignments": reassignmentsCommand,
}

// reassignCommand: reassign [v=N] [keepfactor] TOPIC:PARTITION=REPLICAS… ; "cancel" for REPLICAS cancels
func reassignCommand(_ *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.Version = int16(number(option(w, "v", "1")))
	r.AllowReplicationFactorChange = !slices.Contains(w, "keepfactor")
	for _, word := range w {
		at, replicas, _ := strings.Cut(word, "=")
		name, index, is := strings.Cut(at, ":")
		if !is {
			continue
		}
		p := kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: number(index), Replicas: []int32{}}
		if replicas == "cancel" {
			p.Replicas = nil
		} else if replicas != "" {
			p.Replicas = numbers(replicas)
		}
		r.Topics = append(r.Topics, kmsg.AlterPartitionAssignmentsRequestTopic{Topic: name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{p}})
	}
	return r
}

// reassignmentsCommand: reassignments [TOPIC:PARTITION…]; without any all
func reassignmentsCommand(_ *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrListPartitionReassignmentsRequest()
	for _, word := range w {
		name, index, _ := strings.Cut(word, ":")
		r.Topics = append(r.Topics, kmsg.ListPartitionReassignmentsRequestTopic{Topic: name, Partitions: numbers(index)})
	}
	return r
}

// createCommand: create NAME [n=N] [rf=N] [assign=0:1,2;1:2] [KEY=VALUE…] [/ NAME …] [validate]
func createCommand(_ *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrCreateTopicsRequest()
	for part := range strings.SplitSeq(strings.Join(w, " "), " / ") {
		words := strings.Fields(part)
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = strings.Trim(words[0], `"`)
		t.NumPartitions, t.ReplicationFactor = -1, -1
		for _, o := range words[1:] {
			key, value, isOption := strings.Cut(o, "=")
			switch {
			case o == "validate":
				r.ValidateOnly = true
			case key == "n":
				t.NumPartitions = number(value)
			case key == "rf":
				t.ReplicationFactor = int16(number(value))
			case key == "assign":
				for a := range strings.SplitSeq(value, ";") {
					index, ids, _ := strings.Cut(a, ":")
					t.ReplicaAssignment = append(t.ReplicaAssignment,
						kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: number(index), Replicas: numbers(ids)})
				}
			case isOption:
				t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
			default:
				t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key})
			}
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// deleteCommand: delete [v=N] NAME… | id:NAME… | id:none (an unknown id) | both:NAME | neither
func deleteCommand(s *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.Version = int16(number(option(w, "v", "6")))
	for _, name := range w {
		var t kmsg.DeleteTopicsRequestTopic
		kind, of, _ := strings.Cut(name, ":")
		if topic := s.image.Topic(of); topic != nil {
			t.TopicID = topic.ID
		}
		switch {
		case strings.HasPrefix(name, "v="):
			continue
		case name == "id:none":
			t.TopicID = [16]byte{9}
		case kind == "both":
			t.Topic = &of
		case kind != "id" && name != "neither":
			t.Topic = &name
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// partitionsCommand: partitions NAME COUNT [assign=1,2;2,1] [validate]
func partitionsCommand(_ *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrCreatePartitionsRequest()
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = w[0], number(w[1])
	if assign := option(w, "assign", ""); assign != "" {
		for ids := range strings.SplitSeq(assign, ";") {
			t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: numbers(ids)})
		}
	}
	r.ValidateOnly = slices.Contains(w, "validate")
	r.Topics = append(r.Topics, t)
	if slices.Contains(w, "twice") {
		r.Topics = append(r.Topics, t)
	}
	return r
}

// resource: topic:NAME, broker:ID, group:ID, metrics:NAME, type:NUMBER
func resource(word string) (kmsg.ConfigResourceType, string) {
	kind, name, _ := strings.Cut(word, ":")
	types := map[string]kmsg.ConfigResourceType{"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32}
	if t, ok := types[kind]; ok {
		return t, name
	}
	return kmsg.ConfigResourceType(number(name)), "x"
}

// alterCommand: alter RESOURCE [KEY=VALUE…] [KEY] (null) [validate]
func alterCommand(_ *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrAlterConfigsRequest()
	a := kmsg.NewAlterConfigsRequestResource()
	a.ResourceType, a.ResourceName = resource(w[0])
	for _, o := range w[1:] {
		key, value, has := strings.Cut(o, "=")
		c := kmsg.AlterConfigsRequestResourceConfig{Name: key}
		if has {
			c.Value = &value
		}
		if o == "validate" {
			r.ValidateOnly = true
			continue
		}
		a.Configs = append(a.Configs, c)
	}
	r.Resources = append(r.Resources, a)
	return r
}

// incrCommand: incr RESOURCE [set:KEY=VALUE] [del:KEY] [append:KEY=VALUE] [subtract:KEY=VALUE] [twice]
// electCommand: elect preferred|unclean|0…9 [topic:0,1 …]; without topics all.
func electCommand(_ *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrElectLeadersRequest()
	r.Version = r.MaxVersion()
	switch w[0] {
	case "preferred":
	case "unclean":
		r.ElectionType = uncleanElection
	default:
		r.ElectionType = int8(number(w[0]))
	}
	for _, arg := range w[1:] {
		name, ids, _ := strings.Cut(arg, ":")
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic = name
		for _, id := range strings.Split(ids, ",") {
			t.Partitions = append(t.Partitions, number(id))
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func incrCommand(_ *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	a := kmsg.NewIncrementalAlterConfigsRequestResource()
	a.ResourceType, a.ResourceName = resource(w[0])
	ops := map[string]kmsg.IncrementalAlterConfigOp{"set": 0, "del": 1, "append": 2, "subtract": 3, "strange": 9}
	for _, o := range w[1:] {
		verb, rest, _ := strings.Cut(o, ":")
		key, value, has := strings.Cut(rest, "=")
		c := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: ops[verb]}
		if has {
			c.Value = &value
		}
		if _, isOp := ops[verb]; isOp {
			a.Configs = append(a.Configs, c)
		}
	}
	r.Resources = append(r.Resources, a)
	if slices.Contains(w, "twice") {
		r.Resources = append(r.Resources, a)
	}
	return r
}

// assignDirCommand: assigndir BROKER DIR TOPIC-PARTITION… ; DIR 2 is the lost one.
func assignDirCommand(s *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrAssignReplicasToDirsRequest()
	r.BrokerID = number(w[0])
	if b := s.image.Broker(r.BrokerID); b != nil {
		r.BrokerEpoch = b.Epoch
	}
	d := kmsg.NewAssignReplicasToDirsRequestDirectory()
	d.ID = [16]byte{15: byte(number(w[1]))}
	for _, word := range w[2:] {
		name, index, _ := strings.Cut(word, "-")
		t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		if topic := s.image.Topic(name); topic != nil {
			t.TopicID = topic.ID
		}
		t.Partitions = append(t.Partitions, kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{Partition: number(index)})
		d.Topics = append(d.Topics, t)
	}
	r.Directories = append(r.Directories, d)
	return r
}

// isrCommand: isr BROKER TOPIC PARTITION ISR [epoch=N] [pepoch=N] [bepoch=N] [v=N]; ids of ISR may be ID@BROKEREPOCH
func isrCommand(s *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrAlterPartitionRequest()
	r.Version = 3
	r.BrokerID = number(w[0])
	r.BrokerEpoch = int64(number(option(w, "bepoch", fmt.Sprint(s.image.Broker(r.BrokerID).Epoch))))
	t := kmsg.NewAlterPartitionRequestTopic()
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.Partition = number(w[2])
	if topic := s.image.Topic(w[1]); topic != nil {
		t.TopicID = topic.ID
		if int(p.Partition) < len(topic.Partitions) {
			p.LeaderEpoch, p.PartitionEpoch = topic.Partitions[p.Partition].LeaderEpoch, topic.Partitions[p.Partition].PartitionEpoch
		}
	}
	p.LeaderEpoch = number(option(w, "epoch", fmt.Sprint(p.LeaderEpoch)))
	p.PartitionEpoch = number(option(w, "pepoch", fmt.Sprint(p.PartitionEpoch)))
	for member := range strings.SplitSeq(w[3], ",") {
		id, epoch, has := strings.Cut(member, "@")
		m := kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: number(id), BrokerEpoch: -1}
		if has {
			m.BrokerEpoch = int64(number(epoch))
		}
		p.NewEpochISR = append(p.NewEpochISR, m)
	}
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// featureCommand: feature NAME LEVEL [kind=N] [validate]
func featureCommand(_ *stage, w []string) kmsg.Request {
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.Version, r.ValidateOnly = 1, slices.Contains(w, "validate")
	r.FeatureUpdates = append(r.FeatureUpdates, kmsg.UpdateFeaturesRequestFeatureUpdate{
		Feature: w[0], MaxVersionLevel: int16(number(w[1])), UpgradeType: int8(number(option(w, "kind", "1"))),
	})
	return r
}

func option(words []string, key, otherwise string) string {
	for _, w := range words {
		if value, ok := strings.CutPrefix(w, key+"="); ok {
			return value
		}
	}
	return otherwise
}

func number(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		panic(err)
	}
	return int32(n)
}

func numbers(s string) []int32 {
	if s == "" {
		return nil
	}
	var ids []int32
	for id := range strings.SplitSeq(s, ",") {
		ids = append(ids, number(id))
	}
	return ids
}

func (s *stage) topicName(id metadata.UUID) string {
	if t := s.image.TopicByID(id); t != nil {
		return t.Name
	}
	return s.deleted[id]
}

func (s *stage) print(records []metadata.Record) string {
	var out strings.Builder
	for i, r := range records {
		if i == 8 && len(records) > 10 {
			fmt.Fprintf(&out, "… %d more records\n", len(records)-i)
			break
		}
		fmt.Fprintf(&out, "%s\n", s.printRecord(r))
	}
	return out.String()
}

func (s *stage) printRecord(r metadata.Record) string {
	switch r := r.(type) {
	case *metadata.TopicRecord:
		return "topic " + r.Name
	case *metadata.RemoveTopicRecord:
		return "remove topic " + s.topicName(r.ID)
	case *metadata.ConfigRecord:
		if r.Value == nil {
			return fmt.Sprintf("config %d:%s %s removed", r.Type, r.Name, r.Config)
		}
		return fmt.Sprintf("config %d:%s %s=%s", r.Type, r.Name, r.Config, *r.Value)
	case *metadata.PartitionRecord:
		return fmt.Sprintf("partition %s-%d replicas=%v isr=%v leader=%d", s.topicName(r.TopicID), r.Index, r.Replicas, r.ISR, r.Leader)
	case *metadata.PartitionChangeRecord:
		out := fmt.Sprintf("change %s-%d", s.topicName(r.TopicID), r.Index)
		for _, list := range []struct {
			name string
			ids  []int32
		}{{"replicas", r.Replicas}, {"adding", r.Adding}, {"removing", r.Removing}, {"isr", r.ISR}, {"elr", r.ELR}, {"lastKnown", r.LastKnownELR}} {
			if list.ids != nil {
				out += fmt.Sprintf(" %s=%v", list.name, list.ids)
			}
		}
		if r.Leader != metadata.LeaderUnchanged {
			out += fmt.Sprintf(" leader=%d", r.Leader)
		}
		if r.LeaderRecoveryState != metadata.RecoveryStateUnchanged {
			out += fmt.Sprintf(" recovery=%d", r.LeaderRecoveryState)
		}
		if r.Directories != nil {
			out += fmt.Sprintf(" dirs=%d", len(r.Directories))
			for _, d := range r.Directories {
				out += fmt.Sprintf(",%d", d[15])
			}
		}
		return out
	case *metadata.RegisterBrokerRecord:
		return fmt.Sprintf("register broker %d epoch=%d fenced=%v", r.BrokerID, r.BrokerEpoch, r.Fenced)
	case *metadata.BrokerRegistrationChangeRecord:
		return fmt.Sprintf("change broker %d epoch=%d fenced=%+d leaving=%d", r.BrokerID, r.BrokerEpoch, r.Fenced, r.InControlledShutdown) + printDirs(r.LogDirs)
	}
	return fmt.Sprintf("%T %+v", r, r)
}

func printDirs(dirs []metadata.UUID) string {
	out := ""
	for _, d := range dirs {
		out += fmt.Sprintf(" dir=%d", d[15])
	}
	return out
}

// printResponse shows what an answer says, without what is random.
func printResponse(response kmsg.Response) string {
	var out strings.Builder
	line := func(name string, code int16, message *string, more string) {
		text := "ok"
		if code != 0 {
			text = strings.TrimSpace(kerr.TypedErrorForCode(code).Message)
		}
		if message != nil {
			text += fmt.Sprintf(" %q", *message)
		}
		fmt.Fprintf(&out, "= %s\n", strings.TrimSpace(strings.Join([]string{name, text, more}, " ")))
	}
	switch r := response.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			line(t.Topic, t.ErrorCode, t.ErrorMessage, fmt.Sprintf("n=%d rf=%d configs=%d", t.NumPartitions, t.ReplicationFactor, len(t.Configs)))
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			name := "null"
			if t.Topic != nil {
				name = *t.Topic
			}
			line(name, t.ErrorCode, t.ErrorMessage, fmt.Sprintf("id=%v", t.TopicID != [16]byte{}))
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			line(t.Topic, t.ErrorCode, t.ErrorMessage, "")
		}
	case *kmsg.AlterConfigsResponse:
		for _, t := range r.Resources {
			line(t.ResourceName, t.ErrorCode, t.ErrorMessage, "")
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, t := range r.Resources {
			line(t.ResourceName, t.ErrorCode, t.ErrorMessage, "")
		}
	case *kmsg.BrokerRegistrationResponse:
		line("", r.ErrorCode, nil, fmt.Sprintf("epoch=%d", r.BrokerEpoch))
	case *kmsg.BrokerHeartbeatResponse:
		line("", r.ErrorCode, nil, fmt.Sprintf("caughtUp=%v fenced=%v shutDown=%v", r.IsCaughtUp, r.IsFenced, r.ShouldShutdown))
	case *kmsg.ElectLeadersResponse:
		line("", r.ErrorCode, nil, "")
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(fmt.Sprintf("%s-%d", t.Topic, p.Partition), p.ErrorCode, p.ErrorMessage, "")
			}
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		line("", r.ErrorCode, r.ErrorMessage, fmt.Sprintf("factorMayChange=%v", r.AllowReplicationFactorChange))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(fmt.Sprintf("%s-%d", t.Topic, p.Partition), p.ErrorCode, p.ErrorMessage, "")
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		line("", r.ErrorCode, r.ErrorMessage, "")
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(fmt.Sprintf("%s-%d", t.Topic, p.Partition), 0, nil, fmt.Sprintf("replicas=%v adding=%v removing=%v", p.Replicas, p.AddingReplicas, p.RemovingReplicas))
			}
		}
	case *kmsg.UnregisterBrokerResponse:
		line("", r.ErrorCode, r.ErrorMessage, "")
	case *kmsg.AllocateProducerIDsResponse:
		line("", r.ErrorCode, nil, fmt.Sprintf("start=%d len=%d", r.ProducerIDStart, r.ProducerIDLen))
	case *kmsg.UpdateFeaturesResponse:
		line("", r.ErrorCode, r.ErrorMessage, fmt.Sprintf("results=%d", len(r.Results)))
	case *kmsg.AssignReplicasToDirsResponse:
		line("", r.ErrorCode, nil, "")
		for _, d := range r.Directories {
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					line(fmt.Sprintf("dir %d, partition %d", d.ID[15], p.Partition), p.ErrorCode, nil, "")
				}
			}
		}
	case *kmsg.AlterPartitionResponse:
		line("", r.ErrorCode, nil, "")
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line(fmt.Sprint(p.Partition), p.ErrorCode, nil,
					fmt.Sprintf("leader=%d epoch=%d pepoch=%d isr=%v", p.LeaderID, p.LeaderEpoch, p.PartitionEpoch, p.ISR))
			}
		}
	}
	return out.String()
}
