package tool

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// formatHelp says what a format consists of.
const formatHelp = "%t topic, %p partition, %o offset, %k key, %v or %s value, %h headers, %H headers as JSON, %T timestamp in ms, %D timestamp as text, " +
	"%K %V lengths of key and value, %R length of the value in four bytes, %% percent; \\n \\t \\r \\0 \\xHH"

// format writes records as a format string says.
type format []func(out []byte, r *kgo.Record) []byte

// parseFormat reads what formatHelp says. nothing stands for a key or value that is null.
func parseFormat(text, nothing string) (format, error) {
	var f format
	literal := []byte{}
	flush := func() {
		if part := literal; len(part) > 0 {
			f = append(f, func(out []byte, _ *kgo.Record) []byte { return append(out, part...) })
			literal = nil
		}
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			n, b, ok := escaped(text[i+1:])
			if !ok {
				return nil, usagef("the format %q has \\%c: %s", text, text[i+1], formatHelp)
			}
			literal, i = append(literal, b), i+n
		case text[i] != '%':
			literal = append(literal, text[i])
		case i+1 == len(text):
			return nil, usagef("the format %q ends in %%: %s", text, formatHelp)
		case text[i+1] == '%':
			literal, i = append(literal, '%'), i+1
		default:
			verb := verbOf(text[i+1], nothing)
			if verb == nil {
				return nil, usagef("the format %q has %%%c: %s", text, text[i+1], formatHelp)
			}
			flush()
			f, i = append(f, verb), i+1
		}
	}
	flush()
	return f, nil
}

// escaped reads what follows a backslash.
func escaped(text string) (n int, b byte, ok bool) {
	switch text[0] {
	case 'n':
		return 1, '\n', true
	case 't':
		return 1, '\t', true
	case 'r':
		return 1, '\r', true
	case '0':
		return 1, 0, true
	case '\\':
		return 1, '\\', true
	case 'x':
		if len(text) >= 3 {
			v, err := strconv.ParseUint(text[1:3], 16, 8)
			return 3, byte(v), err == nil
		}
	}
	return 0, 0, false
}

// unescape reads a delimiter with backslashes.
func unescape(flag, text string) ([]byte, error) {
	var out []byte
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		n, b, ok := escaped(text[i+1:])
		if !ok {
			return nil, usagef("%s %q: \\%c is none of \\n \\t \\r \\0 \\\\ \\xHH", flag, text, text[i+1])
		}
		out, i = append(out, b), i+n
	}
	return out, nil
}

func verbOf(verb byte, nothing string) func([]byte, *kgo.Record) []byte {
	orNothing := func(out, b []byte) []byte {
		if b == nil {
			return append(out, nothing...)
		}
		return append(out, b...)
	}
	length := func(b []byte) int64 {
		if b == nil {
			return -1
		}
		return int64(len(b))
	}
	switch verb {
	case 't':
		return func(out []byte, r *kgo.Record) []byte { return append(out, r.Topic...) }
	case 'p':
		return func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, int64(r.Partition), 10) }
	case 'o':
		return func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, r.Offset, 10) }
	case 'k':
		return func(out []byte, r *kgo.Record) []byte { return orNothing(out, r.Key) }
	case 'v', 's':
		return func(out []byte, r *kgo.Record) []byte { return orNothing(out, r.Value) }
	case 'K':
		return func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, length(r.Key), 10) }
	case 'V', 'S':
		return func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, length(r.Value), 10) }
	case 'R':
		return func(out []byte, r *kgo.Record) []byte {
			return binary.BigEndian.AppendUint32(out, uint32(length(r.Value)))
		}
	case 'T':
		return func(out []byte, r *kgo.Record) []byte { return strconv.AppendInt(out, r.Timestamp.UnixMilli(), 10) }
	case 'D':
		return func(out []byte, r *kgo.Record) []byte { return append(out, timeText(r.Timestamp.UnixMilli())...) }
	case 'h':
		return appendHeaders
	case 'H':
		return func(out []byte, r *kgo.Record) []byte {
			text, _ := json.Marshal(viewOfHeaders(r.Headers)) // strings alone
			return append(out, text...)
		}
	}
	return nil
}

// appendHeaders writes a=1,b=2.
func appendHeaders(out []byte, r *kgo.Record) []byte {
	for i, h := range r.Headers {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, h.Key...), '='), h.Value...)
	}
	return out
}

func (f format) append(out []byte, r *kgo.Record) []byte {
	for _, part := range f {
		out = part(out, r)
	}
	return out
}

// recordView is a record as JSON. What is no text is in base64, under a name that says so.
type recordView struct {
	Topic     string       `json:"topic,omitempty"`
	Partition *int32       `json:"partition,omitempty"`
	Offset    *int64       `json:"offset,omitempty"`
	Timestamp *int64       `json:"timestamp,omitempty"` // ms since 1970
	Key       *string      `json:"key,omitempty"`
	KeyBase64 *string      `json:"keyBase64,omitempty"`
	Value     *string      `json:"value,omitempty"`
	Base64    *string      `json:"valueBase64,omitempty"`
	Headers   []headerView `json:"headers,omitempty"`
}

type headerView struct {
	Key    string  `json:"key"`
	Value  *string `json:"value,omitempty"`
	Base64 *string `json:"valueBase64,omitempty"`
}

// textOr returns b as text, or in base64 where it is none; neither for null.
func textOr(b []byte) (text, base *string) {
	if b == nil {
		return nil, nil
	}
	s := string(b)
	if utf8.ValidString(s) {
		return &s, nil
	}
	s = base64.StdEncoding.EncodeToString(b)
	return nil, &s
}

// bytesOf is the other way round.
func bytesOf(text, base *string) ([]byte, error) {
	switch {
	case text != nil:
		return []byte(*text), nil
	case base != nil:
		b, err := base64.StdEncoding.DecodeString(*base)
		if b == nil {
			b = []byte{}
		}
		return b, err
	}
	return nil, nil
}

func viewOfHeaders(headers []kgo.RecordHeader) []headerView {
	out := []headerView{}
	for _, h := range headers {
		v := headerView{Key: h.Key}
		v.Value, v.Base64 = textOr(h.Value)
		out = append(out, v)
	}
	return out
}

// appendJSON writes a record as one line of JSON, which grete produce -J reads.
func appendJSON(out []byte, r *kgo.Record) []byte {
	ms := r.Timestamp.UnixMilli()
	v := recordView{Topic: r.Topic, Partition: &r.Partition, Offset: &r.Offset, Timestamp: &ms}
	v.Key, v.KeyBase64 = textOr(r.Key)
	v.Value, v.Base64 = textOr(r.Value)
	if len(r.Headers) > 0 {
		v.Headers = viewOfHeaders(r.Headers)
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // strings and numbers alone
	return append(out, text.String()...)
}
