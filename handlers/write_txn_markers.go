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

// Markers ends transactions: for this broker's coordinator on all partitions, for those of others, by WriteTxnMarkers,
// on what this broker leads.
type Markers struct {
	NodeID   int32
	Image    func() *metadata.Image
	Replicas *replica.Manager
	Groups   *group.Service
	Remote   *RemoteMarkers
}

// WriteMarkers calls done with an error or nil for each partition, in order (txn.MarkerWriter). Partitions that are no
// more need no marker.
func (w *Markers) WriteMarkers(m coordinator.Marker, partitions []txn.Partition, done func([]error)) {
	g := newGather(len(partitions), done)
	im := w.Image()
	elsewhere := map[int32][]int{} // by leader, places in partitions
	for i, p := range partitions {
		t := im.Topic(p.Topic)
		if !has(t, p.Index) {
			g.set(i, nil)
			continue
		}
		leader := t.Partitions[p.Index].Leader
		if leader >= 0 && leader != w.NodeID {
			elsewhere[leader] = append(elsewhere[leader], i)
			continue
		}
		w.write(m, p, func(err error) { g.set(i, err) })
	}
	for leader, places := range elsewhere {
		w.sendTo(leader, m, partitions, places, g)
	}
}

func (w *Markers) sendTo(leader int32, m coordinator.Marker, partitions []txn.Partition, places []int, g *gather[error]) {
	s := &markerSend{marker: m, done: func(errs []error) {
		for at, i := range places {
			g.set(i, errs[at])
		}
	}}
	for _, i := range places {
		s.partitions = append(s.partitions, partitions[i])
	}
	w.Remote.send(leader, s)
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
