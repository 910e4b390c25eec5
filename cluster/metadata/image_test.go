package metadata

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
)

func TestZeroImage(t *testing.T) {
	var im Image
	if im.Offset() != -1 || im.ControllerID() != -1 || im.Topic("x") != nil || im.TopicByID(sampleID) != nil ||
		im.TopicCount() != 0 || im.Broker(1) != nil || im.Configs(TopicResource, "x") != nil || im.Feature("f") != 0 {
		t.Fatal("the zero image is not empty")
	}
	for range im.Topics() {
		t.Fatal("a topic")
	}
	if im.WithController(3).ControllerID() != 3 || im.ControllerID() != -1 {
		t.Fatal("WithController")
	}
}

// model is the image as plain maps, written naively.
type model struct {
	topics  map[string]*Topic
	configs map[ConfigResource]map[string]string
	brokers map[int32]*Broker
	quotas  map[string]float64
}

func newModel() *model {
	return &model{map[string]*Topic{}, map[ConfigResource]map[string]string{}, map[int32]*Broker{}, map[string]float64{}}
}

func (m *model) snapshot() *model {
	c := newModel()
	for name, t := range m.topics {
		c.topics[name] = &Topic{t.Name, t.ID, slices.Clone(t.Partitions)}
	}
	for at, values := range m.configs {
		c.configs[at] = maps.Clone(values)
	}
	for id, b := range m.brokers {
		c.brokers[id] = ptr(*b)
	}
	c.quotas = maps.Clone(m.quotas)
	return c
}

func modelOf(im *Image) *model {
	m := newModel()
	for t := range im.Topics() {
		m.topics[t.Name] = t
	}
	for at := range im.ConfigResources() {
		m.configs[at] = im.Configs(at.Type, at.Name)
	}
	for b := range im.Brokers() {
		m.brokers[b.ID] = b
	}
	for q := range im.ClientQuotas() {
		for limit, v := range q.Limits {
			m.quotas[*q.Entity[0].Name+" "+limit] = v
		}
	}
	return m
}

// step makes a random record that fits the model and does it to the model.
func (m *model) step(rng *rand.Rand, serial *int) (Record, string) {
	*serial++
	names := slices.Sorted(maps.Keys(m.topics))
	pick := func() *Topic { return m.topics[names[rng.IntN(len(names))]] }
	switch op := rng.IntN(9); {
	case op == 0 || len(names) == 0:
		t := &Topic{Name: fmt.Sprintf("t%02d", rng.IntN(40)), ID: UUID{0: 1, 14: byte(*serial >> 8), 15: byte(*serial)}}
		if m.topics[t.Name] != nil {
			return &NoOpRecord{}, ""
		}
		m.topics[t.Name] = t
		return &TopicRecord{t.Name, t.ID}, t.Name
	case op == 1:
		t := pick()
		delete(m.topics, t.Name)
		delete(m.configs, ConfigResource{TopicResource, t.Name})
		return &RemoveTopicRecord{t.ID}, t.Name
	case op <= 3:
		t := pick()
		p := Partition{Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1, LeaderEpoch: int32(*serial)}
		t.Partitions = append(t.Partitions, p)
		return &PartitionRecord{int32(len(t.Partitions) - 1), t.ID, p}, t.Name
	case op <= 5:
		t := pick()
		if len(t.Partitions) == 0 {
			return &NoOpRecord{}, ""
		}
		i := rng.IntN(len(t.Partitions))
		r := NewPartitionChange(t.ID, int32(i))
		r.ISR = []int32{int32(rng.IntN(3))}
		p := &t.Partitions[i]
		p.ISR, p.PartitionEpoch = r.ISR, p.PartitionEpoch+1
		if rng.IntN(2) == 0 {
			r.Leader = r.ISR[0]
			p.Leader, p.LeaderEpoch = r.Leader, p.LeaderEpoch+1
		}
		return r, t.Name
	case op == 6:
		at := ConfigResource{TopicResource, pick().Name}
		key := fmt.Sprintf("k%d", rng.IntN(3))
		if rng.IntN(3) == 0 {
			delete(m.configs[at], key)
			if len(m.configs[at]) == 0 {
				delete(m.configs, at)
			}
			return &ConfigRecord{at.Type, at.Name, key, nil}, ""
		}
		if m.configs[at] == nil {
			m.configs[at] = map[string]string{}
		}
		m.configs[at][key] = fmt.Sprint(*serial)
		return &ConfigRecord{at.Type, at.Name, key, ptr(fmt.Sprint(*serial))}, ""
	case op == 7:
		b := &Broker{ID: int32(rng.IntN(4)), Epoch: int64(*serial), Fenced: true, Rack: "r"}
		m.brokers[b.ID] = b
		return &RegisterBrokerRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: true, Rack: ptr("r")}, ""
	default:
		user, limit := fmt.Sprintf("u%d", rng.IntN(3)), fmt.Sprintf("l%d", rng.IntN(2))
		remove := rng.IntN(2) == 0
		m.quotas[user+" "+limit] = float64(*serial)
		if remove {
			delete(m.quotas, user+" "+limit)
		}
		return &ClientQuotaRecord{Entity: []QuotaEntity{{"user", &user}}, Limit: limit, Value: float64(*serial), Remove: remove}, ""
	}
}

