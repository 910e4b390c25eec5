package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func (t *tool) brokerCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List brokers with their log directories, what they hold and what they lead", Args: cobra.NoArgs,
		RunE: t.asks(func(ctx context.Context, c *cluster, _ []string) error { return c.listBrokers(ctx) }),
	}
	t.shows(list)
	return group("broker", "List brokers", list)
}

type brokerRow struct {
	ID         int32  `json:"id"`
	Host       string `json:"host"`
	Port       int32  `json:"port"`
	Rack       string `json:"rack,omitempty"`
	Controller bool   `json:"controller"`
	Leads      int    `json:"leads"`
	Replicas   int    `json:"replicas"`
	NotInSync  int    `json:"notInSync"` // replicas
	SizeBytes  int64  `json:"sizeBytes"` // -1 where it is not known
	FreeBytes  int64  `json:"freeBytes"` // of the fullest directory, -1 where it is not known
	Error      string `json:"error,omitempty"`
}

func (c *cluster) listBrokers(ctx context.Context) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	m, err := adm.Metadata(ctx)
	if err != nil {
		return err
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		dirs = nil // it needs more rights than the rest
	}
	rows, tb := []brokerRow{}, newTable("", "#id", "address", "rack", "controller", "#leads", "#replicas", "#not in sync", "#size", "#free", "error")
	for _, b := range m.Brokers {
		r := brokerRow{ID: b.NodeID, Host: b.Host, Port: b.Port, Controller: b.NodeID == m.Controller, SizeBytes: -1, FreeBytes: -1}
		if b.Rack != nil {
			r.Rack = *b.Rack
		}
		m.Topics.EachPartition(func(p kadm.PartitionDetail) { r.count(p) })
		dirs[b.NodeID].Each(func(d kadm.DescribedLogDir) { r.holds(d) })
		rows = append(rows, r)
		var behind, failed any = "", bad(r.Error)
		if r.NotInSync > 0 {
			behind = bad(fmt.Sprint(r.NotInSync))
		}
		star := map[bool]string{true: "*"}[r.Controller]
		tb.row(r.ID, fmt.Sprintf("%s:%d", r.Host, r.Port), r.Rack, star, r.Leads, r.Replicas, behind, known64(r.SizeBytes, sizeText(r.SizeBytes)), known64(r.FreeBytes, sizeText(r.FreeBytes)), failed)
	}
	return c.t.show(rows, tb)
}

// count counts a partition that the broker may have a replica of.
func (r *brokerRow) count(p kadm.PartitionDetail) {
	if p.Leader == r.ID {
		r.Leads++
	}
	if slices.Contains(p.Replicas, r.ID) {
		r.Replicas++
		if !slices.Contains(p.ISR, r.ID) {
			r.NotInSync++
		}
	}
}

// holds adds what a log directory has.
func (r *brokerRow) holds(d kadm.DescribedLogDir) {
	if d.Err != nil {
		r.Error = d.Dir + ": " + d.Err.Error()
		return
	}
	r.SizeBytes = max(r.SizeBytes, 0)
	for _, partitions := range d.Topics {
		for _, p := range partitions {
			r.SizeBytes += p.Size
		}
	}
	if d.UsableBytes >= 0 && (r.FreeBytes < 0 || d.UsableBytes < r.FreeBytes) {
		r.FreeBytes = d.UsableBytes
	}
}

func (t *tool) clusterCommand() *cobra.Command {
	describe := &cobra.Command{
		Use: "describe", Short: "Show what is not healthy, then brokers and counts", Args: cobra.NoArgs,
		RunE: t.asks(func(ctx context.Context, c *cluster, _ []string) error { return c.describeCluster(ctx) }),
	}
	t.shows(describe)
	return group("cluster", "Describe a cluster as a whole", describe)
}

