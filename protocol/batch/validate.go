package batch

import (
	"runtime"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Origin says who appends, which decides how much is checked (Kafka's AppendOrigin).
type Origin int8

const (
	FromClient      Origin = iota
	FromCoordinator        // the broker's own records: well-formed, and may be control batches
)

// Policy is what a partition's configuration and the request ask of a batch.
type Policy struct {
	Topic           string // for messages
	Partition       int32
	Target          Compression // compression.type; Codec Producer keeps the batch's codec
	Timestamp       TimestampType
	BeforeMaxMs     int64 // message.timestamp.before.max.ms
	AfterMaxMs      int64 // message.timestamp.after.max.ms
	MaxMessageBytes int32 // max.message.bytes
	MaxRecordBytes  int32 // max.decompressed.message.bytes, of a record in a compressed batch; 0: no bound
	Compacted       bool  // every record needs a key
	NowMs           int64
	ProduceVersion  int16 // of the request; ignored for FromCoordinator
	Origin          Origin
	// Lend, if not nil, waits for the memory that rebuilding a large batch takes; back returns it.
	Lend func(bytes int64) (back func())
}

// Result is a batch fit to append; offsets and leader epoch are still to be set.
type Result struct {
	Batch Batch // the bytes that came in, changed in place at most in the header, unless they had to be rebuilt
	// MaxTimestampMs is that of the batch; Kafka counts it as the time of the batch's last offset.
	MaxTimestampMs  int64
	LogAppendTimeMs int64 // -1 for CreateTime
	RecordCount     int32
}

const (
	// maxExpansion bounds the bytes that a batch may decompress to, in multiples of max.message.bytes. Text of the
	// most repetitive sort stays below it; what is above is a bomb, and is answered like a batch too large, so that a
	// producer that means it splits the batch. Where the limit is small, anyBatchBytes are allowed all the same.
	maxExpansion  = 128
	anyBatchBytes = 32 << 20
	// maxRebuildExpansion is the same for a batch that must be compressed anew, and so is in memory as a whole. Clients
	// limit a batch to max.message.bytes before they compress it.
	maxRebuildExpansion = 4
	// Rebuilding holds the records as they come, as they are encoded while their buffer grows, and compressed. It
	// borrows memory from minRebuildLoan on.
	rebuildFactor  = 4
	minRebuildLoan = 1 << 20
	// maxRecordErrors bounds the refused records that are listed one by one.
	maxRecordErrors = 1 << 14
	// zstdSinceVersion is the first Produce version that may carry zstd (KIP-110).
	zstdSinceVersion = 7
)

// inflating bounds how many batches are decompressed or compressed at once, and with it the memory that this takes: it
// is work for the processors, of which more at a time would not be done sooner.
var inflating = make(chan struct{}, max(minInflating, runtime.GOMAXPROCS(0)))

// minInflating batches at once, so that one large batch does not hold up all small ones.
const minInflating = 4

// Validate checks one partition's records bytes as Kafka does for a leader's append (ProduceRequest.validateRecords,
// UnifiedLog.analyzeAndValidateRecords, LogValidator). Errors are *Error. The bytes of an uncompressed batch, or of a
// compressed one whose codec is kept, stay in place.
func Validate(raw []byte, p *Policy) (Result, error) {
	b, err := onlyBatch(raw, p)
	if err != nil {
		return Result{}, err
	}
	if err := p.checkWhole(b); err != nil {
		return Result{}, err
	}
	if err := p.checkHeader(b); err != nil {
		return Result{}, err
	}
	if b.Codec() != None || p.target(b).Codec != None {
		inflating <- struct{}{}
		defer func() { <-inflating }()
	}
	checked, err := checkRecords(p, b)
	if err != nil {
		return Result{}, err
	}
	return p.accept(b, checked)
}

// limitBytes is how far a batch may decompress that is only checked.
func (p *Policy) limitBytes() int64 { return max(anyBatchBytes, maxExpansion*int64(p.MaxMessageBytes)) }

// rebuildBytes is how far a batch may decompress that is compressed anew.
func (p *Policy) rebuildBytes() int64 {
	return max(anyBatchBytes, maxRebuildExpansion*int64(p.MaxMessageBytes))
}

// onlyBatch returns the one batch of raw; a cut one after it is dropped, as Kafka does.
func onlyBatch(raw []byte, p *Policy) (Batch, error) {
	b, rest, err := nextAnyMagic(raw)
	if err == ErrShort {
		return nil, invalid("no whole record batch for %s-%d", p.Topic, p.Partition)
	}
	if err != nil {
		return nil, err
	}
	if b.Magic() != currentMagic {
		return nil, invalid("record batch of magic %d", b.Magic())
	}
	if p.Origin == FromClient && p.ProduceVersion < zstdSinceVersion && b.Codec() == Zstd {
		return nil, &Error{Code: kerr.UnsupportedCompressionType, Message: "zstd needs Produce version 7"}
	}
	switch _, _, err := nextAnyMagic(rest); {
	case err == nil:
		return nil, invalid("more than one record batch for %s-%d", p.Topic, p.Partition)
	case err != ErrShort:
		return nil, err
	}
	return b, nil
}

// checkWhole is Kafka's UnifiedLog.analyzeAndValidateRecords.
func (p *Policy) checkWhole(b Batch) error {
	switch {
	case p.Origin == FromClient && b.BaseOffset() != 0:
		return invalid("base offset %d of a client's batch", b.BaseOffset())
	case len(b) > int(p.MaxMessageBytes):
		return tooLarge("batch of %d bytes, max.message.bytes is %d", len(b), p.MaxMessageBytes)
	case len(b) < HeaderSize:
		return corrupt("batch of %d bytes is smaller than its header", len(b))
	case !b.ChecksumOK():
		return corrupt("checksum of the batch is %#x, stored is %#x", b.checksum(), b.storedChecksum())
	case b.Codec() >= codecs:
		return &Error{Code: kerr.UnknownServerError, Message: "unknown compression type"}
	}
	return nil
}

// checkHeader is Kafka's LogValidator.validateBatch.
func (p *Policy) checkHeader(b Batch) error {
	if p.Origin != FromClient {
		return nil
	}
	count := b.RecordCount()
	switch {
	case b.LastOffsetDelta() < 0:
		return invalid("last offset delta %d", b.LastOffsetDelta())
	case count <= 0:
		return invalid("record count %d", count)
	case int64(b.LastOffsetDelta())+1 != int64(count):
		return invalid("last offset delta %d with %d records", b.LastOffsetDelta(), count)
	case b.Control():
		return invalid("clients may not write control records")
	case b.ProducerID() > NoProducerID && b.BaseSequence() < 0:
		return invalid("sequence %d of producer %d", b.BaseSequence(), b.ProducerID())
	}
	return nil
}

// accept makes the header say what the records are, or rebuilds the batch where its bytes cannot stay.
func (p *Policy) accept(b Batch, v recordCheck) (Result, error) {
	target := p.target(b)
	maxMs, logAppendMs := v.maxMs, int64(-1)
	if p.Timestamp == LogAppendTime {
		maxMs, logAppendMs = p.NowMs, p.NowMs
	}
	switch {
	case target.Codec != b.Codec():
		var err error
		if b, err = p.rebuild(b, target, maxMs, v.inflated); err != nil {
			return Result{}, err
		}
	case b.Codec() != None && !v.sequential:
		// Kafka sets out to rebuild such a batch and trips over the keys that it has not kept.
		return Result{}, &Error{Code: kerr.UnknownServerError, Message: "record offsets of a compressed batch are not consecutive"}
	default:
		b.setTimestamps(p.Timestamp, maxMs)
	}
	return Result{Batch: b, MaxTimestampMs: maxMs, LogAppendTimeMs: logAppendMs, RecordCount: b.RecordCount()}, nil
}

// target is the compression to store b with: control records are not compressed unless they came so.
func (p *Policy) target(b Batch) Compression {
	if p.Target.Codec == Producer || (b.Control() && b.Codec() == None) {
		return Compression{Codec: b.Codec()}
	}
	return p.Target
}
