package protocol

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What needs no rewriting is copied byte by byte.
func TestRewriteKeepsWhatIsRight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	eachVersion(func(s *requestSchema, version int16) {
		for range 20 {
			body := append(randomRequest(rnd, s.key, version, 3).AppendTo(nil), "trailing"...)
			if _, err := scanRequest(s, version, body); err != nil {
				continue // larger than its bytes allow
			}
			if got := rewriteRequest(s, version, body); !bytes.Equal(got, body) {
				t.Fatalf("%s v%d:\n got %x\nwant %x", s.name, version, got, body)
			}
		}
	})
}

// Strings that are not UTF-8 are decoded as Java does; what Kafka 4.4 answered to names of these bytes is in the
// oracle's recording.
func TestJavaText(t *testing.T) {
	for text, want := range map[string]string{
		"a\xffb": "a?b", "\xff\xfe": "??", "\xe2\x82": "?", "\xe2\x82a": "?a", "\xf0\x9f\x92a": "?a", "\xf0\x9f\x92": "?", "\xc0\x80": "??", "\xed\xa0\x80": "?",
		"\xed\xa0\x80\xed\xb0\x80": "??", "\xf4\x90\x80\x80": "????", "\xf8\x88\x80\x80\x80": "?????", "\x80": "?", "\xc3": "?", "\xe0\x80\x80": "???",
		"\xf0\x80\x80\x80": "????", "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41": "????A", "ä€😀\xc3ä": "ä€😀?ä",
	} {
		if got := string(javaText([]byte(text))); got != string(bytes.ReplaceAll([]byte(want), []byte("?"), []byte("\uFFFD"))) {
			t.Errorf("%x: %q, want %q", text, got, want)
		}
	}
}

func TestNamesAreDecodedAsJavaDoes(t *testing.T) {
	for _, version := range []int16{8, 12} { // with fixed and with compact lengths
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range []string{"good", "b\xffd"} {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, topic)
		}
		req.SetVersion(version)
		got, _, err := decodeBody(requestSchemas()[3], version, req.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		topics := got.(*kmsg.MetadataRequest).Topics
		if len(topics) != 2 || *topics[0].Topic != "good" || *topics[1].Topic != "b\uFFFDd" {
			t.Errorf("version %d: %v", version, topics)
		}
	}
}

// The size before a tagged field that is known is not looked at.
func TestSizeOfAKnownTag(t *testing.T) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 77
	req.SetVersion(15)
	body := req.AppendTo(nil)
	for _, tags := range [][]byte{{1, 0, 2, 2, 'x'}, {1, 0, 0, 2, 'x'}, {1, 0, 100, 2, 'x'}, {2, 0, 9, 2, 'x', 90, 2, 1, 2}, {1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 2, 'x'}} {
		got, _, err := decodeBody(requestSchemas()[fetchKey], 15, append(body[:len(body)-1:len(body)-1], tags...))
		if err != nil {
			t.Errorf("%x: %v", tags, err)
			continue
		}
		if fetch := got.(*kmsg.FetchRequest); fetch.ClusterID == nil || *fetch.ClusterID != "x" || fetch.MaxBytes != 77 {
			t.Errorf("%x: %+v", tags, fetch)
		}
	}
	if _, _, err := decodeBody(requestSchemas()[fetchKey], 15, append(body[:len(body)-1:len(body)-1], 1, 0, 2, 20, 'x')); err == nil {
		t.Error("a value beyond the body is taken")
	}
}