func (t *tool) healthCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "health", Short: "Exit code 0 when all partitions have a leader and all replicas are in sync, 1 with what is wrong otherwise", Args: cobra.NoArgs,
		RunE: t.asks(func(ctx context.Context, c *cluster, _ []string) error {
			v, err := c.clusterView(ctx)
			switch {
			case err != nil:
				return err
			case len(v.Unhealthy) > 0:
				return errors.New(v.summary())
			}
			fmt.Fprintf(t.Stdout, "healthy: %s, %s\n", count(len(v.Brokers), "broker"), count(v.Partitions, "partition"))
			return nil
		}),
	}
	return cmd
}

type clusterView struct {
	ID         string        `json:"id"`
	Controller int32         `json:"controller"`
	Unhealthy  []trouble     `json:"unhealthy"`
	Brokers    []brokerPlace `json:"brokers"`
	Topics     int           `json:"topics"`
	Partitions int           `json:"partitions"`
	Replicas   int           `json:"replicas"`
}

type brokerPlace struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

// trouble is one partition, or one other thing, that is not healthy.
type trouble struct {
	What   string `json:"what"`
	State  string `json:"state"`
	Leader int32  `json:"leader"`
	ISR    string `json:"isr,omitempty"`
}

func (c *cluster) clusterView(ctx context.Context) (clusterView, error) {
	adm, err := c.admin()
	if err != nil {
		return clusterView{}, err
	}
	m, err := adm.Metadata(ctx)
	if err != nil {
		return clusterView{}, err
	}
	v := clusterView{ID: m.Cluster, Controller: m.Controller, Unhealthy: []trouble{}, Brokers: []brokerPlace{}, Topics: len(m.Topics)}
	for _, b := range m.Brokers {
		v.Brokers = append(v.Brokers, brokerPlace{b.NodeID, b.Host, b.Port})
	}
	if m.Controller < 0 {
		v.Unhealthy = append(v.Unhealthy, trouble{"controller", "there is none", -1, ""})
	}
	for _, d := range m.Topics.Sorted() {
		for _, p := range d.Partitions.Sorted() {
			v.Partitions++
			v.Replicas += len(p.Replicas)
			if state := viewOf(p, nil, nil, -1).state(); state != "" {
				v.Unhealthy = append(v.Unhealthy, trouble{fmt.Sprintf("%s-%d", d.Topic, p.Partition), state, p.Leader, ids(p.ISR) + " of " + ids(p.Replicas)})
			}
		}
	}
	slices.SortStableFunc(v.Unhealthy, func(a, b trouble) int { return int(min(a.Leader, 0)) - int(min(b.Leader, 0)) })
	return v, nil
}

// summary counts the states of what is not healthy.
func (v clusterView) summary() string {
	states := map[string]int{}
	for _, u := range v.Unhealthy {
		states[u.State]++
	}
	var out []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		out = append(out, fmt.Sprintf("%d %s", states[state], state))
	}
	return fmt.Sprintf("not healthy: of %s %s (grete cluster describe)", count(v.Partitions, "partition"), strings.Join(out, ", "))
}

func (c *cluster) describeCluster(ctx context.Context) error {
	v, err := c.clusterView(ctx)
	if err != nil {
		return err
	}
	var tables []*table
	if len(v.Unhealthy) > 0 {
		tb := newTable("not healthy", "what", "state", "#leader", "isr")
		for _, u := range v.Unhealthy {
			tb.row(u.What, bad(u.State), dash(int64(u.Leader)), u.ISR)
		}
		tables = append(tables, tb)
	}
	tb := newTable(fmt.Sprintf("cluster %s  %s, %s, %s, %s", v.ID, count(len(v.Brokers), "broker"), count(v.Topics, "topic"), count(v.Partitions, "partition"), count(v.Replicas, "replica")),
		"#broker", "address", "controller")
	for _, b := range v.Brokers {
		tb.row(b.ID, fmt.Sprintf("%s:%d", b.Host, b.Port), map[bool]string{true: "*"}[b.ID == v.Controller])
	}
	return c.t.show(v, append(tables, tb)...)
}

