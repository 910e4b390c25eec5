package main

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sample is what one run of one load against one target showed.
type sample struct {
	cpuPerGiB   float64 // broker CPU seconds per GiB of record batches
	cpuMsPerReq float64 // broker CPU milliseconds per request
	p50, p99    float64 // milliseconds of one round trip
	mibPerSec   float64
	msPerTxn    float64 // milliseconds of a transaction, one after another
	msPerLogin  float64 // milliseconds for each of the logins that run side by side
	seconds     float64 // of the whole
}

// meter gathers latencies and turns them, with the broker's CPU time, into a sample.
type meter struct {
	t     *target
	start time.Time
	cpu   float64
	mu    sync.Mutex
	lat   []time.Duration
}

func startMeter(t *target) *meter {
	return &meter{t: t, start: time.Now(), cpu: t.cpuSeconds()}
}

func (m *meter) add(lat []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lat = append(m.lat, lat...)
}

func (m *meter) sample(bytes int64) sample {
	cpu, took := m.t.cpuSeconds()-m.cpu, time.Since(m.start)
	sort.Slice(m.lat, func(i, j int) bool { return m.lat[i] < m.lat[j] })
	quantile := func(q float64) float64 {
		if len(m.lat) == 0 {
			return 0
		}
		return float64(m.lat[min(len(m.lat)-1, int(q*float64(len(m.lat))))].Nanoseconds()) / 1e6
	}
	gib := float64(bytes) / (1 << 30)
	return sample{cpuPerGiB: cpu / gib, cpuMsPerReq: cpu * 1000 / float64(max(1, len(m.lat))),
		p50: quantile(.5), p99: quantile(.99), mibPerSec: gib * 1024 / took.Seconds(), seconds: took.Seconds()}
}

// produceLoad describes a produce run: pre-encoded requests, so that the broker and not the client is measured.
type produceLoad struct {
	topic           string
	partitions      int32
	totalBytes      int64
	batchBytes      int
	conns, inFlight int // conns to each leader
}

func (p produceLoad) run(t *target) (sample, error) {
	if err := createTopic(t, p.topic, p.partitions); err != nil {
		return sample{}, err
	}
	raw := recordBatch(p.batchBytes, min(1024, p.batchBytes), time.Now().UnixMilli())
	if err := settle(t, p.topic, p.partitions, raw); err != nil {
		return sample{}, err
	}
	want := (p.totalBytes + int64(len(raw)) - 1) / int64(len(raw))
	var next atomic.Int64
	leaders, err := routes(t, p.topic, p.partitions)
	if err != nil {
		return sample{}, err
	}
	m := startMeter(t)
	err = parallel(p.conns*len(leaders), func(i int) error {
		return p.conn(leaders[i%len(leaders)], m, raw, i/len(leaders), func() bool { return next.Add(1) <= want })
	})
	return m.sample(want * int64(len(raw))), err
}

func (p produceLoad) conn(to route, m *meter, raw []byte, first int, more func() bool) error {
	c, err := to.dial()
	if err != nil {
		return err
	}
	defer c.close()
	var encoded [][]byte
	for _, i := range to.partitions {
		encoded = append(encoded, encodeProduce(p.topic, i, raw))
	}
	sent := make(chan time.Time, p.inFlight)
	answered := make(chan error, 1)
	go func() {
		var lat []time.Duration
		for at := range sent {
			if err := c.readAck(); err != nil {
				answered <- err
				c.close()
				for range sent {
				}
				return
			}
			lat = append(lat, time.Since(at))
		}
		m.add(lat)
		answered <- nil
	}()
	for i := first; more() && err == nil; i++ {
		sent <- time.Now()
		_, err = c.c.Write(encoded[i%len(encoded)])
	}
	close(sent)
	if failed := <-answered; failed != nil {
		return failed
	}
	return err
}

// settle produces once to every partition, retrying while a new topic's leaders are not there yet.
func settle(t *target, topic string, partitions int32, raw []byte) error {
	leaders, err := routes(t, topic, partitions)
	if err != nil {
		return err
	}
	for _, to := range leaders {
		if err := to.settle(topic, raw); err != nil {
			return err
		}
	}
	return nil
}

func (to route) settle(topic string, raw []byte) error {
	c, err := to.dial()
	if err != nil {
		return err
	}
	defer c.close()
	for _, p := range to.partitions {
		for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if _, err := c.c.Write(encodeProduce(topic, p, raw)); err != nil {
				return err
			}
			err := c.readAck()
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return err
			}
		}
	}
	return nil
}

