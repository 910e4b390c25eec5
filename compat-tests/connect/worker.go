// Package connect runs a Kafka Connect worker in distributed mode against the broker, with file connectors.
package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grete/compat-tests/kafka"
)

// worker is one Connect worker; a new one on the same broker goes on with the same connectors.
type worker struct {
	*kafka.Program
	url string
}

const restTimeout = 90 * time.Second

func startWorker(libs, dir, broker string, properties map[string]string) (*worker, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "worker.properties")
	if err := os.WriteFile(file, workerProperties(broker, addr, properties), 0o644); err != nil {
		return nil, err
	}
	p, err := kafka.StartJava(libs, filepath.Join(dir, "worker.log"), "org.apache.kafka.connect.cli.ConnectDistributed", file)
	return &worker{p, "http://" + addr}, err
}

func workerProperties(broker, addr string, more map[string]string) []byte {
	p := map[string]string{
		"bootstrap.servers": broker, "group.id": "connect", "listeners": "HTTP://" + addr,
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter",
		"config.storage.topic": "connect-configs", "offset.storage.topic": "connect-offsets", "status.storage.topic": "connect-status",
		"config.storage.replication.factor": "1", "offset.storage.replication.factor": "1", "status.storage.replication.factor": "1",
		"offset.storage.partitions": "3", "status.storage.partitions": "2", "offset.flush.interval.ms": "500",
		// The worker that was killed is missed soon, and its tasks are not held back for it.
		"session.timeout.ms": "3000", "heartbeat.interval.ms": "500", "scheduled.rebalance.max.delay.ms": "0",
		"consumer.auto.offset.reset": "earliest",
	}
	maps.Copy(p, more)
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, p[k])
	}
	return b.Bytes()
}

// rest calls the worker's REST interface until it answers with success: it does not while it starts or rebalances.
func (w *worker) rest(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	for {
		err := w.restOnce(ctx, method, path, in, out)
		if err == nil || w.Ended() {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", restTimeout, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (w *worker) restOnce(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s %s", method, path, resp.Status, answer)
	}
	return json.Unmarshal(answer, out)
}

// configure makes or changes a connector.
func (w *worker) configure(ctx context.Context, name string, config map[string]string) error {
	return w.rest(ctx, http.MethodPut, "/connectors/"+name+"/config", config, &struct{}{})
}

// states are those of a connector and its tasks, as RUNNING RUNNING.
func (w *worker) states(ctx context.Context, name string) (string, error) {
	type state struct{ State, Trace string }
	var s struct {
		Connector state
		Tasks     []state
	}
	err := w.rest(ctx, http.MethodGet, "/connectors/"+name+"/status", nil, &s)
	words := []string{s.Connector.State + s.Connector.Trace}
	for _, task := range s.Tasks {
		words = append(words, task.State+task.Trace)
	}
	return strings.Join(words, " "), err
}
