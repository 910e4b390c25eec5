package handlers

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster"
	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/cluster/replica"
	"grete/coordinator"
	"grete/internal/config"
	"grete/logstore"
	"grete/protocol"
	"grete/protocol/batch"
)

// sentinels are all exported error variables of the rooms below handlers, with the code that a client must get.
var sentinels = map[string]struct {
	err  error
	code int16
}{
	"logstore.ErrOffsetOutOfRange":      {logstore.ErrOffsetOutOfRange, 1},
	"logstore.ErrOffline":               {logstore.ErrOffline, 56},
	"logstore.ErrClosed":                {logstore.ErrClosed, 56},
	"logstore.ErrBusy":                  {logstore.ErrBusy, 56},
	"logstore.ErrVerificationForgotten": {logstore.ErrVerificationForgotten, 19},
	"logstore.ErrDuplicateLog":          {logstore.ErrDuplicateLog, 56},
	"logstore.ErrMetaProperties":        {logstore.ErrMetaProperties, 56},
	"logstore.ErrTopicIDMismatch":       {logstore.ErrTopicIDMismatch, 103},
	"logstore.ErrNoSuchDir":             {logstore.ErrNoSuchDir, 57},
	"logstore.ErrNameTooLong":           {logstore.ErrNameTooLong, 17},
	"logstore.ErrBatchTooLarge":         {logstore.ErrBatchTooLarge, 18},
	"logstore.ErrOffsetOrder":           {logstore.ErrOffsetOrder, -1},
	"logstore.ErrCorrupt":               {logstore.ErrCorrupt, 2},

	"protocol/batch.ErrShort":     {batch.ErrShort, 87},
	"protocol/batch.ErrCorrupt":   {batch.ErrCorrupt, 2},
	"protocol/batch.ErrNoRecords": {batch.ErrNoRecords, -1},
	"protocol/batch.ErrInflates":  {batch.ErrInflates, -1},

	"protocol.ErrMalformed":     {protocol.ErrMalformed, 42},
	"protocol.ErrTooLarge":      {protocol.ErrTooLarge, 42},
	"protocol.ErrFrameTooLarge": {protocol.ErrFrameTooLarge, 42},
	"protocol.ErrUnsupported":   {protocol.ErrUnsupported, 35},
	"protocol.ErrNoVersion":     {protocol.ErrNoVersion, 35},
	"protocol.ErrServerClosed":  {protocol.ErrServerClosed, 13},
	"protocol.ErrNoAddress":     {protocol.ErrNoAddress, 41},
	"protocol.ErrLinkClosed":    {protocol.ErrLinkClosed, 41},

	"cluster.ErrOtherCluster": {cluster.ErrOtherCluster, 104},
	"cluster.ErrNotProven":    {cluster.ErrNotProven, 31},
	"cluster.ErrOtherExpect":  {cluster.ErrOtherExpect, -1},
	"cluster.ErrWrongNode":    {cluster.ErrWrongNode, -1},

	"cluster/metadata.ErrUnapplicable":    {metadata.ErrUnapplicable, -1},
	"cluster/metadata.ErrMalformed":       {metadata.ErrMalformed, -1},
	"cluster/raftlog.ErrNotLeader":        {raftlog.ErrNotLeader, 41},
	"cluster/raftlog.ErrStopped":          {raftlog.ErrStopped, 41},
	"cluster/raftlog.ErrChangePending":    {raftlog.ErrChangePending, 7},
	"cluster/raftlog.ErrNoRoom":           {raftlog.ErrNoRoom, 56},
	"cluster/raftlog.ErrDamaged":          {raftlog.ErrDamaged, -1},
	"cluster/controller.ErrNotController": {controller.ErrNotController, 41},
	"cluster/controller.ErrStopped":       {controller.ErrStopped, 41},
	"cluster/controller.ErrUnsupported":   {controller.ErrUnsupported, 35},

	"cluster/replica.ErrUnknownTopicOrPartition":     {replica.ErrUnknownTopicOrPartition, 3},
	"cluster/replica.ErrUnknownTopicID":              {replica.ErrUnknownTopicID, 100},
	"cluster/replica.ErrNotLeader":                   {replica.ErrNotLeader, 6},
	"cluster/replica.ErrFencedLeaderEpoch":           {replica.ErrFencedLeaderEpoch, 74},
	"cluster/replica.ErrUnknownLeaderEpoch":          {replica.ErrUnknownLeaderEpoch, 75},
	"cluster/replica.ErrOffline":                     {replica.ErrOffline, 56},
	"cluster/replica.ErrNotEnoughReplicas":           {replica.ErrNotEnoughReplicas, 19},
	"cluster/replica.ErrNotEnoughReplicasAfterWrite": {replica.ErrNotEnoughReplicasAfterWrite, 20},
	"cluster/replica.ErrOffsetOutOfRange":            {replica.ErrOffsetOutOfRange, 1},
	"cluster/replica.ErrOffsetNotAvailable":          {replica.ErrOffsetNotAvailable, 78},
	"cluster/replica.ErrNegativeSize":                {replica.ErrNegativeSize, -1},
	"cluster/replica.ErrUnknownLogDir":               {replica.ErrUnknownLogDir, 57},
	"cluster/replica.ErrTopicTooLong":                {replica.ErrTopicTooLong, 17},
	"cluster/replica.ErrPolicyViolation":             {replica.ErrPolicyViolation, 44},

	"coordinator.ErrNotCoordinator": {coordinator.ErrNotCoordinator, 16},
	"coordinator.ErrLoading":        {coordinator.ErrLoading, 14},
	"coordinator.ErrOverloaded":     {coordinator.ErrOverloaded, 14},
	"coordinator.ErrCommitTimeout":  {coordinator.ErrCommitTimeout, 15},
	"coordinator.ErrClosed":         {coordinator.ErrClosed, 15},
	"coordinator.ErrCorrupt":        {coordinator.ErrCorrupt, 15},

	"internal/config.ErrUnknownTopicConfig":         {config.ErrUnknownTopicConfig, 40},
	"internal/config.ErrUnknownGroupConfig":         {config.ErrUnknownGroupConfig, 40},
	"internal/config.ErrUnknownClientMetricsConfig": {config.ErrUnknownClientMetricsConfig, 40},
	"internal/config.ErrTieredStorage":              {config.ErrTieredStorage, 40},

	"handlers.ErrProducerIDsBusy": {ErrProducerIDsBusy, 14},
}

