package protocol

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// WitnessRequest has a broker probe another, for the active controller (docs/adr/0007). It names no address: the broker
// knows where the other is registered.
type WitnessRequest struct {
	version0
	BrokerID    int32
	BrokerEpoch int64 // of the registration that is meant
}

// WitnessResponse says whether no listener of the broker answered: none accepted, none refused.
type WitnessResponse struct {
	version0
	ErrorCode int16
	Silent    bool
}

func (*WitnessRequest) Key() int16                  { return WitnessKey }
func (*WitnessResponse) Key() int16                 { return WitnessKey }
func (*WitnessRequest) ResponseKind() kmsg.Response { return &WitnessResponse{} }
func (*WitnessResponse) RequestKind() kmsg.Request  { return &WitnessRequest{} }

func (r *WitnessRequest) AppendTo(dst []byte) []byte {
	return kbin.AppendInt64(kbin.AppendInt32(dst, r.BrokerID), r.BrokerEpoch)
}

func (r *WitnessRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = WitnessRequest{BrokerID: b.Int32(), BrokerEpoch: b.Int64()}
	return b.Complete()
}

func (r *WitnessResponse) AppendTo(dst []byte) []byte {
	return kbin.AppendBool(kbin.AppendInt16(dst, r.ErrorCode), r.Silent)
}

func (r *WitnessResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	*r = WitnessResponse{ErrorCode: b.Int16(), Silent: b.Bool()}
	return b.Complete()
}