func (t *tool) quorumCommand() *cobra.Command {
	describe := &cobra.Command{
		Use: "describe", Short: "Show the leader of the metadata log, its voters and observers, and how far each is", Args: cobra.NoArgs,
		RunE: t.asks(func(ctx context.Context, c *cluster, _ []string) error { return c.describeQuorum(ctx) }),
	}
	t.shows(describe)
	return group("quorum", "Describe the quorum of controllers", describe)
}

type quorumView struct {
	Leader        int32        `json:"leader"`
	Epoch         int32        `json:"epoch"`
	HighWatermark int64        `json:"highWatermark"`
	Nodes         []quorumNode `json:"nodes"`
}

type quorumNode struct {
	ID       int32  `json:"id"`
	Role     string `json:"role"`
	End      int64  `json:"logEndOffset"`
	Lag      int64  `json:"lag"`
	CaughtUp int64  `json:"lastCaughtUpMs"` // ms since 1970, -1 where it is not known
}

func (c *cluster) describeQuorum(ctx context.Context) error {
	cl, err := c.main()
	if err != nil {
		return err
	}
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerrOf(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errors.New("the answer is about something else")
	}
	p := resp.Topics[0].Partitions[0]
	if err := kerrOf(p.ErrorCode, p.ErrorMessage); err != nil {
		return err
	}
	v := quorumView{Leader: p.LeaderID, Epoch: p.LeaderEpoch, HighWatermark: p.HighWatermark, Nodes: []quorumNode{}}
	end := p.HighWatermark
	for _, n := range p.CurrentVoters {
		end = max(end, n.LogEndOffset)
	}
	add := func(role string, nodes []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
		for _, n := range nodes {
			as := role
			if n.ReplicaID == p.LeaderID {
				as = "leader"
			}
			v.Nodes = append(v.Nodes, quorumNode{n.ReplicaID, as, n.LogEndOffset, end - n.LogEndOffset, n.LastCaughtUpTimestamp})
		}
	}
	add("voter", p.CurrentVoters)
	add("observer", p.Observers)
	tb := newTable(fmt.Sprintf("leader %d in epoch %d, high watermark %d", v.Leader, v.Epoch, v.HighWatermark), "#node", "role", "#log end offset", "#lag", "last caught up")
	for _, n := range v.Nodes {
		tb.row(n.ID, n.Role, n.End, n.Lag, timeText(n.CaughtUp))
	}
	return c.t.show(v, tb)
}

func (t *tool) apiCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "api [<broker>]", Short: "Show which requests a broker takes, in which versions", Args: atMost(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.listAPIs(ctx, args) }),
	}
	t.shows(cmd)
	return cmd
}

type apiRow struct {
	Broker int32  `json:"broker"`
	Key    int16  `json:"key"`
	Name   string `json:"name"`
	Min    int16  `json:"min"`
	Max    int16  `json:"max"`
}

func (c *cluster) listAPIs(ctx context.Context, args []string) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	found, err := adm.ApiVersions(ctx)
	if err != nil {
		return err
	}
	rows, tables := []apiRow{}, []*table{}
	for _, b := range found.Sorted() {
		if len(args) > 0 && args[0] != fmt.Sprint(b.NodeID) {
			continue
		}
		if b.Err != nil {
			return fmt.Errorf("broker %d: %w", b.NodeID, b.Err)
		}
		tb := newTable(fmt.Sprintf("broker %d, %s", b.NodeID, guessed(b)), "#key", "request", "#min", "#max")
		b.EachKeySorted(func(key, lowest, highest int16) {
			rows = append(rows, apiRow{b.NodeID, key, kmsg.NameForKey(key), lowest, highest})
			tb.row(key, kmsg.NameForKey(key), lowest, highest)
		})
		tables = append(tables, tb)
	}
	if len(tables) == 0 {
		return fmt.Errorf("there is no broker %s: %w", args[0], kerr.BrokerNotAvailable)
	}
	return c.t.show(rows, tables...)
}

// guessed is the version of Kafka that has the same requests.
func guessed(b kadm.BrokerApiVersions) string {
	return "requests of Kafka " + strings.TrimPrefix(b.VersionGuess(kversion.SkipKeys(4, 5, 6, 7)), "v")
}
