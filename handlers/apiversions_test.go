package handlers

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"grete/cluster/metadata"
)

func TestTableIsInOrderAndWithinTheProtocol(t *testing.T) {
	if !slices.IsSortedFunc(table, func(a, b API) int { return int(a.Key) - int(b.Key) }) {
		t.Error("the table is not in order of key")
	}
	for i, api := range table {
		if i > 0 && table[i-1].Key == api.Key {
			t.Errorf("key %d comes twice", api.Key)
		}
		req := kmsg.RequestForKey(api.Key)
		if req == nil || api.Min < 0 || api.Min > api.Max || api.Max > req.MaxVersion() || api.Handle == nil {
			t.Errorf("key %d: versions %d–%d", api.Key, api.Min, api.Max)
		}
	}
}

func TestApiVersions(t *testing.T) {
	r := newRig(t, withBroker(func(b *Broker) {
		b.Features = []Feature{{Name: "kraft.version", Min: 0, Max: 1}, {Name: "metadata.version", Min: 7, Max: 33}}
	}))
	r.apply(&metadata.FeatureLevelRecord{Name: "metadata.version", Level: 33})
	w := r.dial()
	for version := int16(0); version <= 5; version++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "a-b.c", "1"
		resp := call[*kmsg.ApiVersionsResponse](w, version, req)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(table) || resp.ApiKeys[0].MinVersion != 0 {
			t.Errorf("v%d: error %d, %d keys", version, resp.ErrorCode, len(resp.ApiKeys))
		}
		wantSupported := []int{0, 0, 0, 1, 2, 2}[version] // a minimum of 0 is shown from v4 on
		if len(resp.SupportedFeatures) != wantSupported {
			t.Errorf("v%d: %d supported features", version, len(resp.SupportedFeatures))
		}
		if version >= 3 && (len(resp.FinalizedFeatures) != 1 || resp.FinalizedFeatures[0].MaxVersionLevel != 33 || resp.FinalizedFeaturesEpoch < 0) {
			t.Errorf("v%d: finalized %v at %d", version, resp.FinalizedFeatures, resp.FinalizedFeaturesEpoch)
		}
	}
}

func TestApiVersionsChecksTheClientsName(t *testing.T) {
	w := newRig(t).dial()
	for _, tt := range []struct {
		name, version string
		want          int16
	}{
		{"apache-kafka-java", "4.4.0", 0}, {"a", "1", 0}, {"", "1", 42}, {"a", "", 42}, {"a b", "1", 42}, {"-a", "1", 42}, {"a-", "1", 42}, {"ä", "1", 42},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = tt.name, tt.version
		resp := call[*kmsg.ApiVersionsResponse](w, 3, req)
		if resp.ErrorCode != tt.want || (tt.want != 0) != (len(resp.ApiKeys) == 0) {
			t.Errorf("%q %q: error %d with %d keys", tt.name, tt.version, resp.ErrorCode, len(resp.ApiKeys))
		}
	}
}

// A version from the future is answered in the form of version 0, and the connection goes on.
func TestApiVersionsFallsBack(t *testing.T) {
	w := newRig(t).dial()
	frame := []byte{0, 0, 0, 14, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0, 0xad, 0xbe, 0xef}
	if _, err := w.c.Write(frame); err != nil {
		t.Fatal(err)
	}
	got, err := w.frame(5 * time.Second)
	want := []byte{0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%x, %v, want %x", got, err, want)
	}
	if binary.BigEndian.Uint16(got[4:]) != 35 {
		t.Fatal("no error")
	}
	if resp := call[*kmsg.ApiVersionsResponse](w, 0, kmsg.NewPtrApiVersionsRequest()); resp.ErrorCode != 0 {
		t.Errorf("error %d after the fallback", resp.ErrorCode)
	}
}

// Whom the client thinks it talks to, as a Kafka 4.4 broker judged it.
func TestApiVersionsToTheWrongBroker(t *testing.T) {
	w := newRig(t).dial()
	rig, other := "rig", "other"
	for _, tt := range []struct {
		cluster *string
		node    int32
		want    int16
	}{
		{nil, -1, 0}, {&rig, rigNode, 0}, {nil, rigNode, 42}, {&rig, -1, 42}, {&other, -1, 42}, {&other, rigNode, 129}, {&rig, 2, 129}, {&other, 2, 129},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterID, req.NodeID = "a", "1", tt.cluster, tt.node
		if resp := call[*kmsg.ApiVersionsResponse](w, 5, req); resp.ErrorCode != tt.want {
			t.Errorf("cluster %v node %d: error %d, want %d", tt.cluster, tt.node, resp.ErrorCode, tt.want)
		}
	}
}

// Tools guess a broker's version from its keys (kcl's misc probe-version, kminion's cluster_version). Of Kafka 4.2 on
// they know no difference.
func TestGuessedVersion(t *testing.T) {
	resp := kmsg.NewPtrApiVersionsResponse()
	announced := map[int16]bool{}
	for _, api := range table {
		announced[api.Key] = true
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: api.Key, MinVersion: api.Min, MaxVersion: api.Max})
	}
	guess := kversion.FromApiVersionsResponse(resp).VersionGuess()
	for _, key := range []int16{38, 39, 40, 41, 48, 49, 50, 51} { // client quotas are not built yet
		if !announced[key] {
			t.Skipf("key %d is not served yet; guessed: %s", key, guess)
		}
	}
	if guess != "at least v4.2" {
		t.Errorf("guessed: %s", guess)
	}
}
