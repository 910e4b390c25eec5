package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Recorder writes operations as JSON lines; many goroutines may record at once.
type Recorder struct {
	mu  sync.Mutex
	buf *bufio.Writer
	out io.Closer
	err error // the first one; reported by Close
}

// Create starts a history in a new file.
func Create(path string) (*Recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Recorder{buf: bufio.NewWriter(f), out: f}, nil
}

// Record appends an operation that has ended.
func (r *Recorder) Record(op Op) {
	line, err := json.Marshal(op)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.buf.Write(append(line, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// Close says whether the history is whole on disk.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err, r.buf.Flush(), r.out.Close())
}

// Load reads a history.
func Load(path string) ([]Op, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var ops []Op
	dec := json.NewDecoder(bufio.NewReader(f))
	for {
		var op Op
		if err := dec.Decode(&op); errors.Is(err, io.EOF) {
			return ops, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: operation %d: %w", path, len(ops)+1, err)
		}
		if err := op.valid(); err != nil {
			return nil, fmt.Errorf("%s: operation %d: %w", path, len(ops)+1, err)
		}
		ops = append(ops, op)
	}
}

func (op *Op) valid() error {
	switch op.Kind {
	case Client, Poll, Assign, Crash, Fault:
		return nil
	case Send:
		if op.At == nil {
			return errors.New("a send of nothing")
		}
	case End:
		if op.Txn == "" {
			return errors.New("the end of no transaction")
		}
	case Commit, Final:
	default:
		return fmt.Errorf("unknown kind %q", op.Kind)
	}
	switch op.Outcome {
	case OK, Fail, Unknown:
		return nil
	}
	return fmt.Errorf("%s with unknown outcome %q", op.Kind, op.Outcome)
}
