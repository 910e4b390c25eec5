package group

import (
	"slices"
	"testing"

	"grete/cluster/metadata"
)

// An expression matches no topic that the client may not describe: its name would show in the assignment.
func TestExpressionsMatchWhatMayBeDescribed(t *testing.T) {
	im, _, err := new(metadata.Image).Apply([]metadata.Record{
		&metadata.TopicRecord{Name: "a1", ID: metadata.UUID{1}}, &metadata.TopicRecord{Name: "a2", ID: metadata.UUID{2}}, &metadata.TopicRecord{Name: "b", ID: metadata.UUID{3}},
	}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		describable func(string) bool
		want        []string
	}{
		{nil, []string{"a1", "a2"}},
		{func(topic string) bool { return topic != "a1" }, []string{"a2"}},
		{func(string) bool { return false }, nil},
	} {
		if got := resolve(im, map[string]int{"a.*": 1}, c.describable, 0)["a.*"].topics; !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}
