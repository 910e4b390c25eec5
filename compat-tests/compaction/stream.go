package compaction

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stream writes the same batches to any broker: a round is plain, idempotent and transactional batches in every codec,
// with tombstones, keyless records, aborted transactions and one that commits late; then enough to roll the active
// segment.
type stream struct {
	s     *subject
	rng   *rand.Rand
	ms    int64
	cold  int           // first of the keys that this round alone uses
	plain []*kgo.Client // one per codec: each an idempotent producer, but the first
	txns  []*kgo.Client
}

var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

func newStream(s *subject) (*stream, error) {
	w := &stream{s: s, rng: rand.New(rand.NewPCG(7, 8)), ms: 1_700_000_000_000}
	for i, codec := range codecs {
		opts := []kgo.Opt{kgo.ProducerBatchCompression(codec)}
		if i == 0 {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		cl, err := s.newClient(opts...)
		if err != nil {
			return w, err
		}
		w.plain = append(w.plain, cl)
	}
	for i := range 3 {
		cl, err := s.newClient(kgo.ProducerBatchCompression(codecs[i+1]), kgo.TransactionalID(fmt.Sprint("txn-", i)))
		if err != nil {
			return w, err
		}
		w.txns = append(w.txns, cl)
	}
	return w, nil
}

func (w *stream) close() {
	for _, cl := range append(w.plain, w.txns...) {
		cl.Close()
	}
}

func (w *stream) round(ctx context.Context, batches int) error {
	w.cold += 1000
	for range batches {
		var err error
		if w.rng.IntN(6) == 0 {
			err = w.transaction(ctx, w.txns[w.rng.IntN(len(w.txns))])
		} else {
			err = w.batch(ctx, w.plain[w.rng.IntN(len(w.plain))], w.records(true))
		}
		if err != nil {
			return err
		}
	}
	return w.roll(ctx)
}

func (w *stream) transaction(ctx context.Context, cl *kgo.Client) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	for range 1 + w.rng.IntN(3) {
		if err := w.batch(ctx, cl, w.records(false)); err != nil {
			return err
		}
		if err := w.batch(ctx, w.plain[0], w.records(true)); err != nil { // in the middle of the transaction
			return err
		}
	}
	if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(w.rng.IntN(3) > 0)); err != nil {
		return err
	}
	return w.s.awaitEnd(ctx, 1)
}

func (w *stream) records(keyless bool) []*kgo.Record {
	records := make([]*kgo.Record, 1+w.rng.IntN(6))
	for i := range records {
		key := w.rng.IntN(40)
		if w.rng.IntN(3) == 0 {
			key = w.cold + w.rng.IntN(300)
		}
		r := &kgo.Record{Key: fmt.Append(nil, "key-", key), Value: bytes.Repeat([]byte{byte('a' + w.rng.IntN(26))}, w.rng.IntN(3000))}
		switch p := w.rng.IntN(20); {
		case p < 3:
			r.Value = nil
		case p == 3 && keyless:
			r.Key = nil
		case p == 4:
			r.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}
		}
		records[i] = r
	}
	return records
}

// batch sends records as one batch and waits for it.
func (w *stream) batch(ctx context.Context, cl *kgo.Client, records []*kgo.Record) error {
	failed := make(chan error, len(records))
	for _, r := range records {
		w.ms += int64(w.rng.IntN(50))
		r.Timestamp = time.UnixMilli(w.ms)
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) { failed <- err })
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	for range records {
		if err := <-failed; err != nil {
			return err
		}
	}
	w.s.end += int64(len(records))
	return nil
}

// roll fills the active segment with keys of its own.
func (w *stream) roll(ctx context.Context) error {
	for i := range 12 {
		r := &kgo.Record{Key: fmt.Append(nil, "filler-", w.s.end), Value: make([]byte, 100_000+i)}
		if err := w.batch(ctx, w.plain[0], []*kgo.Record{r}); err != nil {
			return err
		}
	}
	return nil
}
