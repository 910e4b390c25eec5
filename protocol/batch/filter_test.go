package batch

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func filterOptions(c Codec) BuildOptions {
	return BuildOptions{BaseOffset: 100, LeaderEpoch: 7, Codec: c, ProducerID: 9, ProducerEpoch: 3, BaseSequence: 40, Transactional: true}
}

// filterAll filters b and returns what was appended behind a prefix.
func filterAll(t *testing.T, b Batch, p FilterPolicy) (Batch, FilterResult) {
	t.Helper()
	out, result, err := new(Filter).Append([]byte("before"), b, p)
	rest, kept := bytes.CutPrefix(out, []byte("before"))
	if err != nil || !kept {
		t.Fatal(err, kept)
	}
	return rest, result
}

func keepOffsets(offsets ...int64) func(int64, []byte, bool) bool {
	return func(offset int64, _ []byte, _ bool) bool { return slices.Contains(offsets, offset) }
}

func TestFilterKeepsWhatStays(t *testing.T) {
	for _, codec := range allCodecs {
		t.Run(codec.name(), func(t *testing.T) {
			records := someRecords()
			for i := range records {
				records[i].Offset += 100
			}
			records[2].Value = []byte("no tombstone")
			b := build(t, filterOptions(codec), records...)
			whole, result := filterAll(t, b, FilterPolicy{Keep: func(int64, []byte, bool) bool { return true }})
			if !bytes.Equal(whole, b) || result != (FilterResult{5, 5}) {
				t.Errorf("a batch that loses nothing changed, %+v", result)
			}
			got, result := filterAll(t, b, FilterPolicy{Keep: keepOffsets(101, 103)})
			if want := []Record{records[1], records[3]}; !reflect.DeepEqual(collect(t, got), want) || result != (FilterResult{5, 2}) {
				t.Errorf("records differ, %+v", result)
			}
			header := []int64{got.BaseOffset(), got.LastOffset(), int64(got.PartitionLeaderEpoch()), got.BaseTimestamp(), got.MaxTimestamp(),
				got.ProducerID(), int64(got.ProducerEpoch()), int64(got.BaseSequence()), int64(got.LastSequence()), int64(got.RecordCount())}
			if want := []int64{100, 104, 7, 900, 2000, 9, 3, 40, 44, 2}; !slices.Equal(header, want) {
				t.Errorf("header %v, want %v", header, want)
			}
			if !got.ChecksumOK() || got.Codec() != codec || !got.Transactional() || got.Control() || got.SizeBytes() != len(got) {
				t.Errorf("attributes %#x of %d bytes", got.Attributes(), len(got))
			}
		})
	}
}

func TestFilterOfNothingLeft(t *testing.T) {
	b := build(t, filterOptions(Zstd), someRecordsAt(100)...)
	none := FilterPolicy{Keep: keepOffsets()}
	if got, _ := filterAll(t, b, none); len(got) != 0 {
		t.Errorf("%d bytes are left", len(got))
	}
	none.KeepEmpty = true
	got, result := filterAll(t, b, none)
	header := []int64{got.BaseOffset(), got.LastOffset(), int64(got.RecordCount()), got.BaseTimestamp(), got.MaxTimestamp(), int64(got.LastSequence())}
	if want := []int64{100, 104, 0, NoTimestamp, 5000, 44}; !slices.Equal(header, want) || len(got) != HeaderSize || !got.ChecksumOK() {
		t.Errorf("empty batch of %d bytes: %v, want %v", len(got), header, want)
	}
	if got.Codec() != None || !got.Transactional() || result != (FilterResult{5, 0}) {
		t.Errorf("attributes %#x, %+v", got.Attributes(), result)
	}
	again, result := filterAll(t, got, none)
	if !bytes.Equal(again, got) || result != (FilterResult{}) {
		t.Errorf("an empty batch changed, %+v", result)
	}
}

func someRecordsAt(base int64) []Record {
	records := someRecords()
	for i := range records {
		records[i].Offset += base
	}
	return records
}

// TestFilterDeleteHorizon: set once, when a tombstone stays or the caller wants it; times of records do not change.
func TestFilterDeleteHorizon(t *testing.T) {
	for _, timestamps := range []TimestampType{CreateTime, LogAppendTime} {
		for _, codec := range allCodecs {
			o := filterOptions(codec)
			o.Timestamp = timestamps
			b := build(t, o, someRecordsAt(100)...)
			keepAll := FilterPolicy{Keep: func(int64, []byte, bool) bool { return true }, HorizonMs: 77_000}
			got, _ := filterAll(t, b, keepAll)
			if ms, has := got.DeleteHorizonMs(); !has || ms != 77_000 || !got.ChecksumOK() || got.TimestampType() != timestamps {
				t.Fatalf("%s: horizon %d, %v", codec.name(), ms, has)
			}
			if !reflect.DeepEqual(collect(t, got), collect(t, b)) || got.MaxTimestamp() != b.MaxTimestamp() {
				t.Errorf("%s: records differ", codec.name())
			}
			keepAll.HorizonMs, keepAll.StartHorizon = 99_000, true
			if again, _ := filterAll(t, got, keepAll); !bytes.Equal(again, got) {
				t.Errorf("%s: a second horizon changed the batch", codec.name())
			}
			less, _ := filterAll(t, got, FilterPolicy{Keep: keepOffsets(100), HorizonMs: 99_000})
			if ms, has := less.DeleteHorizonMs(); !has || ms != 77_000 {
				t.Errorf("%s: the horizon of a batch that lost records is %d, %v", codec.name(), ms, has)
			}
			if kept, _ := filterAll(t, b, FilterPolicy{Keep: keepOffsets(100, 103), HorizonMs: 77_000}); kept.Attributes()&deleteHorizonBit != 0 {
				t.Errorf("%s: a horizon without a tombstone", codec.name())
			}
			if kept, _ := filterAll(t, b, FilterPolicy{Keep: keepOffsets(100), HorizonMs: 77_000, StartHorizon: true}); kept.Attributes()&deleteHorizonBit == 0 {
				t.Errorf("%s: no horizon although asked for", codec.name())
			}
		}
	}
}

func TestFilterRefusesLies(t *testing.T) {
	b := wrap(t, None, 3, encode(goodBody, goodBody))
	out, _, err := new(Filter).Append([]byte("x"), b, FilterPolicy{Keep: keepOffsets(0)})
	if !errors.Is(err, kerr.InvalidRecord) || string(out) != "x" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestEachKey(t *testing.T) {
	b := build(t, filterOptions(Lz4), someRecordsAt(100)...)
	var keys []string
	err := b.EachKey(0, func(offset int64, key []byte) bool {
		if key == nil {
			key = []byte("null")
		}
		keys = append(keys, string(key))
		return offset < 102
	})
	if err != nil || !slices.Equal(keys, []string{"k", "null", ""}) {
		t.Errorf("%q, %v", keys, err)
	}
}
