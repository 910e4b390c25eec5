package tool

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

type topicView struct {
	Name       string          `json:"name"`
	ID         string          `json:"id"`
	Internal   bool            `json:"internal,omitempty"`
	SizeBytes  int64           `json:"sizeBytes"` // of the leaders' logs
	Records    int64           `json:"offsets"`   // from start to end of all partitions
	Configs    []configRow     `json:"configs"`
	Partitions []partitionView `json:"partitions"`
}

type partitionView struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Epoch     int32   `json:"leaderEpoch"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
	Offline   []int32 `json:"offlineReplicas"`
	Start     int64   `json:"start"` // -1 where it is not known
	End       int64   `json:"end"`
	SizeBytes int64   `json:"sizeBytes"` // -1 where it is not known
	Error     string  `json:"error,omitempty"`
}

// describeTopics shows what can be known: offsets and sizes of partitions without a leader cannot.
func (c *cluster) describeTopics(ctx context.Context, names []string) error {
	details, err := c.topics(ctx, names)
	if err != nil {
		return err
	}
	starts, err := c.adm.ListStartOffsets(ctx, details.Names()...)
	if err != nil {
		return err
	}
	ends, err := c.adm.ListEndOffsets(ctx, details.Names()...)
	if err != nil {
		return err
	}
	dirs, err := c.adm.DescribeAllLogDirs(ctx, details.TopicsSet())
	if err != nil {
		dirs = nil // it needs more rights than the rest
	}
	configs, err := c.adm.DescribeTopicConfigs(ctx, details.Names()...)
	if err != nil {
		return err
	}
	views, tables := []topicView{}, []*table{}
	for _, d := range details.Sorted() {
		v := topicView{Name: d.Topic, ID: idText(d.ID), Internal: d.IsInternal, Configs: []configRow{}}
		if found, err := configs.On(d.Topic, nil); err == nil {
			v.Configs = configRows(found.Configs, true)
		}
		for _, p := range d.Partitions.Sorted() {
			pv := viewOf(p, starts, ends, sizeOn(dirs, p))
			v.Partitions = append(v.Partitions, pv)
			v.SizeBytes += max(pv.SizeBytes, 0)
			v.Records += max(pv.End, 0) - max(pv.Start, 0)
		}
		views = append(views, v)
		tables = append(tables, v.tables()...)
	}
	return c.t.show(views, tables...)
}

func viewOf(p kadm.PartitionDetail, starts, ends kadm.ListedOffsets, sizeBytes int64) partitionView {
	v := partitionView{
		Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Offline: p.OfflineReplicas, Start: -1, End: -1, SizeBytes: sizeBytes,
	}
	if v.Offline == nil {
		v.Offline = []int32{}
	}
	if o, ok := starts.Lookup(p.Topic, p.Partition); ok && o.Err == nil {
		v.Start = o.Offset
	}
	if o, ok := ends.Lookup(p.Topic, p.Partition); ok && o.Err == nil {
		v.End = o.Offset
	}
	if p.Err != nil {
		v.Error = p.Err.Error()
	}
	return v
}

// sizeOn is the size of a partition's log on its leader; -1 where it is not known.
func sizeOn(dirs kadm.DescribedAllLogDirs, p kadm.PartitionDetail) int64 {
	size := int64(-1)
	dirs[p.Leader].Each(func(d kadm.DescribedLogDir) {
		if found, ok := d.Topics[p.Topic][p.Partition]; ok && !found.IsFuture {
			size = found.Size
		}
	})
	return size
}

// tables are a topic's two, what it is and its partitions.
func (v topicView) tables() []*table {
	title := fmt.Sprintf("%s  %s, %s, %s, id %s", v.Name, count(len(v.Partitions), "partition"), count(int(v.Records), "offset"), sizeText(v.SizeBytes), v.ID)
	tb := newTable(title, "#partition", "#leader", "+#epoch", "replicas", "isr", "#start", "#end", "#size", "state")
	for _, p := range v.Partitions {
		var state any = ""
		if text := p.state(); text != "" {
			state = bad(text)
		}
		tb.row(p.Partition, p.Leader, p.Epoch, ids(p.Replicas), ids(p.ISR), known64(p.Start, ""), known64(p.End, ""), known64(p.SizeBytes, sizeText(p.SizeBytes)), state)
	}
	out := []*table{tb}
	if len(v.Configs) > 0 {
		out = append(out, configTable(v.Configs))
	}
	return out
}

// state says what is not healthy.
func (p partitionView) state() string {
	switch {
	case p.Leader < 0:
		return "no leader"
	case len(p.Offline) > 0:
		return "offline on " + ids(p.Offline)
	case len(p.ISR) < len(p.Replicas):
		return "not all in sync"
	}
	return p.Error
}

// known64 is text, or the number without one; ? where it is not known.
func known64(n int64, text string) string {
	switch {
	case n < 0:
		return "?"
	case text != "":
		return text
	}
	return fmt.Sprint(n)
}
