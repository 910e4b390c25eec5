package tool

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (t *tool) txnCommand() *cobra.Command {
	var states []string
	list := &cobra.Command{
		Use: "list", Short: "List transactional ids and the state of their transactions", Args: cobra.NoArgs,
		RunE: t.asks(func(ctx context.Context, c *cluster, _ []string) error { return c.listTxns(ctx, states) }),
	}
	list.Flags().StringSliceVar(&states, "state", nil, "only those in these `states` (Ongoing, CompleteCommit, …)")
	describe := &cobra.Command{
		Use: "describe <transactional id>…", Short: "Show transactions: since when, and in which partitions", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.describeTxns(ctx, args) }),
	}
	producers := &cobra.Command{
		Use: "producers <topic[:partitions]>…", Short: "Show who produces to partitions, and which transactions are open there", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.listProducers(ctx, args) }),
	}
	t.shows(list, describe, producers)
	describe.ValidArgsFunction = t.completes(0, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		found, err := adm.ListTransactions(ctx, nil, nil)
		return found.TransactionalIDs(), err
	})
	producers.ValidArgsFunction = t.completes(0, topicNames)
	return group("txn", "List and describe transactions and producers", list, describe, producers)
}

type txnRow struct {
	ID          string `json:"transactionalId"`
	State       string `json:"state"`
	ProducerID  int64  `json:"producerId"`
	Coordinator int32  `json:"coordinator"`
}

func (c *cluster) listTxns(ctx context.Context, states []string) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	found, err := adm.ListTransactions(ctx, nil, states)
	if err != nil {
		return err
	}
	rows, tb := []txnRow{}, newTable("", "transactional id", "state", "#producer id", "#coordinator")
	for _, x := range found.Sorted() {
		rows = append(rows, txnRow{x.TxnID, x.State, x.ProducerID, x.Coordinator})
		tb.row(x.TxnID, x.State, x.ProducerID, x.Coordinator)
	}
	return c.t.show(rows, tb)
}

type txnView struct {
	txnRow
	Epoch     int16              `json:"producerEpoch"`
	TimeoutMs int32              `json:"timeoutMs"`
	StartMs   int64              `json:"startMs"` // ms since 1970, -1 without a transaction
	Topics    map[string][]int32 `json:"partitions"`
}

func (c *cluster) describeTxns(ctx context.Context, names []string) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	found, err := adm.DescribeTransactions(ctx, names...)
	if err != nil {
		return err
	}
	views, tb := []txnView{}, newTable("", "transactional id", "state", "#producer id", "#epoch", "#coordinator", "#timeout ms", "since", "partitions")
	for _, x := range found.Sorted() {
		if x.Err != nil {
			return fmt.Errorf("transactional id %s: %w", x.TxnID, x.Err)
		}
		v := txnView{txnRow{x.TxnID, x.State, x.ProducerID, x.Coordinator}, x.ProducerEpoch, x.TimeoutMillis, x.StartTimestamp, listed(x.Topics)}
		views = append(views, v)
		tb.row(v.ID, v.State, v.ProducerID, v.Epoch, v.Coordinator, v.TimeoutMs, timeText(v.StartMs), assignedText(v.Topics))
	}
	return c.t.show(views, tb)
}

type producerRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	ID        int64  `json:"producerId"`
	Epoch     int16  `json:"producerEpoch"`
	Sequence  int32  `json:"lastSequence"`
	LastMs    int64  `json:"lastTimestampMs"`
	TxnStart  int64  `json:"transactionStartOffset"` // -1 where none is open
}

func (c *cluster) listProducers(ctx context.Context, args []string) error {
	within, _, err := c.places(ctx, args, offsetSpec{})
	if err != nil {
		return err
	}
	set := kadm.TopicsSet{}
	for topic, partitions := range within {
		for p := range partitions {
			set.Add(topic, p)
		}
	}
	found, err := c.adm.DescribeProducers(ctx, set)
	if err != nil {
		return err
	}
	rows := []producerRow{}
	var failed parts
	for _, partition := range found.SortedPartitions() {
		if partition.Err != nil {
			failed.add(fmt.Sprintf("%s-%d", partition.Topic, partition.Partition), "", partition.Err, partition.ErrMessage)
		}
		for _, p := range partition.ActiveProducers.Sorted() {
			rows = append(rows, producerRow{p.Topic, p.Partition, p.ProducerID, p.ProducerEpoch, p.LastSequence, p.LastTimestamp, p.CurrentTxnStartOffset})
		}
	}
	slices.SortStableFunc(rows, func(a, b producerRow) int { return int(a.Partition - b.Partition) })
	tb := newTable("", "topic", "#partition", "#producer id", "#epoch", "#last sequence", "last record", "#transaction from")
	for _, r := range rows {
		tb.row(r.Topic, r.Partition, r.ID, r.Epoch, r.Sequence, timeText(r.LastMs), dash(r.TxnStart))
	}
	if err := c.t.show(rows, tb); err != nil {
		return err
	}
	return failed.report(c.t)
}
