// Schemagen writes protocol/schemas.txt from Kafka's message definitions, which it reads from its input one after the
// other. The output holds facts alone (names, types, versions).
//
//	unzip -p kafka-clients-4.4.0.jar 'common/message/*Request.json' |
//	    go run ./protocol/internal/schemagen > protocol/schemas.txt
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

type message struct {
	APIKey           *int16   `json:"apiKey"`
	Type             string   `json:"type"`
	Name             string   `json:"name"`
	Listeners        []string `json:"listeners"`
	ValidVersions    string   `json:"validVersions"`
	FlexibleVersions string   `json:"flexibleVersions"`
	Fields           []field  `json:"fields"`
	CommonStructs    []struct {
		Name   string  `json:"name"`
		Fields []field `json:"fields"`
	} `json:"commonStructs"`
}

type field struct {
	Name             string  `json:"name"`
	Type             string  `json:"type"`
	Versions         string  `json:"versions"`
	NullableVersions string  `json:"nullableVersions"`
	TaggedVersions   string  `json:"taggedVersions"`
	Tag              *int    `json:"tag"`
	Fields           []field `json:"fields"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	all, err := read(in)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b message) int { return int(*a.APIKey) - int(*b.APIKey) })
	w := bufio.NewWriter(out)
	for _, m := range all {
		fmt.Fprintf(w, "%d %s %s %s\n", *m.APIKey, strings.TrimSuffix(m.Name, "Request"), m.ValidVersions, m.FlexibleVersions)
		m.write(w, m.Fields, 1)
	}
	return w.Flush()
}

// read parses definitions, which are JSON with whole-line // comments, and keeps the requests that have versions.
func read(in io.Reader) (all []message, err error) {
	var plain bytes.Buffer
	for lines := bufio.NewScanner(in); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "}//") { // a file that ends without a newline, and the next
			line = "}"
		}
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			plain.WriteString(line)
		}
	}
	for dec := json.NewDecoder(&plain); ; {
		var m message
		if err := dec.Decode(&m); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if m.Type == "request" && m.APIKey != nil && m.ValidVersions != "none" {
			all = append(all, m)
		}
	}
}

func (m message) write(w io.Writer, fields []field, depth int) {
	for _, f := range fields {
		typ, sub := m.resolve(f)
		fmt.Fprintf(w, "%s%s %s %s", strings.Repeat(" ", depth), f.Name, typ, f.Versions)
		if f.NullableVersions != "" {
			fmt.Fprintf(w, " nullable %s", f.NullableVersions)
		}
		if f.Tag != nil {
			fmt.Fprintf(w, " tag %d %s", *f.Tag, f.TaggedVersions)
		}
		fmt.Fprintln(w)
		m.write(w, sub, depth+1)
	}
}

// resolve names structs "struct" and returns their fields, which stand at the field or among the common structs.
func (m message) resolve(f field) (typ string, sub []field) {
	array, elem := "", f.Type
	if rest, ok := strings.CutPrefix(f.Type, "[]"); ok {
		array, elem = "[]", rest
	}
	if elem[0] < 'A' || elem[0] > 'Z' {
		return f.Type, nil
	}
	for _, c := range m.CommonStructs {
		if c.Name == elem {
			return array + "struct", c.Fields
		}
	}
	return array + "struct", f.Fields
}
