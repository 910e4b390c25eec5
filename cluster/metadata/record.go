package metadata

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Record is one record of the metadata log, a pointer to one of this package's …Record types.
type Record interface {
	// Key is the record's api key; MaxVersion the newest version known, which is the one written.
	Key() int16
	MaxVersion() int16
	fields(c *codec)
}

// ErrMalformed: bytes that no record of ours or of a Kafka 4.4 can be.
var ErrMalformed = errors.New("malformed metadata record")

// RecordError says which record is wrong.
type RecordError struct {
	Key, Version int16 // -1 when not even they could be read
	Err          error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("metadata record of key %d version %d: %v", e.Key, e.Version, e.Err)
}

func (e *RecordError) Unwrap() []error { return []error{ErrMalformed, e.Err} }

// frameVersion leads every record's value (Kafka's AbstractApiMessageSerde).
const frameVersion = 1

// AppendRecord appends r as the value of a record of the metadata log: frame version, key and version as
// unsigned varints, then the flexible body.
func AppendRecord(dst []byte, r Record) []byte {
	dst = kbin.AppendUvarint(dst, frameVersion)
	dst = kbin.AppendUvarint(dst, uint32(r.Key()))
	dst = kbin.AppendUvarint(dst, uint32(r.MaxVersion()))
	c := codec{writing: true, version: r.MaxVersion(), dst: dst}
	r.fields(&c)
	return c.dst
}

// DecodeRecord reads what AppendRecord, or a Kafka, has written; the record keeps no reference to value.
func DecodeRecord(value []byte) (Record, error) {
	c := codec{src: kbin.Reader{Src: value}}
	frame, key, version := c.src.Uvarint(), c.src.Uvarint(), c.src.Uvarint()
	if !c.src.Ok() || frame != frameVersion || key > 1<<15-1 || version > 1<<15-1 {
		return nil, &RecordError{Key: -1, Version: -1, Err: errors.New("no frame")}
	}
	r := newRecord(int16(key))
	if r == nil {
		return nil, &RecordError{int16(key), int16(version), errors.New("unknown key")}
	}
	if int16(version) > r.MaxVersion() {
		return nil, &RecordError{int16(key), int16(version), errors.New("unknown version")}
	}
	c.version = int16(version)
	r.fields(&c)
	if err := c.finish(); err != nil {
		return nil, &RecordError{int16(key), int16(version), err}
	}
	return r, nil
}

// newRecord makes an empty record with the defaults of its schema, or nil.
func newRecord(key int16) Record {
	switch key {
	case 0:
		return &RegisterBrokerRecord{Fenced: true}
	case 1:
		return &UnregisterBrokerRecord{}
	case 2:
		return &TopicRecord{}
	case 3:
		return &PartitionRecord{}
	case 4:
		return &ConfigRecord{}
	case 5:
		return NewPartitionChange(UUID{}, 0)
	case 7:
		return &FenceBrokerRecord{}
	case 8:
		return &UnfenceBrokerRecord{}
	case 9:
		return &RemoveTopicRecord{}
	case 10:
		return &DelegationTokenRecord{}
	case 11:
		return &UserScramCredentialRecord{}
	case 12:
		return &FeatureLevelRecord{}
	case 14:
		return &ClientQuotaRecord{}
	case 15:
		return &ProducerIDsRecord{BrokerEpoch: -1}
	case 17:
		return &BrokerRegistrationChangeRecord{}
	case 18:
		return &AccessControlEntryRecord{}
	case 19:
		return &RemoveAccessControlEntryRecord{}
	case 20:
		return &NoOpRecord{}
	case 22:
		return &RemoveUserScramCredentialRecord{}
	case 26:
		return &RemoveDelegationTokenRecord{}
	case 27:
		return &RegisterControllerRecord{}
	case 28:
		return &ClearELRRecord{}
	case 29:
		return &UnregisterControllerRecord{}
	}
	return nil
}
