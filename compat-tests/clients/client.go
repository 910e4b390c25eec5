// Package clients holds stock Kafka clients of several languages to one scenario. Every client is driven by the
// same operations: those written in Go in process, the others by an agent of a few lines that reads operations as
// JSON lines and answers with JSON lines.
package clients

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Record is one record as every client can tell it; nil Key and Value are null.
type Record struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	TimeMs    int64       `json:"timeMs"`
	Key       []byte      `json:"key"`
	Value     []byte      `json:"value"`
	Headers   [][2]string `json:"headers"`
}

// Op is one operation:
//
//	create        Topic, Partitions
//	produce       Topic, Codec, Idempotent, Records (with their partitions and times); answers when all are
//	acknowledged
//	transact      TransactionalID, Topic, Records, Group, Offset, Commit: one transaction, which also commits Group's
//	offset of
//	              partition 0 of Topic; it is aborted unless Commit
//	consume       Topic, Partition, Offset, Count, Committed: without a group, from that offset; only what is
//	committed
//	join          Group, Topic, Member: a group member that reads from its committed offsets or the start
//	poll          Member, WaitMs: what came meanwhile, and the partitions assigned now
//	commit        Member: what it has polled
//	leave         Member
//	offsetForTime Topic, Partition, TimeMs
type Op struct {
	Op         string   `json:"op"`
	Topic      string   `json:"topic,omitempty"`
	Partitions int32    `json:"partitions,omitempty"`
	Codec      string   `json:"codec,omitempty"`
	Idempotent bool     `json:"idempotent,omitempty"`
	Records    []Record `json:"records,omitempty"`
	Partition  int32    `json:"partition"`
	Offset     int64    `json:"offset"`
	Count      int      `json:"count,omitempty"`
	Group      string   `json:"group,omitempty"`
	Member     string   `json:"member,omitempty"`
	WaitMs     int      `json:"waitMs,omitempty"`
	TimeMs     int64    `json:"timeMs,omitempty"`
	Commit     bool     `json:"commit,omitempty"`
	Committed  bool     `json:"committed,omitempty"`

	TransactionalID string `json:"transactionalId,omitempty"`
}

// Reply is an answer; Error is empty when the operation did what it says.
type Reply struct {
	Error    string   `json:"error,omitempty"`
	Records  []Record `json:"records,omitempty"`
	Assigned []int32  `json:"assigned,omitempty"`
	Offset   int64    `json:"offset"`
}

// Client is one stock client under test.
type Client interface {
	Do(Op) (Reply, error)
	Close() error
}

// agent is a client in another process.
type agent struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// opTimeout bounds an operation; an agent that takes longer is killed.
const opTimeout = time.Minute

const agentLineBytes = 4 << 20 // a 900 KB value in base64, with room

// startAgent runs command, which speaks operations on its standard input and output.
func startAgent(log io.Writer, name string, args ...string) (Client, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &agent{cmd: cmd, in: in, out: bufio.NewReaderSize(out, agentLineBytes)}, nil
}

func (a *agent) Do(op Op) (Reply, error) {
	hung := time.AfterFunc(opTimeout, func() { _ = a.cmd.Process.Kill() })
	defer hung.Stop()
	line, err := json.Marshal(op)
	if err != nil {
		return Reply{}, err
	}
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		return Reply{}, fmt.Errorf("agent: %w", err)
	}
	answer, err := a.out.ReadBytes('\n')
	if err != nil {
		return Reply{}, fmt.Errorf("agent answered %q: %w", answer, err)
	}
	var r Reply
	if err := json.Unmarshal(answer, &r); err != nil {
		return Reply{}, fmt.Errorf("agent answered %.200q: %w", answer, err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

func (a *agent) Close() error {
	_ = a.in.Close()
	return a.cmd.Wait()
}
