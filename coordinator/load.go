package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/protocol/batch"
)

// load reads the whole log into the machine, on a goroutine of its own.
func (s *shard[M]) load() {
	s.rt.loadSlots <- struct{}{}
	defer func() { <-s.rt.loadSlots }()
	loan := memory.Loan{}
	loan.From(s.rt.opts.Loads)
	defer loan.Return()
	started := s.rt.opts.Clock.Now()
	err := s.replayLog(&loan)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase == closing:
		s.rt.alive.Done()
	case err != nil:
		s.phase = failed
		s.rt.opts.Log.Error().Err(err).Msg("coordinator shard could not be loaded")
	default:
		s.phase = active
		s.running = true
		s.chores = append(s.chores, s.finishLoad)
		go s.drain()
		s.rt.opts.Log.Debug().Int32("partition", s.partition).Int64("end", s.end).
			Dur("took", s.rt.opts.Clock.Now().Sub(started)).Msg("coordinator shard loaded")
	}
}

func (s *shard[M]) finishLoad() {
	s.decide("", false, s.machine.Loaded)
}

// replayLog reads LoadBufferBytes at a time, or one batch that is larger.
func (s *shard[M]) replayLog(loan *memory.Loan) error {
	loan.Grow(int64(s.rt.opts.LoadBufferBytes), nil, nil)

	s.machine = s.rt.opts.New(s.partition)
	s.nowMs = clock.Millis(s.rt.opts.Clock)
	offset, end := s.log.StartOffset(), s.log.EndOffset()
	for offset < end && !s.abandoned() {
		raw, err := s.log.Read(offset, s.rt.opts.LoadBufferBytes)
		if err == nil {
			loan.Force(max(int64(len(raw))-loan.Bytes(), 0)) // is there already
			offset, err = s.replayBatches(raw, offset, loan)
		}
		if err != nil {
			return &ShardError{s.partition, s.epoch, offset, err}
		}
	}
	s.end = max(offset, end)
	return nil
}

func (s *shard[M]) abandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase != loading
}

// replayBatches applies the whole batches of raw and returns the offset after them.
func (s *shard[M]) replayBatches(raw []byte, offset int64, loan *memory.Loan) (int64, error) {
	start := offset
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		if errors.Is(err, batch.ErrShort) {
			break
		}
		if err == nil && !b.ChecksumOK() {
			err = errors.New("checksum mismatch")
		}
		if err == nil {
			err = s.replayBatch(b, loan)
		}
		if err != nil {
			return offset, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		offset, raw = b.LastOffset()+1, rest
	}
	if offset == start {
		return offset, fmt.Errorf("%w: no whole batch", ErrCorrupt)
	}
	return offset, nil
}

func (s *shard[M]) replayBatch(b batch.Batch, loan *memory.Loan) error {
	if most := int64(s.rt.opts.LoadBufferBytes + maxInflatedBytes); b.Codec() != batch.None && loan.Bytes() < most {
		loan.Grow(most-loan.Bytes(), nil, nil)
	}
	at := Position{ProducerID: batch.NoProducerID}
	if b.Transactional() {
		at.ProducerID = b.ProducerID()
	}
	for r, err := range b.RecordsWithin(maxInflatedBytes) {
		if err != nil {
			return err
		}
		at.Offset = r.Offset
		if b.Control() {
			err = s.replayMarker(at.ProducerID, r.Key)
		} else {
			err = s.machine.Replay(at, r.Key, r.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replayMarker reads a control record's key: version and type, two bytes each.
func (s *shard[M]) replayMarker(producerID int64, key []byte) error {
	if len(key) < 4 {
		return fmt.Errorf("control record with a key of %d bytes", len(key))
	}
	switch binary.BigEndian.Uint16(key[2:]) {
	case abortMarker:
		s.machine.EndTransaction(producerID, false)
	case commitMarker:
		s.machine.EndTransaction(producerID, true)
	}
	return nil
}