func TestEverySentinelHasItsCode(t *testing.T) {
	for name, s := range sentinels {
		for _, err := range []error{s.err, fmt.Errorf("somewhere: %w", s.err), errors.Join(errors.New("and"), s.err)} {
			if got := codeOf(err); got != s.code {
				t.Errorf("%s: code %d, want %d", name, got, s.code)
			}
		}
	}
	for err, want := range map[error]int16{
		nil: 0, errors.New("unforeseen"): -1, kerr.InvalidTimestamp: 32, &batch.Error{Code: kerr.InvalidRecord}: 87,
		&replica.Error{Err: replica.ErrNotLeader}: 6, context.DeadlineExceeded: 7, context.Canceled: 7,
		&fs.PathError{Op: "write", Err: syscall.ENOSPC}: 56, syscall.EIO: 56,
	} {
		if got := codeOf(err); got != want {
			t.Errorf("%v: code %d, want %d", err, got, want)
		}
	}
}

// The table above is whole: a new sentinel must be given a code.
func TestNoSentinelIsForgotten(t *testing.T) {
	found := 0
	for _, root := range []string{"logstore", "protocol", "cluster", "coordinator", "internal/config", "handlers"} {
		for name := range exportedErrors(t, root) {
			found++
			if _, ok := sentinels[name]; !ok {
				t.Errorf("%s has no code in codeOf's test", name)
			}
		}
	}
	if found < len(sentinels) {
		t.Errorf("found %d sentinels in the source, the table has %d: the search is broken or the table is stale", found, len(sentinels))
	}
}

// exportedErrors are the package-level variables named Err… below root, as dir.Name.
func exportedErrors(t *testing.T, root string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("..", filepath.Dir(path))
		if err != nil || strings.Contains(dir, "testdata") || strings.Contains(dir, "protocol/internal") {
			return err
		}
		for _, decl := range file.Decls {
			for _, name := range errorNames(decl) {
				out[dir+"."+name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func errorNames(decl ast.Decl) []string {
	g, ok := decl.(*ast.GenDecl)
	if !ok || g.Tok != token.VAR {
		return nil
	}
	var out []string
	for _, spec := range g.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			if strings.HasPrefix(name.Name, "Err") {
				out = append(out, name.Name)
			}
		}
	}
	return out
}

func TestStorageTroubleIsTold(t *testing.T) {
	for err, want := range map[error]string{
		&fs.PathError{Op: "write", Path: "/data/t-0", Err: syscall.ENOSPC}:                   "The log directory has no space left.",
		&fs.PathError{Op: "open", Path: "/data/t-0", Err: syscall.EMFILE}:                    "The broker is out of file descriptors.",
		fmt.Errorf("append: %w: /data: %w", logstore.ErrOffline, errors.New("input/output")): "The log directory is offline.",
		kerr.NotLeaderForPartition: "",
	} {
		got := storageTrouble(err)
		if (got != nil) != (want != "") || got != nil && *got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