// TestImageAgainstModel applies random records, checks every image and its delta against the model, that older
// images stay as they were, and that an image's own records build it again.
func TestImageAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		im, m, serial := &Image{}, newModel(), 0
		var olderImage *Image
		var olderModel *model
		for round := range 100 {
			var records []Record
			touched := map[string]bool{}
			for range 1 + rng.IntN(5) {
				r, topic := m.step(rng, &serial)
				records = append(records, r)
				if topic != "" {
					touched[topic] = true
				}
			}
			next, delta, err := im.Apply(records, int64(serial), int32(round))
			if err != nil {
				t.Fatal(err)
			}
			if want := slices.Sorted(maps.Keys(touched)); !slices.Equal(delta.Topics, want) {
				t.Fatalf("seed %d: delta %v, want %v", seed, delta.Topics, want)
			}
			im = next
			requireModel(t, seed, im, m)
			if olderImage != nil {
				requireModel(t, seed, olderImage, olderModel)
			}
			if rng.IntN(10) == 0 {
				olderImage, olderModel = im, m.snapshot()
			}
		}
		rebuilt, _, err := new(Image).Apply(slices.Collect(im.Records()), im.Offset(), im.Epoch())
		if err != nil {
			t.Fatal(err)
		}
		requireModel(t, seed, rebuilt, m)
		if rebuilt.PartitionCount() != im.PartitionCount() || rebuilt.NextProducerID() != im.NextProducerID() {
			t.Fatal("the rebuilt image differs")
		}
	}
}

func requireModel(t *testing.T, seed uint64, im *Image, m *model) {
	t.Helper()
	if got := modelOf(im); !reflect.DeepEqual(got, m) {
		t.Fatalf("seed %d: image %+v\nmodel %+v", seed, got, m)
	}
	partitions := 0
	for topic := range im.Topics() {
		partitions += len(topic.Partitions)
		if im.TopicByID(topic.ID) != topic || im.Topic(topic.Name) != topic {
			t.Fatalf("seed %d: %s is not found", seed, topic.Name)
		}
	}
	if partitions != im.PartitionCount() || len(m.topics) != im.TopicCount() {
		t.Fatalf("seed %d: counts", seed)
	}
}

