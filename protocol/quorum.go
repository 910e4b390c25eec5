package protocol

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests of our own, which nodes send each other and nobody else serves (docs/adr/0005, docs/adr/0009): on the
// CONTROLLER listener, and Hello and Witness on those for clients, where they are not announced. Their keys are far
// above Kafka's. All have version 0, which is not flexible.
const (
	RaftKey    = int16(1000)
	ForwardKey = int16(1001)
	FormKey    = int16(1002)
	JoinKey    = int16(1003)
	HelloKey   = int16(1004)
	VouchKey   = int16(1005)
	WitnessKey = int16(1006)
)

// isOwn tells our requests, which nobody announces: their versions need no negotiation.
func isOwn(key int16) bool { return key >= RaftKey }

// ownSchemas are these requests in the form of schemas.txt.
const ownSchemas = `1000 Raft 0 none
 ClusterId string 0+
 From int32 0+
 To int32 0+
 FromDirectoryId uuid 0+
 ToDirectoryId uuid 0+
 MaxWaitMs int32 0+
 Continues int64 0+
 Rest int64 0+
 Messages []bytes 0+
1001 Forward 0 none
 ClusterId string 0+
 PrincipalType string 0+
 PrincipalName string 0+
 ApiKey int16 0+
 ApiVersion int16 0+
 Body bytes 0+
1002 Form 0 none
 NodeId int32 0+
 Seeds []string 0+
1003 Join 0 none
 ClusterId string 0+
 NodeId int32 0+
 DirectoryId uuid 0+
 Listeners []struct 0+
  Name string 0+
  Host string 0+
  Port uint16 0+
  SecurityProtocol int16 0+
1004 Hello 0 none
 ClusterId string 0+
 NodeId int32 0+
 Secret bytes 0+
 Nonce bytes 0+
 Proof bytes 0+
1005 Vouch 0 none
 Nonce bytes 0+
1006 Witness 0 none
 BrokerId int32 0+
 BrokerEpoch int64 0+
`

// newRequest makes an empty request of a key that has a schema.
func newRequest(key int16) kmsg.Request {
	switch key {
	case RaftKey:
		return &RaftRequest{}
	case ForwardKey:
		return &ForwardRequest{}
	case FormKey:
		return &FormRequest{}
	case JoinKey:
		return &JoinRequest{}
	case HelloKey:
		return &HelloRequest{}
	case VouchKey:
		return &VouchRequest{}
	case WitnessKey:
		return &WitnessRequest{}
	}
	return kmsg.RequestForKey(key)
}

// version0 is the part of a message that has one version only.
type version0 struct{}

func (version0) MaxVersion() int16 { return 0 }
func (version0) SetVersion(int16)  {}
func (version0) GetVersion() int16 { return 0 }
func (version0) IsFlexible() bool  { return false }

// RaftRequest carries Raft's messages from one node to another, in order. A node that nobody can dial asks for its own:
// the answer waits up to MaxWaitMs until there are some.
type RaftRequest struct {
	version0
	ClusterID string
	From, To  int32
	// Directories are those of the nodes' metadata logs (KIP-853): a node whose directory was emptied is not the one
	// that is meant. To's is zero when the sender does not know it.
	FromDirectoryID, ToDirectoryID [16]byte
	MaxWaitMs                      int32 // 0: the sender is dialled itself
	MessageFrames
}

// MessageFrames are messages, the first and last of which may be parts of one that needs several frames.
type MessageFrames struct {
	Continues int64    // bytes of the first message that earlier frames had; 0: it begins here
	Rest      int64    // bytes of the last message that later frames will have
	Messages  [][]byte // raftpb.Message
}

// RaftResponse has an error of Kafka's and what waited for the sender.
type RaftResponse struct {
	version0
	ErrorCode int16
	MessageFrames
}

func (*RaftRequest) Key() int16                  { return RaftKey }
func (*RaftResponse) Key() int16                 { return RaftKey }
func (*RaftRequest) ResponseKind() kmsg.Response { return &RaftResponse{} }
func (*RaftResponse) RequestKind() kmsg.Request  { return &RaftRequest{} }

