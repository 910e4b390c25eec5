package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// outputFlag is the form of what a command shows.
type outputFlag string

var outputs = []string{"table", "wide", "json", "yaml"}

func (o *outputFlag) String() string { return string(*o) }
func (o *outputFlag) Type() string   { return strings.Join(outputs, "|") }
func (o *outputFlag) Set(s string) error {
	for _, known := range outputs {
		if s == known {
			*o = outputFlag(s)
			return nil
		}
	}
	return fmt.Errorf("must be %s", strings.Join(outputs, ", "))
}

func (t *tool) outputFlag(flags *pflag.FlagSet) {
	t.output = "table"
	flags.VarP(&t.output, "output", "o", "`form` of what is shown: table, wide (a table with more columns), json or yaml")
}

// shows gives commands the flag -o.
func (t *tool) shows(commands ...*cobra.Command) {
	for _, cmd := range commands {
		t.outputFlag(cmd.Flags())
		_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
	}
}

// bad is a cell that tells of something that is not healthy.
type bad string

// table is what people see of an answer.
type table struct {
	title   string
	columns []string // a title that begins with + is of a wide table alone, one with # is a number
	rows    [][]any
}

func newTable(title string, columns ...string) *table { return &table{title: title, columns: columns} }

func (tb *table) row(cells ...any) { tb.rows = append(tb.rows, cells) }

// show writes tables for people, or the value for programs.
func (t *tool) show(value any, tables ...*table) error {
	if t.output == "json" || t.output == "yaml" {
		return t.showValue(value)
	}
	var out bytes.Buffer
	for _, tb := range tables {
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		if tb.title != "" {
			out.WriteString(t.paint(tb.title, bold) + "\n")
		}
		tb.write(&out, t)
	}
	_, err := t.Stdout.Write(out.Bytes())
	return err
}

// showValue writes a value as JSON, or as YAML with the same names in the same order.
func (t *tool) showValue(value any) error {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}
	if t.output == "yaml" {
		var doc yaml.Node
		if err := yaml.Unmarshal(out.Bytes(), &doc); err != nil { // JSON is YAML
			return err
		}
		plainStyle(&doc)
		out.Reset()
		e := yaml.NewEncoder(&out)
		e.SetIndent(2)
		if err := e.Encode(&doc); err != nil {
			return err
		}
	}
	_, err := t.Stdout.Write(out.Bytes())
	return err
}

// plainStyle has a document written as people write YAML. Strings keep their quotes where something else would be read
// without them.
func plainStyle(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		plainStyle(child)
	}
}

type colour string

const (
	bold     colour = "1"
	red      colour = "31"
	noColour colour = ""
)

// paint colours text on a terminal.
func (t *tool) paint(text string, c colour) string {
	if !t.Terminal || c == noColour || t.env("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// write aligns the columns; numbers are flush right, and no line ends in spaces.
func (tb *table) write(out *bytes.Buffer, t *tool) {
	head := make([]any, len(tb.columns))
	shown, right := make([]bool, len(head)), make([]bool, len(head))
	for i, title := range tb.columns {
		wide := strings.HasPrefix(title, "+")
		title = strings.TrimPrefix(title, "+")
		shown[i], right[i] = !wide || t.output == "wide", strings.HasPrefix(title, "#")
		head[i] = strings.ToUpper(strings.TrimPrefix(title, "#"))
	}
	width := make([]int, len(head))
	for _, row := range append([][]any{head}, tb.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(fmt.Sprint(cell)))
		}
	}
	line := func(row []any, c colour) {
		var text strings.Builder
		trailing := 0 // spaces that nothing follows yet
		for i, cell := range row {
			if !shown[i] {
				continue
			}
			s, colour := fmt.Sprint(cell), c
			if _, ok := cell.(bad); ok {
				colour = red
			}
			pad := width[i] - utf8.RuneCountInString(s)
			if right[i] {
				trailing, pad = trailing+pad, 0
			}
			if s != "" {
				text.WriteString(strings.Repeat(" ", trailing) + t.paint(s, colour))
				trailing = 0
			}
			trailing += pad + 2
		}
		out.WriteString(text.String() + "\n")
	}
	line(head, bold)
	for _, row := range tb.rows {
		line(row, noColour)
	}
}

// done tells on stderr what a command did: stdout is for what was asked for.
func (t *tool) done(format string, args ...any) { fmt.Fprintf(t.Stderr, format+"\n", args...) }

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for ; value >= 1024 && unit < len(" KMGTP")-1; unit++ {
		value /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", value, " KMGTP"[unit])
}
