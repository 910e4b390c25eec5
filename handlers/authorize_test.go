package handlers

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/metadata/acl"
	"grete/internal/clock"
	"grete/protocol"
)

// guarded is a rig whose clients may do what ACLs allow.
func guarded(t testing.TB, rules acl.Rules) (*rig, *strings.Builder) {
	t.Helper()
	log := &strings.Builder{}
	r := newRig(t, withBroker(func(b *Broker) {
		b.Authorizer = NewAuthorizer(rules, clock.System, zerolog.New(zerolog.SyncWriter(log)))
		b.Controller = nothing{t}
	}))
	return r, log
}

// nothing is a controller that nobody may reach.
type nothing struct{ t testing.TB }

func (n nothing) Do(_ context.Context, _ protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	names := 0 // a request of which nothing is left changes nothing
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		names = len(req.Topics)
	case *kmsg.DeleteTopicsRequest:
		names = len(req.Topics) + len(req.TopicNames)
	case *kmsg.CreatePartitionsRequest:
		names = len(req.Topics)
	default:
		names = 1
	}
	if names == 0 {
		return req.ResponseKind(), nil
	}
	n.t.Errorf("%T of a client that may do nothing reached the controller", req)
	return nil, fmt.Errorf("%T reached the controller", req)
}

// openAPIs are those that a client without any right may use.
var openAPIs = map[int16]string{
	17: "SASL begins before there is a principal", 18: "clients ask for versions first", 36: "as 17",
	60: "Kafka tells everybody which brokers there are; what may be done is told to those who may know",
}

// Each API at each version, asked by a client that may do nothing: Kafka's codes for a denial and nothing else; and a
// topic, group or transaction that exists looks as one that does not.
func TestWithoutRights(t *testing.T) {
	r, _ := guarded(t, acl.Rules{})
	r.createTopic("seen", 1)
	for _, api := range table {
		if openAPIs[api.Key] != "" || api.Key == 16 { // of ListGroups, which needs groups, the oracle's scenarios have an opinion
			continue
		}
		for version := api.Min; version <= api.Max; version++ {
			if api.Key == 0 && version < 3 {
				continue // closes
			}
			t.Run(fmt.Sprintf("%s/v%d", kmsg.NameForKey(api.Key), version), func(t *testing.T) {
				seen, gone := r.askBare(api.Key, version, "seen"), r.askBare(api.Key, version, "gone")
				if denials, other := denialsIn(reflect.ValueOf(seen)); other != "" || denials == 0 && !listsOnly[api.Key] && !(api.Key == 35 && version < 3) { // which has no place for a code
					t.Errorf("%d denials%s: %+v", denials, other, seen)
				}
				if a, b := strings.ReplaceAll(show(seen), "seen", "gone"), show(gone); a != b {
					t.Errorf("a topic that exists:\n%s\nand one that does not:\n%s", a, b)
				}
			})
		}
	}
}

// listsOnly are APIs that leave out what a client may not see, and deny nothing.
var listsOnly = map[int16]bool{66: true}

func show(resp kmsg.Response) string {
	return fmt.Sprintf("%+v", dereferenced(reflect.ValueOf(resp)))
}

// dereferenced is a value with what its pointers point to.
func dereferenced(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return dereferenced(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out[v.Type().Field(i).Name] = dereferenced(v.Field(i))
			}
		}
		return out
	case reflect.Slice:
		var out []any
		for i := range v.Len() {
			out = append(out, dereferenced(v.Index(i)))
		}
		return out
	}
	return v.Interface()
}

// denialsIn counts denials in a response, and names an error that is none.
func denialsIn(v reflect.Value) (denials int, other string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return denialsIn(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			d, o := denialsIn(v.Index(i))
			denials, other = denials+d, other+o
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			if code, ok := v.Field(i).Interface().(int16); ok && f.Name == "ErrorCode" {
				switch code {
				case 0:
				case topicUnauthorized, groupUnauthorized, clusterUnauthorized, transactionUnauthorized, kerr.DelegationTokenRequestNotAllowed.Code:
					denials++
				default:
					other += fmt.Sprint(", error ", code)
				}
				continue
			}
			d, o := denialsIn(v.Field(i))
			denials, other = denials+d, other+o
		}
	}
	return denials, other
}

// askBare sends a request whose every name is name, and in whose every list there is one element.
func (r *rig) askBare(key, version int16, name string) kmsg.Response {
	r.t.Helper()
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fill(reflect.ValueOf(req).Elem(), name)
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		req.Acks, req.TransactionID = 1, nil
		req.Topics[0].TopicID = topicID(name)
		req.Topics[0].Partitions[0].Records = records(r.t, plain, "v")
		if version >= 13 {
			req.Topics[0].TopicID = topicID("seen") // an id that is unknown is told to be, as in Kafka
		}
	case *kmsg.FetchRequest:
		req.SessionEpoch, req.ReplicaID, req.ReplicaState.ID, req.ForgottenTopics = -1, -1, -1, nil
		req.Topics[0].TopicID = topicID("seen")
	case *kmsg.MetadataRequest:
		req.AllowAutoTopicCreation, req.Topics[0].TopicID = true, metadata.UUID{}
	case *kmsg.DeleteTopicsRequest:
		req.Topics[0].TopicID = metadata.UUID{}
	case *kmsg.OffsetCommitRequest:
		req.Topics[0].TopicID = topicID("seen")
	case *kmsg.FindCoordinatorRequest:
		req.CoordinatorType = 0
	}
	return call[kmsg.Response](r.dial(), version, req)
}

