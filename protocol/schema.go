package protocol

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// schemas.txt holds the shape of every request of Kafka 4.4.0: a line "key name versions flexible-versions", then
// its fields, indented by depth: "name type versions [nullable versions] [tag number versions]".
//
//go:generate sh -c "unzip -p $KAFKA_CLIENTS_JAR 'common/message/*Request.json' | go run ./internal/schemagen > schemas.txt"
//go:embed schemas.txt
var schemasText string

// versionSpan is an inclusive range of versions; empty when max < min.
type versionSpan struct{ min, max int16 }

func (s versionSpan) has(version int16) bool { return s.min <= version && version <= s.max }

// noVersions is the span that the word "none" means.
var noVersions = versionSpan{0, -1}

// schemaField is one field of a message over all its versions.
type schemaField struct {
	name     string
	typ      string // a scalar's name, string, bytes, records or struct; of the elements when array
	array    bool
	versions versionSpan
	nullable versionSpan
	tagged   versionSpan
	tag      uint32
	fields   []schemaField // of a struct
}

// requestSchema is one request over all its versions, with a compiled shape per version that was asked for.
type requestSchema struct {
	key      int16
	name     string
	versions versionSpan
	flexible versionSpan
	fields   []schemaField
	shapes   []atomic.Pointer[shape] // by version - versions.min
}

// requestSchemas are the schemas by key; parsed on first use.
var requestSchemas = sync.OnceValue(func() map[int16]*requestSchema {
	all, err := parseSchemas(schemasText + ownSchemas)
	if err != nil {
		panic(err) // the text is part of the program and covered by a test
	}
	return all
})

// parseSchemas reads the format of schemas.txt.
func parseSchemas(text string) (map[int16]*requestSchema, error) {
	all := make(map[int16]*requestSchema, 100)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		s, err := parseRequestLine(lines[i])
		if err != nil {
			return nil, fmt.Errorf("schemas.txt:%d: %w", i+1, err)
		}
		if s.fields, i, err = parseFields(lines, i+1, 1); err != nil {
			return nil, fmt.Errorf("schemas.txt:%d: %w", i+1, err)
		}
		all[s.key] = s
	}
	return all, nil
}

func parseRequestLine(line string) (*requestSchema, error) {
	words := strings.Fields(line)
	if len(words) != 4 {
		return nil, fmt.Errorf("%q is no request line", line)
	}
	key, err := strconv.ParseInt(words[0], 10, 16)
	if err != nil {
		return nil, err
	}
	s := &requestSchema{key: int16(key), name: words[1]}
	if s.versions, err = parseSpan(words[2]); err != nil {
		return nil, err
	}
	if s.flexible, err = parseSpan(words[3]); err != nil {
		return nil, err
	}
	s.shapes = make([]atomic.Pointer[shape], s.versions.max-s.versions.min+1)
	return s, nil
}

// parseFields reads the lines from i on that are indented by depth or more; it returns the index after them.
func parseFields(lines []string, i, depth int) ([]schemaField, int, error) {
	var out []schemaField
	for i < len(lines) && indent(lines[i]) >= depth {
		f, err := parseField(lines[i])
		if err != nil {
			return nil, i, err
		}
		if f.fields, i, err = parseFields(lines, i+1, depth+1); err != nil {
			return nil, i, err
		}
		out = append(out, f)
	}
	return out, i, nil
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func parseField(line string) (f schemaField, err error) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return f, fmt.Errorf("%q is no field", line)
	}
	f.name, f.nullable, f.tagged = words[0], noVersions, noVersions
	f.typ, f.array = strings.CutPrefix(words[1], "[]")
	if f.versions, err = parseSpan(words[2]); err != nil {
		return f, err
	}
	for rest := words[3:]; len(rest) > 0; {
		switch {
		case rest[0] == "nullable" && len(rest) >= 2:
			f.nullable, err = parseSpan(rest[1])
			rest = rest[2:]
		case rest[0] == "tag" && len(rest) >= 3:
			var tag uint64
			if tag, err = strconv.ParseUint(rest[1], 10, 32); err == nil {
				f.tag = uint32(tag)
				f.tagged, err = parseSpan(rest[2])
			}
			rest = rest[3:]
		default:
			err = fmt.Errorf("unknown word %q", rest[0])
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// parseSpan reads "3", "1-4", "2+" or "none".
func parseSpan(s string) (versionSpan, error) {
	if s == "none" {
		return noVersions, nil
	}
	if low, open := strings.CutSuffix(s, "+"); open {
		n, err := strconv.ParseInt(low, 10, 16)
		return versionSpan{int16(n), 1<<15 - 1}, err
	}
	low, high, isRange := strings.Cut(s, "-")
	a, err := strconv.ParseInt(low, 10, 16)
	if err != nil || !isRange {
		return versionSpan{int16(a), int16(a)}, err
	}
	b, err := strconv.ParseInt(high, 10, 16)
	return versionSpan{int16(a), int16(b)}, err
}
