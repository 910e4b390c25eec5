package tools

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const consumed = "isolation.level=read_committed"

// TestTransactions looks at transactions with kafka-transactions, and has it find and abort one that hangs: a batch of
// a transaction that its coordinator knows nothing of, as brokers without verification let through (KIP-664).
func TestTransactions(t *testing.T) {
	k := newBenchWith(t, map[string]string{"transaction.partition.verification.enable": "false"})
	k.run("", topics, "--bootstrap-server", "{b}", "--create", "--topic", "t", "--partitions", "1")
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.b.Addr), kgo.TransactionalID("mine"), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	oneTransaction(ctx, t, cl)
	k.want(k.run("", transactions, "--bootstrap-server", "{b}", "list"), "mine", "CompleteCommit")
	k.want(k.run("", transactions, "--bootstrap-server", "{b}", "describe", "--transactional-id", "mine"), "CompleteCommit", "40000")
	k.want(k.run("", transactions, "--bootstrap-server", "{b}", "describe-producers", "--topic", "t", "--partition", "0"), "None")

	hang(ctx, t, k.b.Addr)
	found := k.run("", transactions, "--bootstrap-server", "{b}", "find-hanging", "--topic", "t")
	k.want(found, "777000")
	k.run("", transactions, "--bootstrap-server", "{b}", "abort", "--topic", "t", "--partition", "0", "--start-offset", "2")
	if again := k.run("", transactions, "--bootstrap-server", "{b}", "find-hanging", "--topic", "t"); len(again) >= len(found) {
		t.Fatalf("still hanging:\n%s", again)
	}
	oneTransaction(ctx, t, cl)
	out := k.run("", consoleConsume, "--bootstrap-server", "{b}", "--topic", "t", "--partition", "0", "--offset", "earliest",
		"--command-property", consumed, "--max-messages", "2")
	k.want(out, "hello\nhello\n")
	k.forceEnd(ctx, cl)
}

// forceEnd has kafka-transactions end a transaction that is open at its coordinator.
func (k *bench) forceEnd(ctx context.Context, cl *kgo.Client) {
	k.t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		k.t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, kgo.StringRecord("never")).FirstErr(); err != nil {
		k.t.Fatal(err)
	}
	k.want(k.run("", transactions, "--bootstrap-server", "{b}", "describe", "--transactional-id", "mine"), "Ongoing", "t-0")
	k.run("", transactions, "--bootstrap-server", "{b}", "forceTerminateTransaction", "--transactionalId", "mine")
	k.want(k.run("", transactions, "--bootstrap-server", "{b}", "describe", "--transactional-id", "mine"), "Empty")
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err == nil {
		k.t.Fatal("a transaction that was ended by force could be committed")
	}
}

func oneTransaction(ctx context.Context, t *testing.T, cl *kgo.Client) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

// hang writes a transactional batch of producer 777000 that is an hour old.
func hang(ctx context.Context, t *testing.T, addr string) {
	t.Helper()
	at := time.Now().Add(-time.Hour).UnixMilli()
	record := []byte{0, 0, 0, 1, 10}
	record = append(record, "stuck"...)
	record = append(record, 0)
	record = append(binary.AppendVarint(nil, int64(len(record))), record...)
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: 1 << 4, FirstTimestamp: at, MaxTimestamp: at, ProducerID: 777000,
		NumRecords: 1, Records: record,
	}
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.TransactionID = -1, 5000, kmsg.StringPtr("nobody")
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = b.AppendTo(nil)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	req.Version = 9
	raw = kmsg.NewRequestFormatter(kmsg.FormatterClientID("hang")).AppendRequest(nil, req, 1)
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = req.Version
	if err := resp.ReadFrom(exchange(ctx, t, addr, raw)[5:]); err != nil { // correlation id, tags
		t.Fatal(err)
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatal("produce: error " + strconv.Itoa(int(code)))
	}
}

// exchange sends a framed request and returns the frame that answers it.
func exchange(ctx context.Context, t *testing.T, addr string, request []byte) []byte {
	t.Helper()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		t.Fatal(err)
	}
	return frame
}