func fill(v reflect.Value, name string) {
	for i := range v.NumField() {
		f, n := v.Field(i), v.Type().Field(i).Name
		switch {
		case !v.Type().Field(i).IsExported() || n == "Version" || n == "UnknownTags":
		case f.Kind() == reflect.String:
			f.SetString(name)
		case f.Type() == reflect.TypeFor[*string]():
			f.Set(reflect.ValueOf(&name))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() != reflect.Uint8:
			one := reflect.MakeSlice(f.Type(), 1, 1)
			switch e := one.Index(0); e.Kind() {
			case reflect.Struct:
				if d, ok := e.Addr().Interface().(interface{ Default() }); ok {
					d.Default()
				}
				fill(e, name)
			case reflect.String:
				e.SetString(name)
			}
			f.Set(one)
		case f.Kind() == reflect.Struct:
			fill(f, name)
		case n == "ResourceType" && f.Kind() == reflect.Int8:
			f.SetInt(2)
		case n == "ResourcePatternType", n == "Operation", n == "PermissionType":
			f.SetInt(3)
		}
	}
}

// Every API of every listener has its authorization; without one the row would be open to all.
func TestEveryRowIsAuthorized(t *testing.T) {
	for _, rows := range [][]API{table, controllerTable, brokersTable, nodesTable} {
		for _, api := range rows {
			if api.Authorize == nil {
				t.Errorf("key %d", api.Key)
			}
		}
	}
}

// allow is an ACL for every client of this machine; two allow or deny the same, or they differ by id.
func allow(id byte, op kmsg.ACLOperation, t kmsg.ACLResourceType, name string) *metadata.AccessControlEntryRecord {
	return &metadata.AccessControlEntryRecord{
		ID: metadata.UUID{15: id}, ResourceType: int8(t), ResourceName: name, PatternType: 3, Principal: "User:ANONYMOUS", Host: "*",
		Operation: int8(op), PermissionType: int8(kmsg.ACLPermissionTypeAllow),
	}
}

// While ACLs change, requests on many connections are decided by those before or after; the next request after a change
// by those after it.
func TestACLsChangeWhileRequestsRun(t *testing.T) {
	r, _ := guarded(t, acl.Rules{})
	r.createTopic("t", 1)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	ask := func(w *wire) int16 {
		req := kmsg.NewPtrListOffsetsRequest()
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic, rt.Partitions = "t", append(rt.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
		rt.Partitions[0].Timestamp = -1
		req.Topics = append(req.Topics, rt)
		return call[*kmsg.ListOffsetsResponse](w, 5, req).Topics[0].Partitions[0].ErrorCode
	}
	for range 4 {
		w := r.dial()
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if code := ask(w); code != 0 && code != topicUnauthorized {
					t.Errorf("error %d", code)
					return
				}
			}
		})
	}
	w := r.dial()
	for i := range 100 {
		r.apply(allow(1, kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, "t"))
		if code := ask(w); code != 0 {
			t.Fatalf("round %d: allowed, and error %d", i, code)
		}
		r.apply(&metadata.RemoveAccessControlEntryRecord{ID: metadata.UUID{15: 1}})
		if code := ask(w); code != topicUnauthorized {
			t.Fatalf("round %d: denied, and error %d", i, code)
		}
	}
	close(stop)
	busy.Wait()
}

// A denial is a line with what one wants to know of it; many within a second are counted, and names of clients do not
// fill the log.
func TestDenialsAreLogged(t *testing.T) {
	r, log := guarded(t, acl.Rules{})
	c := clock.NewManual(time.Unix(1, 0))
	r.broker.Authorizer.clock = c
	long := strings.Repeat("x", 1000)
	for range maxAuditLines + 5 {
		r.askBare(2, 5, long)
	}
	if n := strings.Count(log.String(), "\n"); n != maxAuditLines {
		t.Errorf("%d lines", n)
	}
	for _, want := range []string{`"principal":"User:ANONYMOUS"`, `"host":"127.0.0.1"`, `"operation":"DESCRIBE"`, `"resource_type":"TOPIC"`, `"request":"ListOffsets"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), strings.Repeat("x", maxAuditText+1)) {
		t.Error("a name of a client is in the log at its whole length")
	}
	log.Reset()
	c.Advance(2 * time.Second)
	r.askBare(2, 5, "y")
	if !strings.Contains(log.String(), `"untold":5`) {
		t.Errorf("what was not told is not counted: %s", log.String())
	}
	if n := r.broker.Authorizer.Denials(); n != maxAuditLines+6 {
		t.Errorf("%d denials are counted", n)
	}
}

// What a connection's decisions are kept by is bounded.
func TestDecisionsAreBounded(t *testing.T) {
	d := &decisions{known: map[question]bool{}}
	for i := range 3 * maxDecisions {
		d.keep(question{resource: topicResource(fmt.Sprint(i))}, true)
		if len(d.known) > maxDecisions {
			t.Fatal(len(d.known))
		}
	}
}
