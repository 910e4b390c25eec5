package protocol

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests of our own, which nodes send each other on the CONTROLLER listener and nobody else serves (docs/adr/0005). Their
// keys are far above Kafka's. All have version 0, which is not flexible.
const (
	RaftKey    = int16(1000)
	ForwardKey = int16(1001)
	FormKey    = int16(1002)
)

// ownSchemas are these requests in the form of schemas.txt.
const ownSchemas = `1000 Raft 0 none
 ClusterId string 0+
 From int32 0+
 To int32 0+
 MaxWaitMs int32 0+
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
 Voters []int32 0+
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
	}
	return kmsg.RequestForKey(key)
}

// version0 is the part of a message that has one version only.
type version0 struct{}

func (version0) MaxVersion() int16 { return 0 }
func (version0) SetVersion(int16)  {}
func (version0) GetVersion() int16 { return 0 }
func (version0) IsFlexible() bool  { return false }

// RaftRequest carries Raft's messages from one node to another, in order. A node that nobody can dial asks for its own: the
// answer waits up to MaxWaitMs until there are some.
type RaftRequest struct {
	version0
	ClusterID string
	From, To  int32
	MaxWaitMs int32    // 0: the sender is dialled itself
	Messages  [][]byte // raftpb.Message
}

// RaftResponse has an error of Kafka's and what waited for the sender.
type RaftResponse struct {
	version0
	ErrorCode int16
	Messages  [][]byte
}

func (*RaftRequest) Key() int16                  { return RaftKey }
func (*RaftResponse) Key() int16                 { return RaftKey }
func (*RaftRequest) ResponseKind() kmsg.Response { return &RaftResponse{} }
func (*RaftResponse) RequestKind() kmsg.Request  { return &RaftRequest{} }

func (r *RaftRequest) AppendTo(dst []byte) []byte {
	dst = kbin.AppendString(dst, r.ClusterID)
	dst = kbin.AppendInt32(kbin.AppendInt32(kbin.AppendInt32(dst, r.From), r.To), r.MaxWaitMs)
	return appendByteArrays(dst, r.Messages)
}

func (r *RaftRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = RaftRequest{ClusterID: b.String(), From: b.Int32(), To: b.Int32(), MaxWaitMs: b.Int32(), Messages: readByteArrays(&b)}
	return b.Complete()
}

func (r *RaftResponse) AppendTo(dst []byte) []byte {
	return appendByteArrays(kbin.AppendInt16(dst, r.ErrorCode), r.Messages)
}

func (r *RaftResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = RaftResponse{ErrorCode: b.Int16(), Messages: readByteArrays(&b)}
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

// ForwardResponse has the answer, at the version of the request, and the offset of the metadata log from which on an image has what came
// of it.
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

// FormRequest asks a node what it knows of the cluster; with voters, it also asks for its consent to a cluster of these.
type FormRequest struct {
	version0
	NodeID int32
	Voters []int32 // empty: only asks
}

// FormResponse says which cluster the node belongs to ("": none yet), and whether it consents.
type FormResponse struct {
	version0
	ErrorCode int16
	NodeID    int32 // who answers
	ClusterID string
	Voters    []int32 // that the node was started with
	Known     bool    // the cluster has registered the node that asks
	Consent   bool
}

func (*FormRequest) Key() int16                  { return FormKey }
func (*FormResponse) Key() int16                 { return FormKey }
func (*FormRequest) ResponseKind() kmsg.Response { return &FormResponse{} }
func (*FormResponse) RequestKind() kmsg.Request  { return &FormRequest{} }

func (r *FormRequest) AppendTo(dst []byte) []byte {
	return appendInt32s(kbin.AppendInt32(dst, r.NodeID), r.Voters)
}

func (r *FormRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = FormRequest{NodeID: b.Int32(), Voters: readInt32s(&b)}
	return b.Complete()
}

func (r *FormResponse) AppendTo(dst []byte) []byte {
	dst = kbin.AppendInt32(kbin.AppendInt16(dst, r.ErrorCode), r.NodeID)
	dst = appendInt32s(kbin.AppendString(dst, r.ClusterID), r.Voters)
	return kbin.AppendBool(kbin.AppendBool(dst, r.Known), r.Consent)
}

func (r *FormResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = FormResponse{ErrorCode: b.Int16(), NodeID: b.Int32(), ClusterID: b.String(), Voters: readInt32s(&b), Known: b.Bool(), Consent: b.Bool()}
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
	n := b.ArrayLen()
	if n <= 0 || int(n) > len(b.Src)/lengthBytes {
		failIf(b, n > 0)
		return nil
	}
	out := make([][]byte, n)
	for i := range out {
		out[i] = b.Bytes()
	}
	return out
}

func appendInt32s(dst []byte, ids []int32) []byte {
	dst = kbin.AppendArrayLen(dst, len(ids))
	for _, id := range ids {
		dst = kbin.AppendInt32(dst, id)
	}
	return dst
}

func readInt32s(b *kbin.Reader) []int32 {
	n := b.ArrayLen()
	if n <= 0 || int(n) > len(b.Src)/4 {
		failIf(b, n > 0)
		return nil
	}
	out := make([]int32, n)
	for i := range out {
		out[i] = b.Int32()
	}
	return out
}

// failIf marks a reader as run dry.
func failIf(b *kbin.Reader, failed bool) {
	if failed {
		b.Span(len(b.Src) + 1)
	}
}