func (r *RaftRequest) AppendTo(dst []byte) []byte {
	dst = kbin.AppendString(dst, r.ClusterID)
	dst = kbin.AppendInt32(kbin.AppendInt32(dst, r.From), r.To)
	dst = kbin.AppendUuid(kbin.AppendUuid(dst, r.FromDirectoryID), r.ToDirectoryID)
	return r.appendTo(kbin.AppendInt32(dst, r.MaxWaitMs))
}

func (r *RaftRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = RaftRequest{
		ClusterID: b.String(), From: b.Int32(), To: b.Int32(), FromDirectoryID: b.Uuid(), ToDirectoryID: b.Uuid(),
		MaxWaitMs: b.Int32(), MessageFrames: readFrames(&b),
	}
	return b.Complete()
}

func (f *MessageFrames) appendTo(dst []byte) []byte {
	return appendByteArrays(kbin.AppendInt64(kbin.AppendInt64(dst, f.Continues), f.Rest), f.Messages)
}

func readFrames(b *kbin.Reader) MessageFrames {
	return MessageFrames{Continues: b.Int64(), Rest: b.Int64(), Messages: readByteArrays(b)}
}

func (r *RaftResponse) AppendTo(dst []byte) []byte {
	return r.appendTo(kbin.AppendInt16(dst, r.ErrorCode))
}

func (r *RaftResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = RaftResponse{ErrorCode: b.Int16(), MessageFrames: readFrames(&b)}
	return b.Complete()
}

// ForwardRequest is a request that the active controller is to decide, on behalf of a client's principal.
type ForwardRequest struct {
	version0
	ClusterID                    string
	PrincipalType, PrincipalName string
	APIKey, APIVersion           int16
	Body                         []byte
}

// ForwardResponse has the answer, at the version of the request, and the offset of the metadata log from which on an
// image has what came of it.
type ForwardResponse struct {
	version0
	ErrorCode int16
	EndOffset int64
	Body      []byte
}

func (*ForwardRequest) Key() int16                  { return ForwardKey }
func (*ForwardResponse) Key() int16                 { return ForwardKey }
func (*ForwardRequest) ResponseKind() kmsg.Response { return &ForwardResponse{} }
func (*ForwardResponse) RequestKind() kmsg.Request  { return &ForwardRequest{} }

func (r *ForwardRequest) AppendTo(dst []byte) []byte {
	for _, s := range []string{r.ClusterID, r.PrincipalType, r.PrincipalName} {
		dst = kbin.AppendString(dst, s)
	}
	dst = kbin.AppendInt16(kbin.AppendInt16(dst, r.APIKey), r.APIVersion)
	return kbin.AppendBytes(dst, r.Body)
}

func (r *ForwardRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = ForwardRequest{
		ClusterID: b.String(), PrincipalType: b.String(), PrincipalName: b.String(),
		APIKey: b.Int16(), APIVersion: b.Int16(), Body: b.Bytes(),
	}
	return b.Complete()
}

func (r *ForwardResponse) AppendTo(dst []byte) []byte {
	return kbin.AppendBytes(kbin.AppendInt64(kbin.AppendInt16(dst, r.ErrorCode), r.EndOffset), r.Body)
}

func (r *ForwardResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = ForwardResponse{ErrorCode: b.Int16(), EndOffset: b.Int64(), Body: b.Bytes()}
	return b.Complete()
}

// FormRequest asks a node what it knows of the cluster, and whether it consents to one of the nodes at these addresses.
type FormRequest struct {
	version0
	NodeID int32
	Seeds  []string // host:port of controller listeners; empty: only asks
}

// FormResponse says which cluster the node belongs to ("": none yet), and whether it consents.
type FormResponse struct {
	version0
	ErrorCode   int16
	NodeID      int32    // who answers
	Incarnation [16]byte // of its process
	ClusterID   string
	Consent     bool
	Expect      int32 // the node's gossip.expect; 0: none
}

func (*FormRequest) Key() int16                  { return FormKey }
func (*FormResponse) Key() int16                 { return FormKey }
func (*FormRequest) ResponseKind() kmsg.Response { return &FormResponse{} }
func (*FormResponse) RequestKind() kmsg.Request  { return &FormRequest{} }

