package handlers

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/coordinator"
	"grete/coordinator/group"
	"grete/coordinator/txn"
	"grete/protocol"
)

// Markers ends transactions on this broker's partitions: for its own coordinator, and for those of others by
// WriteTxnMarkers.
type Markers struct {
	Image    func() *metadata.Image
	Replicas *replica.Manager
	Groups   *group.Service
}

// WriteMarkers calls done with an error or nil for each partition, in order (txn.MarkerWriter). Partitions that are no
// more need no marker.
func (w *Markers) WriteMarkers(m coordinator.Marker, partitions []txn.Partition, done func([]error)) {
	g := newGather(len(partitions), done)
	im := w.Image()
	for i, p := range partitions {
		if !has(im.Topic(p.Topic), p.Index) {
			g.set(i, nil)
			continue
		}
		w.write(m, p, func(err error) { g.set(i, err) })
	}
}

// write ends a transaction on one partition that this broker leads. Markers of __consumer_offsets go through the group
// coordinator, for they decide about its offsets.
func (w *Markers) write(m coordinator.Marker, p txn.Partition, done func(error)) {
	if p.Topic == offsetsTopic {
		w.Groups.EndTransaction(p.Index, m, func(err error) { done(groupMarkerError(err)) })
		return
	}
	part, err := w.Replicas.Partition(p.Topic, p.Index)
	if err != nil {
		done(err)
		return
	}
	part.WriteMarker(m, done)
}

// groupMarkerError: that the group coordinator is not ready means to a transaction coordinator that the partition's
// leader is not.
func groupMarkerError(err error) error {
	switch coordinator.Code(err) {
	case kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.NotCoordinator.Code:
		return kerr.NotLeaderForPartition
	}
	return err
}

// WriteTxnMarkers serves versions 1–2, for coordinators of other brokers and for kafka-transactions.
func WriteTxnMarkers(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.WriteTxnMarkersRequest)
	req.Markers = slices.DeleteFunc(req.Markers, func(m kmsg.WriteTxnMarkersRequestMarker) bool { return len(m.Topics) == 0 })
	g := newGather(len(req.Markers), func(markers []kmsg.WriteTxnMarkersResponseMarker) {
		resp := kmsg.NewPtrWriteTxnMarkersResponse()
		resp.Version, resp.Markers = r.Version, markers
		r.Respond(resp)
	})
	for i := range req.Markers {
		m := &req.Markers[i]
		b.Markers.writeRequested(m, func(errs []error) { g.set(i, markerResponse(m, errs)) })
	}
}

func (w *Markers) writeRequested(m *kmsg.WriteTxnMarkersRequestMarker, done func([]error)) {
	marker := coordinator.Marker{
		Producer:         coordinator.Producer{ID: m.ProducerID, Epoch: m.ProducerEpoch},
		CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Committed, TransactionVersion: m.TransactionVersion,
	}
	n := 0
	for _, t := range m.Topics {
		n += len(t.Partitions)
	}
	g := newGather(n, done)
	i := 0
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			at := i
			w.write(marker, txn.Partition{Topic: t.Topic, Index: p}, func(err error) { g.set(at, err) })
			i++
		}
	}
}

func markerResponse(m *kmsg.WriteTxnMarkersRequestMarker, errs []error) kmsg.WriteTxnMarkersResponseMarker {
	rm := kmsg.WriteTxnMarkersResponseMarker{ProducerID: m.ProducerID}
	i := 0
	for _, t := range m.Topics {
		rt := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			code := codeOf(errs[i])
			if errors.Is(errs[i], replica.ErrNotLeader) {
				code = kerr.UnknownTopicOrPartition.Code // Kafka looks for the log first
			}
			rt.Partitions = append(rt.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p, ErrorCode: code})
			i++
		}
		rm.Topics = append(rm.Topics, rt)
	}
	return rm
}