// fetchLoad reads a topic's partitions over and over from their start.
func fetchLoad(topic string, partitions int32, totalBytes int64, maxBytes int32) func(*target) (sample, error) {
	return func(t *target) (sample, error) {
		c, err := t.dial()
		if err != nil {
			return sample{}, err
		}
		defer c.close()
		offsets := make([]int64, partitions)
		m := startMeter(t)
		var moved int64
		var lat []time.Duration
		for p := int32(0); moved < totalBytes; p = (p + 1) % partitions {
			at := time.Now()
			if _, err := c.c.Write(encodeFetch(topic, p, offsets[p], maxBytes, 500)); err != nil {
				return sample{}, err
			}
			got, last, err := c.readFetch()
			if err != nil {
				return sample{}, err
			}
			if last < 0 || got < int(maxBytes)/2 {
				offsets[p] = 0
			} else {
				offsets[p] = last + 1
			}
			moved += int64(got)
			lat = append(lat, time.Since(at))
		}
		m.add(lat)
		return m.sample(moved), nil
	}
}

// rttLoad is one request at a time on one connection.
func rttLoad(topic string, batchBytes, n int) func(*target) (sample, error) {
	return func(t *target) (sample, error) {
		if err := createTopic(t, topic, 1); err != nil {
			return sample{}, err
		}
		raw := recordBatch(batchBytes, batchBytes-90, time.Now().UnixMilli())
		if err := settle(t, topic, 1, raw); err != nil {
			return sample{}, err
		}
		leaders, err := routes(t, topic, 1)
		if err != nil {
			return sample{}, err
		}
		c, err := leaders[0].dial()
		if err != nil {
			return sample{}, err
		}
		defer c.close()
		encoded := encodeProduce(topic, 0, raw)
		var lat []time.Duration
		var m *meter
		const warm = 500
		for i := range n + warm {
			if i == warm {
				m, lat = startMeter(t), lat[:0]
			}
			at := time.Now()
			if _, err := c.c.Write(encoded); err != nil {
				return sample{}, err
			}
			if err := c.readAck(); err != nil {
				return sample{}, err
			}
			lat = append(lat, time.Since(at))
		}
		m.add(lat)
		return m.sample(int64(n) * int64(len(raw))), nil
	}
}

// tailLoad is the time from sending one record to the answer of a fetch that waits for it.
func tailLoad(topic string, n int) func(*target) (sample, error) {
	return func(t *target) (sample, error) {
		if err := createTopic(t, topic, 1); err != nil {
			return sample{}, err
		}
		raw := recordBatch(300, 200, time.Now().UnixMilli())
		if err := settle(t, topic, 1, raw); err != nil {
			return sample{}, err
		}
		producer, err := t.dial()
		if err != nil {
			return sample{}, err
		}
		defer producer.close()
		consumer, err := t.dial()
		if err != nil {
			return sample{}, err
		}
		defer consumer.close()
		offset, err := endOffset(consumer, topic, 0)
		if err != nil {
			return sample{}, err
		}
		encoded := encodeProduce(topic, 0, raw)
		m := startMeter(t)
		var lat []time.Duration
		for range n {
			took, last, err := tailOnce(producer, consumer, encoded, encodeFetch(topic, 0, offset, 1<<20, 5000))
			if err != nil {
				return sample{}, err
			}
			lat, offset = append(lat, took), last+1
		}
		m.add(lat)
		return m.sample(int64(n) * int64(len(raw))), nil
	}
}

func tailOnce(producer, consumer *conn, produce, fetch []byte) (took time.Duration, last int64, err error) {
	if _, err := consumer.c.Write(fetch); err != nil {
		return 0, 0, err
	}
	time.Sleep(time.Millisecond) // let the fetch park
	at := time.Now()
	if _, err := producer.c.Write(produce); err != nil {
		return 0, 0, err
	}
	if _, last, err = consumer.readFetch(); err != nil {
		return 0, 0, err
	}
	return time.Since(at), last, producer.readAck()
}

func endOffset(c *conn, topic string, partition int32) (int64, error) {
	return listOffset(c, topic, partition, -1)
}

func listOffset(c *conn, topic string, partition int32, timestampMs int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 5, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestampMs
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := c.call(req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset, nil
}

func parallel(n int, f func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
