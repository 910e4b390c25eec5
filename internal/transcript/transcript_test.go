package transcript

import (
	"strings"
	"testing"
)

func echo(command string) string {
	if command == "silence" {
		return ""
	}
	return strings.ReplaceAll(command, " ", "\n  ") + "\n"
}

func TestPlay(t *testing.T) {
	const right = `# A title,
# of two lines.

say a b
----
say
  a
  b

# Why nothing comes of it.
silence
----
nothing
`
	if now, differences := play(right, echo); now != right || len(differences) != 0 {
		t.Errorf("%v\n%s", differences, now)
	}
	for name, wrong := range map[string]string{
		"a line changed":   strings.Replace(right, "  b\n", "  c\n", 1),
		"a line missing":   strings.Replace(right, "  b\n", "", 1),
		"a line too many":  strings.Replace(right, "  b\n", "  b\n  c\n", 1),
		"an indent lost":   strings.Replace(right, "  a\n", "a\n", 1),
		"no answer yet":    strings.Replace(right, "----\nnothing\n", "", 1),
		"something for no": strings.Replace(right, "\nnothing", "\nsomething", 1),
	} {
		now, differences := play(wrong, echo)
		if len(differences) != 1 {
			t.Errorf("%s: %q", name, differences)
		}
		if now != right {
			t.Errorf("%s: written as\n%s", name, now)
		}
	}
}
