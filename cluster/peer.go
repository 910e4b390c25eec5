package cluster

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"
	"github.com/twmb/franz-go/pkg/kbin"

	"grete/internal/uuid"
)

// Peer is a node as it describes itself to others by gossip. Nothing of it is proven.
type Peer struct {
	NodeID      int32
	ClusterID   string // "": it knows none yet
	Incarnation uuid.UUID
	Roles       Roles
	// Controller and Broker are host:port of its first controller listener and of its inter-broker listener; "" where
	// there is none.
	Controller, Broker string
}

// Roles are process.roles.
type Roles int8

// The roles, which may be added.
const (
	BrokerRole Roles = 1 << iota
	ControllerRole
)

// name is what memberlist knows the node by, so that two nodes of one id conflict.
func (p Peer) name() string { return fmt.Sprint("node-", p.NodeID) }

func byNodeID(a, b Peer) int { return cmp.Compare(a.NodeID, b.NodeID) }

// peerVersion leads the encoding.
const peerVersion = 0

var (
	errNoPeer  = errors.New("not a description of a node")
	errTooLong = fmt.Errorf("the node's host names do not fit into %d bytes of gossip", memberlist.MetaMaxSize)
)

// encode makes the metadata that memberlist carries.
func (p Peer) encode() ([]byte, error) {
	dst := kbin.AppendInt32(kbin.AppendInt8(nil, peerVersion), p.NodeID)
	dst = kbin.AppendUuid(kbin.AppendString(dst, p.ClusterID), p.Incarnation)
	dst = kbin.AppendInt8(dst, int8(p.Roles))
	dst = kbin.AppendString(kbin.AppendString(dst, p.Controller), p.Broker)
	if len(dst) > memberlist.MetaMaxSize {
		return nil, errTooLong
	}
	return dst, nil
}

// decodePeer reads what a node of that name says of itself.
func decodePeer(name string, meta []byte) (Peer, error) {
	if len(meta) > memberlist.MetaMaxSize {
		return Peer{}, errNoPeer
	}
	b := kbin.Reader{Src: meta}
	if b.Int8() != peerVersion {
		return Peer{}, errNoPeer
	}
	p := Peer{NodeID: b.Int32(), ClusterID: b.String(), Incarnation: b.Uuid(), Roles: Roles(b.Int8()), Controller: b.String(), Broker: b.String()}
	if b.Complete() != nil || len(b.Src) > 0 || p.NodeID < 0 || p.name() != name {
		return Peer{}, errNoPeer
	}
	return p, nil
}