func TestEveryRecordKindSurvivesASnapshot(t *testing.T) {
	records := []Record{
		kafkaRecords["feature"], kafkaRecords["producer-ids"], kafkaRecords["register-broker-v4"], kafkaRecords["register-controller"], kafkaRecords["topic"],
		&PartitionRecord{0, sampleID, Partition{Replicas: []int32{1}, ELR: []int32{2}, LeaderRecoveryState: 1}},
		kafkaRecords["config"], kafkaRecords["quota"], kafkaRecords["scram"], kafkaRecords["delegation-token"], kafkaRecords["acl"],
	}
	im, delta, err := new(Image).Apply(records, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !delta.Features || !delta.ClientQuotas || !delta.ScramCredentials || !delta.ACLs || !delta.Tokens || delta.Empty() {
		t.Errorf("%+v", delta)
	}
	got := slices.Collect(im.Records())
	want := slices.Clone(records)
	want[1] = &ProducerIDsRecord{-1, -1, 2000} // who got the last block is not kept
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	im, _, err = im.Apply([]Record{
		&ClearELRRecord{""}, &FeatureLevelRecord{"metadata.version", 0},
		&RemoveUserScramCredentialRecord{"ann", 1}, kafkaRecords["remove-acl"], kafkaRecords["remove-delegation-token"],
		kafkaRecords["registration-change"], kafkaRecords["unfence"], kafkaRecords["fence"], kafkaRecords["unregister-controller"],
		&UnregisterControllerRecord{1},
	}, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := im.Broker(1)
	if im.Topic("orders").Partitions[0].ELR != nil || im.Feature("metadata.version") != 0 || !b.Fenced || b.LogDirs[0][7] != 3 {
		t.Error("not all was applied")
	}
	if im.Controller(1) != nil {
		t.Error("the controller is still registered")
	}
	if n := len(slices.Collect(im.ScramCredentials())) + len(slices.Collect(im.ACLs())) + im.TokenCount(); n != 0 {
		t.Error("credentials, ACLs or tokens remain")
	}
}

func TestApplyRefuses(t *testing.T) {
	im, _, _ := new(Image).Apply([]Record{&TopicRecord{"a", sampleID}}, 0, 0)
	for _, r := range []Record{
		&TopicRecord{"a", UUID{1}}, &TopicRecord{"b", sampleID}, &RemoveTopicRecord{UUID{1}},
		&PartitionRecord{Index: 1, TopicID: sampleID}, &PartitionRecord{Index: -1, TopicID: sampleID},
		&PartitionRecord{TopicID: UUID{1}}, NewPartitionChange(sampleID, 0), NewPartitionChange(UUID{1}, 0),
		&ClearELRRecord{"b"}, &UnregisterBrokerRecord{1, 1}, &FenceBrokerRecord{1, 1},
	} {
		if next, _, err := im.Apply([]Record{r}, 1, 0); !errors.Is(err, ErrUnapplicable) || next != im {
			t.Errorf("%T %+v: %v", r, r, err)
		}
	}
}

// TestMemoryOfManyPartitions holds the memory of 10,000 partitions, and of one change to them, within bounds.
func TestMemoryOfManyPartitions(t *testing.T) {
	const topics = 10_000
	im := &Image{}
	before := heapBytes()
	for i := range topics {
		id := UUID{1, 14: byte(i >> 8), 15: byte(i)}
		next, _, err := im.Apply([]Record{
			&TopicRecord{fmt.Sprintf("topic-%05d", i), id},
			&PartitionRecord{0, id, Partition{Replicas: []int32{1}, ISR: []int32{1}, Directories: []UUID{{1}}, Leader: 1}},
		}, int64(2*i), 1)
		if err != nil {
			t.Fatal(err)
		}
		im = next
	}
	perTopic := (heapBytes() - before) / topics
	t.Logf("%d bytes per topic of one partition", perTopic)
	if perTopic > 1024 {
		t.Errorf("%d bytes per topic", perTopic)
	}
	change := NewPartitionChange(UUID{1}, 0)
	change.ISR = []int32{1}
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	if _, _, err := im.Apply([]Record{change}, 1<<20, 1); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&m1)
	if n := m1.TotalAlloc - m0.TotalAlloc; n > 64<<10 {
		t.Errorf("one change of %d topics allocated %d bytes", topics, n)
	}
	runtime.KeepAlive(im)
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkTopicLookup(b *testing.B) {
	im := &Image{}
	builder := NewBuilder(im)
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("topic-%05d", i))
		_ = builder.Apply(&TopicRecord{names[i], UUID{1, 14: byte(i >> 8), 15: byte(i)}})
	}
	im, _ = builder.Build(1, 1)
	b.ReportAllocs()
	for i := range b.N {
		if im.Topic(names[i%len(names)]) == nil {
			b.Fatal("not found")
		}
	}
}
