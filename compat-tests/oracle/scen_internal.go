package oracle

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// internalScenarios read back what the group coordinator writes to __consumer_offsets: other tools read it too.
func internalScenarios(l *list) {
	l.between(8, 2, 10, "internal/offset commit", func(s *Session, v int16) {
		t := s.Topic("t", 2)
		log := s.watch()
		req := offsetCommit(s.Name("g"), t, 0, 7)
		p := commitPartition(1, 9, nil)
		p.LeaderEpoch = 3
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		s.Conn().Do(v, req)
		log.record()
	})
	l.between(11, 0, 9, "internal/group", func(s *Session, v int16) {
		log := s.watch()
		m := s.member(v)
		m.join()
		m.sendSync(m).Wait()
		m.leave("leave")
		log.record()
	})
	l.between(11, 5, 9, "internal/static member", func(s *Session, v int16) {
		log := s.watch()
		m := s.member(v)
		m.instance = ptr("instance")
		m.join()
		m.sendSync(m).Wait()
		again := s.member(v)
		again.instance = m.instance
		again.join()
		log.record()
	})
	l.between(42, 0, 3, "internal/group deleted", func(s *Session, v int16) {
		t := s.Topic("t", 1)
		log := s.watch()
		s.commit(s.Name("g"), t, 5)
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{s.Name("g")}
		s.Conn().Do(v, req)
		log.record()
	})
}

// watcher remembers where the partitions of __consumer_offsets ended.
type watcher struct {
	s    *Session
	t    topic
	ends []int64
}

func (s *Session) watch() watcher {
	w := watcher{s: s, t: s.internalTopic()}
	for p := int32(0); ; p++ {
		end := s.logEnd(w.t, p)
		if end < 0 {
			return w
		}
		w.ends = append(w.ends, end)
	}
}

// record makes a step of the records since then whose key has this scenario's names.
func (w watcher) record() {
	found := []internalRecord{}
	for p, end := range w.ends {
		req := fetch(w.t, int32(p), end)
		req.MaxWaitMillis = 0
		resp := w.s.setup(11, req).(*kmsg.FetchResponse)
		for _, r := range plainRecords(resp.Topics[0].Partitions[0].RecordBatches) {
			maskConsumerGroup(&r)
			if strings.Contains(string(r.Key), w.s.prefix) {
				found = append(found, internalRecord{r.Key[1], w.s.binaryTree(r.Key), w.s.binaryTree(r.Value), len(r.Headers)})
			}
		}
	}
	w.s.record("", "records of __consumer_offsets", inOrder(found))
}

type internalRecord struct {
	kind       byte
	key, value any
	headers    int
}

// inOrder sorts neighbours of one kind: of a group's members Kafka writes them in the order of a hash map.
func inOrder(found []internalRecord) any {
	out := []any{}
	for len(found) > 0 {
		n := 1
		for n < len(found) && found[n].kind == found[0].kind {
			n++
		}
		slices.SortStableFunc(found[:n], func(a, b internalRecord) int { return strings.Compare(show(a.key), show(b.key)) })
		for _, r := range found[:n] {
			out = append(out, map[string]any{"Key": r.key, "Value": r.value, "Headers": number(int64(r.headers))})
		}
		found = found[n:]
	}
	return out
}

// maskConsumerGroup hides the hash of topics in a consumer group's metadata, as their ids are random, and the offset of
// the metadata that an expression was resolved with.
func maskConsumerGroup(r *kmsg.Record) {
	const groupMetadata, expression = 3, 16
	const hashAt = 2 + 4 + 3 // after version, epoch; one tag: number and size
	switch {
	case r.Key[1] == groupMetadata && len(r.Value) == hashAt+8:
		copy(r.Value[hashAt:], "<topics>")
	case r.Key[1] == expression && len(r.Value) > 17:
		copy(r.Value[len(r.Value)-17:], "<offset>")
	}
}

// plainRecords reads the records of uncompressed batches.
func plainRecords(raw []byte) (out []kmsg.Record) {
	for len(raw) > 61 {
		size := 12 + int(binary.BigEndian.Uint32(raw[8:]))
		count := int(binary.BigEndian.Uint32(raw[57:]))
		rest := raw[61:size]
		for range count {
			n, w := binary.Varint(rest)
			var r kmsg.Record
			if err := r.ReadFrom(rest[:w+int(n)]); err != nil {
				panic("record of __consumer_offsets: " + err.Error())
			}
			out = append(out, r)
			rest = rest[w+int(n):]
		}
		raw = raw[size:]
	}
	return out
}

// binaryTree shows bytes quoted, with times and names masked; nil is null.
func (s *Session) binaryTree(b []byte) any {
	if b == nil {
		return nil
	}
	b = append([]byte(nil), b...)
	for i := 0; i+8 <= len(b); i++ {
		if isNow(int64(binary.BigEndian.Uint64(b[i:]))) {
			copy(b[i:], "<  now >")
		}
	}
	text := string(b)
	for id, name := range s.ids {
		if raw, ok := strings.CutPrefix(id, "named"); ok {
			text = strings.ReplaceAll(text, raw, "<"+name+">")
		}
	}
	return strconv.QuoteToASCII(s.maskString(text))
}
