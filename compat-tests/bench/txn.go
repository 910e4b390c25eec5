package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	txnRecords = 10 // of a transaction
	txnWarm    = 200
	txnTimeout = 2 * time.Minute
)

// txnLoad runs n transactions of one stock producer one after another, and reads them as a read_committed consumer: the
// time of a transaction, and from its first record's send to the consumer's having all of it.
func txnLoad(topic string, n int) func(*target) (sample, error) {
	return func(t *target) (sample, error) {
		if err := createTopic(t, topic, 1); err != nil {
			return sample{}, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), txnTimeout)
		defer cancel()
		producer, err := kgo.NewClient(kgo.SeedBrokers(t.addr), kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
		if err != nil {
			return sample{}, err
		}
		defer producer.Close()
		consumer, err := kgo.NewClient(kgo.SeedBrokers(t.addr), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		if err != nil {
			return sample{}, err
		}
		defer consumer.Close()
		if _, err := runTxns(ctx, producer, consumer, txnWarm, true); err != nil {
			return sample{}, err
		}
		m := startMeter(t)
		lat, err := runTxns(ctx, producer, consumer, n, true)
		if err != nil {
			return sample{}, err
		}
		m.add(lat)
		s := m.sample(int64(n) * txnRecords * 100)
		begin := time.Now()
		_, err = runTxns(ctx, producer, consumer, n, false)
		s.msPerTxn = float64(time.Since(begin).Nanoseconds()) / 1e6 / float64(n)
		return s, err
	}
}

// runTxns returns the end-to-end latencies if it is to read along.
func runTxns(ctx context.Context, producer, consumer *kgo.Client, n int, read bool) ([]time.Duration, error) {
	var lat []time.Duration
	for i := range n {
		begin := time.Now()
		if err := oneTxn(ctx, producer, i); err != nil {
			return nil, err
		}
		if !read {
			continue
		}
		for got := 0; got < txnRecords; {
			fetches := consumer.PollFetches(ctx)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			got += fetches.NumRecords()
		}
		lat = append(lat, time.Since(begin))
	}
	return lat, nil
}

func oneTxn(ctx context.Context, producer *kgo.Client, i int) error {
	if err := producer.BeginTransaction(); err != nil {
		return err
	}
	var failed error
	for j := range txnRecords {
		producer.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%090d-%d", i, j)), func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := producer.Flush(ctx); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return producer.EndTransaction(ctx, kgo.TryCommit)
}