func (r *FormRequest) AppendTo(dst []byte) []byte {
	dst = kbin.AppendArrayLen(kbin.AppendInt32(dst, r.NodeID), len(r.Seeds))
	for _, s := range r.Seeds {
		dst = kbin.AppendString(dst, s)
	}
	return dst
}

func (r *FormRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = FormRequest{NodeID: b.Int32()}
	for n := arrayLen(&b, 2); n > 0; n-- {
		r.Seeds = append(r.Seeds, b.String())
	}
	return b.Complete()
}

func (r *FormResponse) AppendTo(dst []byte) []byte {
	dst = kbin.AppendInt32(kbin.AppendInt16(dst, r.ErrorCode), r.NodeID)
	dst = kbin.AppendBool(kbin.AppendString(kbin.AppendUuid(dst, r.Incarnation), r.ClusterID), r.Consent)
	return kbin.AppendInt32(dst, r.Expect)
}

func (r *FormResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = FormResponse{
		ErrorCode: b.Int16(), NodeID: b.Int32(), Incarnation: b.Uuid(), ClusterID: b.String(), Consent: b.Bool(), Expect: b.Int32(),
	}
	return b.Complete()
}

// JoinRequest asks the quorum's leader to make a node a member that follows the log; one that is, to note its
// listeners.
type JoinRequest struct {
	version0
	ClusterID   string
	NodeID      int32
	DirectoryID [16]byte // of its metadata log
	Listeners   []JoinListener
	Incarnation [16]byte // of this run; of nodes of former versions zero
	// Emptied: the node has nothing of the metadata log and is to vote. If its id has a vote, that was lost with its
	// directory. Whoever takes the request from the node clears this unless the node is proven.
	Emptied bool
}

// JoinListener is a controller listener of the node.
type JoinListener struct {
	Name, Host       string
	Port             uint16
	SecurityProtocol int16
}

// JoinResponse names the leader and the quorum.
type JoinResponse struct {
	version0
	ErrorCode    int16
	ErrorMessage *string
	LeaderID     int32
	Members      []byte // as raftlog encodes them
}

func (*JoinRequest) Key() int16                  { return JoinKey }
func (*JoinResponse) Key() int16                 { return JoinKey }
func (*JoinRequest) ResponseKind() kmsg.Response { return &JoinResponse{LeaderID: -1} }
func (*JoinResponse) RequestKind() kmsg.Request  { return &JoinRequest{} }

func (r *JoinRequest) AppendTo(dst []byte) []byte {
	dst = kbin.AppendUuid(kbin.AppendInt32(kbin.AppendString(dst, r.ClusterID), r.NodeID), r.DirectoryID)
	dst = kbin.AppendArrayLen(dst, len(r.Listeners))
	for _, l := range r.Listeners {
		dst = kbin.AppendString(kbin.AppendString(dst, l.Name), l.Host)
		dst = kbin.AppendInt16(kbin.AppendUint16(dst, l.Port), l.SecurityProtocol)
	}
	return kbin.AppendBool(kbin.AppendUuid(dst, r.Incarnation), r.Emptied)
}

// minListenerBytes is the least that a listener takes.
const minListenerBytes = 2 + 2 + 2 + 2

func (r *JoinRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = JoinRequest{ClusterID: b.String(), NodeID: b.Int32(), DirectoryID: b.Uuid()}
	for n := arrayLen(&b, minListenerBytes); n > 0; n-- {
		r.Listeners = append(r.Listeners, JoinListener{b.String(), b.String(), b.Uint16(), b.Int16()})
	}
	if len(b.Src) > 0 {
		r.Incarnation, r.Emptied = b.Uuid(), b.Bool()
	}
	return b.Complete()
}

func (r *JoinResponse) AppendTo(dst []byte) []byte {
	dst = kbin.AppendNullableString(kbin.AppendInt16(dst, r.ErrorCode), r.ErrorMessage)
	return kbin.AppendBytes(kbin.AppendInt32(dst, r.LeaderID), r.Members)
}

func (r *JoinResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = JoinResponse{ErrorCode: b.Int16(), ErrorMessage: b.NullableString(), LeaderID: b.Int32(), Members: b.Bytes()}
	return b.Complete()
}

