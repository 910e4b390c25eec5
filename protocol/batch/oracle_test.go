package batch

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oracleEnv names a real Kafka's address; without it the comparison is skipped.
const oracleEnv = "GRETE_ORACLE_KAFKA"

// oracleConfigs are policies as topic configurations.
var oracleConfigs = map[string]map[string]string{
	"plain":        {},
	"compacted":    {"cleanup.policy": "compact"},
	"appendtime":   {"message.timestamp.type": "LogAppendTime"},
	"fresh":        {"message.timestamp.before.max.ms": "10000"},
	"small":        {"max.message.bytes": "1000"},
	"uncompressed": {"compression.type": "uncompressed"},
	"gzip":         {"compression.type": "gzip", "compression.gzip.level": "9"},
	"snappy":       {"compression.type": "snappy"},
	"lz4":          {"compression.type": "lz4", "compression.lz4.level": "3"},
	"zstd":         {"compression.type": "zstd", "compression.zstd.level": "5"},
	"zstdcompact":  {"compression.type": "zstd", "cleanup.policy": "compact"},
}

type oracle struct {
	t      *testing.T
	conn   net.Conn
	format *kmsg.RequestFormatter
}

func dialOracle(t *testing.T) *oracle {
	addr := os.Getenv(oracleEnv)
	if addr == "" {
		t.Skipf("%s does not name a Kafka", oracleEnv)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &oracle{t, conn, kmsg.NewRequestFormatter()}
}

func (o *oracle) ask(req kmsg.Request, version int16) kmsg.Response {
	o.t.Helper()
	req.SetVersion(version)
	if _, err := o.conn.Write(o.format.AppendRequest(nil, req, 1)); err != nil {
		o.t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(o.conn, size[:]); err != nil {
		o.t.Fatalf("Kafka closed the connection: %v", err)
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(o.conn, body); err != nil {
		o.t.Fatal(err)
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	header := 4
	if resp.IsFlexible() {
		header++
	}
	if err := resp.ReadFrom(body[header:]); err != nil {
		o.t.Fatal(err)
	}
	return resp
}

func (o *oracle) createTopics(suffix string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	for topic, configs := range oracleConfigs {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic+suffix, 1, 1
		for name, value := range configs {
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
		}
		req.Topics = append(req.Topics, t)
	}
	for _, topic := range o.ask(req, 5).(*kmsg.CreateTopicsResponse).Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			o.t.Fatalf("%s: %v", topic.Topic, err)
		}
	}
	time.Sleep(2 * time.Second) // until the broker leads them
}

func (o *oracle) produce(topic string, version int16, raw []byte) kmsg.ProduceResponseTopicPartition {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = raw
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	return o.ask(req, version).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// stored fetches the batch at offset.
func (o *oracle) stored(topic string, offset int64) Batch {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = 1<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	got := o.ask(req, 11).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	b, _, err := Next(got.RecordBatches)
	if err != nil {
		o.t.Fatalf("stored batch at %d: %v (code %d, %d bytes)", offset, err, got.ErrorCode, len(got.RecordBatches))
	}
	return b
}

var timeRange = regexp.MustCompile(`within \[-?\d+, -?\d+\]`)

// maskTimes hides what depends on the moment.
func maskTimes(message string) string { return timeRange.ReplaceAllString(message, "within [?]") }

// TestAgainstKafka holds a real Kafka to the answers that TestValidateAnswers holds us to: code, messages, refused
// records; and for what it accepts, that the header it stores is ours (and the bytes, unless they were recompressed).
func TestAgainstKafka(t *testing.T) {
	o := dialOracle(t)
	suffix := "-" + time.Now().Format("150405")
	o.createTopics(suffix)
	for _, c := range validationCases(t) {
		t.Run(c.name, func(t *testing.T) {
			o.t = t
			topic, version := caseTopic(c)
			theirs := o.produce(topic+suffix, version, c.raw)
			p := policyOf(topic, caseNow, version)
			p.Topic += suffix
			if p.Timestamp == LogAppendTime && theirs.ErrorCode == 0 {
				p.NowMs = theirs.LogAppendTime
			}
			var r Result
			_, err := checkRequest(&RequestCheck{Version: version}, c.raw)
			if err == nil {
				r, err = Validate(slices.Clone(c.raw), p)
			}
			var ours *Error
			if err != nil && !errors.As(err, &ours) {
				t.Fatal(err)
			}
			if diff := compareErrors(ours, theirs, version); diff != "" {
				if c.ours == "" {
					t.Fatal(diff)
				}
				t.Skipf("known difference, %s: %s", c.ours, diff)
			}
			if ours == nil {
				compareStored(t, r, o.stored(topic+suffix, theirs.BaseOffset))
			}
		})
	}
}

func compareErrors(ours *Error, theirs kmsg.ProduceResponseTopicPartition, version int16) string {
	var code int16
	var message *string
	var records []RecordError
	if ours != nil {
		code = ours.Code.Code
		if ours.Answer() != nil && version >= 8 {
			masked := maskTimes(*ours.Answer())
			message, records = &masked, ours.Records
		}
	}
	if code != theirs.ErrorCode {
		return "code: ours " + errorText(ours) + ", theirs " + kerrName(theirs.ErrorCode)
	}
	if theirs.ErrorMessage != nil {
		masked := maskTimes(*theirs.ErrorMessage)
		theirs.ErrorMessage = &masked
	}
	if !reflect.DeepEqual(message, theirs.ErrorMessage) {
		return "message: ours " + deref(message) + ", theirs " + deref(theirs.ErrorMessage)
	}
	for i, r := range theirs.ErrorRecords {
		if i >= len(records) || records[i].Index != r.RelativeOffset || maskTimes(records[i].Message) != maskTimes(deref(r.ErrorMessage)) {
			return "record error: theirs " + deref(r.ErrorMessage) + ", ours " + errorText(&Error{Code: kerr.InvalidRecord, Records: records}) + records[min(i, len(records)-1)].Message
		}
	}
	if len(records) != len(theirs.ErrorRecords) {
		return "record errors: different numbers"
	}
	return ""
}

func errorText(e *Error) string {
	if e == nil {
		return "none"
	}
	return e.Error()
}

func kerrName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return "none"
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func compareStored(t *testing.T, r Result, theirs Batch) {
	t.Helper()
	ours := slices.Clone(r.Batch)
	Batch(ours).SetBaseOffset(theirs.BaseOffset())
	Batch(ours).SetPartitionLeaderEpoch(theirs.PartitionLeaderEpoch())
	if !theirs.ChecksumOK() {
		t.Fatal("theirs has a bad checksum: is it one batch?")
	}
	header := func(b Batch) []byte {
		return slices.Concat(b[:lengthAt], b[leaderEpochAt:crcAt], b[attributesAt:HeaderSize])
	}
	if !slices.Equal(header(ours), header(theirs)) {
		t.Errorf("header\n%v, theirs\n%v", header(ours), header(theirs))
	}
	if theirs.Codec() == None && !slices.Equal(ours, theirs) {
		t.Errorf("bytes\n%v, theirs\n%v", ours, theirs)
	}
	if !reflect.DeepEqual(collect(t, ours), collect(t, theirs)) {
		t.Error("records differ")
	}
}
