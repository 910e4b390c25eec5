package handlers

import (
	"context"
	"errors"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster"
	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/coordinator"
	"grete/internal/config"
	"grete/logstore"
	"grete/protocol"
	"grete/protocol/batch"
)

// codes maps the sentinels of rooms that do not know the protocol. An error that wraps a kerr.Error is that one. Nil is
// what a client can do nothing about: UNKNOWN_SERVER_ERROR.
var codes = []struct {
	err  error
	code *kerr.Error
}{
	{logstore.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{logstore.ErrOffline, kerr.KafkaStorageError},
	{logstore.ErrClosed, kerr.KafkaStorageError},
	{logstore.ErrBusy, kerr.KafkaStorageError},
	{logstore.ErrVerificationForgotten, kerr.NotEnoughReplicas},
	{logstore.ErrDuplicateLog, kerr.KafkaStorageError},
	{logstore.ErrMetaProperties, kerr.KafkaStorageError},
	{logstore.ErrTopicIDMismatch, kerr.InconsistentTopicID},
	{logstore.ErrNoSuchDir, kerr.LogDirNotFound},
	{logstore.ErrNameTooLong, kerr.InvalidTopicException},
	{logstore.ErrBatchTooLarge, kerr.RecordListTooLarge},
	{logstore.ErrOffsetOrder, nil},
	{logstore.ErrCorrupt, kerr.CorruptMessage},

	{batch.ErrShort, kerr.InvalidRecord},
	{batch.ErrCorrupt, kerr.CorruptMessage},
	{batch.ErrNoRecords, nil},
	{batch.ErrInflates, nil}, // compaction alone meets it

	{metadata.ErrUnapplicable, nil},
	{metadata.ErrMalformed, nil},
	{raftlog.ErrNotLeader, kerr.NotController},
	{raftlog.ErrStopped, kerr.NotController},
	{raftlog.ErrChangePending, kerr.RequestTimedOut},
	{raftlog.ErrNoRoom, kerr.KafkaStorageError},
	{raftlog.ErrDamaged, nil},
	{controller.ErrNotController, kerr.NotController},
	{controller.ErrStopped, kerr.NotController},
	{controller.ErrUnsupported, kerr.UnsupportedVersion},

	{coordinator.ErrCorrupt, kerr.CoordinatorNotAvailable},
	{ErrProducerIDsBusy, kerr.CoordinatorLoadInProgress},

	{config.ErrUnknownTopicConfig, kerr.InvalidConfig},
	{config.ErrUnknownGroupConfig, kerr.InvalidConfig},
	{config.ErrUnknownClientMetricsConfig, kerr.InvalidConfig},
	{config.ErrTieredStorage, kerr.InvalidConfig},

	{protocol.ErrMalformed, kerr.InvalidRequest},
	{protocol.ErrTooLarge, kerr.InvalidRequest},
	{protocol.ErrFrameTooLarge, kerr.InvalidRequest},
	{protocol.ErrUnsupported, kerr.UnsupportedVersion},
	{protocol.ErrNoVersion, kerr.UnsupportedVersion},
	{protocol.ErrServerClosed, kerr.NetworkException},
	{protocol.ErrNoAddress, kerr.NotController},
	{protocol.ErrLinkClosed, kerr.NotController},

	{cluster.ErrOtherCluster, kerr.InconsistentClusterID},
	{cluster.ErrNotProven, kerr.ClusterAuthorizationFailed},
	{cluster.ErrOtherExpect, nil},
	{cluster.ErrWrongNode, nil},

	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// codeOf is the one place that gives a room's error its Kafka code: 0 for nil, UNKNOWN_SERVER_ERROR for what nobody
// foresaw. What the operating system refuses is a storage error.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	for _, c := range codes {
		if errors.Is(err, c.err) && c.code != nil {
			return c.code.Code
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return kerr.KafkaStorageError.Code
	}
	return kerr.UnknownServerError.Code
}

// storageTrouble says for people why the disk refuses; nil where it does not. It names no path, which is none of a
// client's business.
func storageTrouble(err error) *string {
	for _, t := range []struct {
		err  error
		text string
	}{
		{syscall.ENOSPC, "The log directory has no space left."},
		{syscall.EDQUOT, "The log directory has no space left."},
		{syscall.EMFILE, "The broker is out of file descriptors."},
		{syscall.ENFILE, "The broker is out of file descriptors."},
		{logstore.ErrOffline, "The log directory is offline."},
		{logstore.ErrBusy, "Too many requests wait for the disk."},
	} {
		if errors.Is(err, t.err) {
			return &t.text
		}
	}
	return nil
}