// HelloRequest says who dials: it opens every connection between nodes. Where the cluster has a key it is sent twice,
// the second time with the proof that the sender has the key.
type HelloRequest struct {
	version0
	ClusterID string
	NodeID    int32
	Secret    []byte // of which the broker's incarnation id is made; empty for a node that is no broker
	Nonce     []byte // fresh; what a Vouch asks about
	Proof     []byte // empty, or made of the key, both nonces and ids
}

// HelloResponse accepts the sender for who it says it is, or has an error.
type HelloResponse struct {
	version0
	ErrorCode int16
	Challenge []byte // not empty: a proof is wanted, which has this in it
	Proof     []byte // that the answering node has the key
}

func (*HelloRequest) Key() int16                  { return HelloKey }
func (*HelloResponse) Key() int16                 { return HelloKey }
func (*HelloRequest) ResponseKind() kmsg.Response { return &HelloResponse{} }
func (*HelloResponse) RequestKind() kmsg.Request  { return &HelloRequest{} }

func (r *HelloRequest) AppendTo(dst []byte) []byte {
	dst = kbin.AppendInt32(kbin.AppendString(dst, r.ClusterID), r.NodeID)
	for _, b := range [][]byte{r.Secret, r.Nonce, r.Proof} {
		dst = kbin.AppendBytes(dst, b)
	}
	return dst
}

func (r *HelloRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = HelloRequest{ClusterID: b.String(), NodeID: b.Int32(), Secret: b.Bytes(), Nonce: b.Bytes(), Proof: b.Bytes()}
	return b.Complete()
}

func (r *HelloResponse) AppendTo(dst []byte) []byte {
	return kbin.AppendBytes(kbin.AppendBytes(kbin.AppendInt16(dst, r.ErrorCode), r.Challenge), r.Proof)
}

func (r *HelloResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = HelloResponse{ErrorCode: b.Int16(), Challenge: b.Bytes(), Proof: b.Bytes()}
	return b.Complete()
}

// VouchRequest asks a node, at the address where it is known to be, whether a Hello with this nonce was its own.
type VouchRequest struct {
	version0
	Nonce []byte
}

// VouchResponse says so, and who answers.
type VouchResponse struct {
	version0
	ErrorCode int16
	NodeID    int32
	Mine      bool
}

func (*VouchRequest) Key() int16                  { return VouchKey }
func (*VouchResponse) Key() int16                 { return VouchKey }
func (*VouchRequest) ResponseKind() kmsg.Response { return &VouchResponse{} }
func (*VouchResponse) RequestKind() kmsg.Request  { return &VouchRequest{} }

func (r *VouchRequest) AppendTo(dst []byte) []byte {
	return kbin.AppendBytes(dst, r.Nonce)
}

func (r *VouchRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = VouchRequest{Nonce: b.Bytes()}
	return b.Complete()
}

func (r *VouchResponse) AppendTo(dst []byte) []byte {
	return kbin.AppendBool(kbin.AppendInt32(kbin.AppendInt16(dst, r.ErrorCode), r.NodeID), r.Mine)
}

func (r *VouchResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = VouchResponse{ErrorCode: b.Int16(), NodeID: b.Int32(), Mine: b.Bool()}
	return b.Complete()
}

func appendByteArrays(dst []byte, arrays [][]byte) []byte {
	dst = kbin.AppendArrayLen(dst, len(arrays))
	for _, a := range arrays {
		dst = kbin.AppendBytes(dst, a)
	}
	return dst
}

func readByteArrays(b *kbin.Reader) [][]byte {
	n := arrayLen(b, lengthBytes)
	if n == 0 {
		return nil
	}
	out := make([][]byte, n)
	for i := range out {
		out[i] = b.Bytes()
	}
	return out
}

// arrayLen reads the length of an array whose elements take at least elementBytes; more than there can be is a short
// read.
func arrayLen(b *kbin.Reader, elementBytes int) int {
	n := int(b.ArrayLen())
	if n <= 0 || n > len(b.Src)/elementBytes {
		failIf(b, n > 0)
		return 0
	}
	return n
}

// failIf marks a reader as run dry.
func failIf(b *kbin.Reader, failed bool) {
	if failed {
		b.Span(len(b.Src) + 1)
	}
}
