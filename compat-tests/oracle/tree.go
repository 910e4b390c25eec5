package oracle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// nowWindow is how near to the wall clock a time has to be to count as "now".
const nowWindow = 10 * time.Minute

// tree turns a response into maps, lists and leaves that compare and print well. Fields at their protocol default are
// left out, lists of structures are sorted (their order means nothing to clients, and Kafka's comes from
// hash maps), ids and times are masked.
func (s *Session) tree(resp kmsg.Response) any { return s.structTree(reflect.ValueOf(resp).Elem()) }

func (s *Session) structTree(v reflect.Value) map[string]any {
	out := map[string]any{}
	defaults := defaultsOf(v.Type())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "Version" && i == 0 || isDefault(v.Field(i), defaults.Field(i)) {
			continue
		}
		out[f.Name] = s.fieldTree(v, f.Name, v.Field(i))
	}
	return out
}

func defaultsOf(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if d, ok := p.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	return p.Elem()
}

func isDefault(v, d reflect.Value) bool {
	if tags, ok := v.Interface().(kmsg.Tags); ok {
		return tags.Len() == 0
	}
	return reflect.DeepEqual(v.Interface(), d.Interface())
}

func (s *Session) fieldTree(parent reflect.Value, name string, v reflect.Value) any {
	if masked, ok := s.mask(parent.Type().Name(), name, v); ok {
		return masked
	}
	return s.valueTree(name, v)
}

func (s *Session) valueTree(name string, v reflect.Value) any {
	if tags, ok := v.Interface().(kmsg.Tags); ok {
		return tagsTree(tags)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return s.valueTree(name, v.Elem())
	case reflect.Struct:
		return s.structTree(v)
	case reflect.Slice:
		return s.sliceTree(name, v)
	case reflect.Array:
		return s.topicIDTree(v.Interface().([16]byte))
	case reflect.String:
		return s.maskString(v.String())
	case reflect.Bool:
		return v.Bool()
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return number(v.Int())
	case reflect.Uint16:
		return number(int64(v.Uint()))
	}
	panic(fmt.Sprintf("no tree for %v", v.Type()))
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

func tagsTree(tags kmsg.Tags) any {
	out := map[string]any{}
	tags.Each(func(tag uint32, value []byte) { out[strconv.Itoa(int(tag))] = fmt.Sprintf("%x", value) })
	return out
}

func (s *Session) sliceTree(name string, v reflect.Value) any {
	if v.IsNil() {
		return nil
	}
	if raw, ok := v.Interface().([]byte); ok {
		return s.bytesTree(name, raw)
	}
	out := make([]any, v.Len())
	for i := range out {
		out[i] = s.valueTree(name, v.Index(i))
	}
	if v.Type().Elem().Kind() == reflect.Struct {
		sort.SliceStable(out, func(i, j int) bool { return sortKey(out[i]) < sortKey(out[j]) })
	}
	return out
}

// bytesTree shows record data as batches, text as text, anything else as base64.
func (s *Session) bytesTree(name string, raw []byte) any {
	if name == "RecordBatches" {
		return s.batchesTree(raw)
	}
	raw = bytes.ReplaceAll(raw, []byte(s.prefix), []byte("~"))
	for _, r := range string(raw) {
		if !unicode.IsPrint(r) {
			return "base64:" + base64.StdEncoding.EncodeToString(raw)
		}
	}
	return s.maskString(string(raw))
}

// sortKey puts the fields that identify an element first, so that elements pair up even when other fields differ.
func sortKey(element any) string {
	m := element.(map[string]any)
	var b strings.Builder
	for _, f := range []string{"Topic", "TopicID", "Name", "ResourceName", "ConfigName", "Group", "Coordinator", "MemberID", "InstanceID", "Partition", "ApiKey", "Key"} {
		if n, ok := m[f].(json.Number); ok {
			fmt.Fprintf(&b, "%s=%20s\x00", f, n)
		} else if v, ok := m[f]; ok {
			fmt.Fprintf(&b, "%s=%v\x00", f, v)
		}
	}
	rest, _ := json.Marshal(m)
	return b.String() + string(rest)
}

func (s *Session) topicIDTree(id [16]byte) any {
	if id == ([16]byte{}) {
		return "zero"
	}
	if name, ok := s.ids["named"+string(id[:])]; ok {
		return name
	}
	return s.alias("id", string(id[:]))
}

// mask replaces a field that no two brokers or runs have in common. What can be checked of it still is: that
// the port is the one connected to, that a time is about now, that an id seen before is the same again.
func (s *Session) mask(parent, field string, v reflect.Value) (any, bool) {
	host, port, _ := net.SplitHostPort(s.target.Addr)
	switch field {
	case "Documentation":
		if v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().String() != "" {
			return "<text>", true // every broker's own sentences
		}
	case "ClusterID":
		return s.maskClusterID(v), true
	case "Host":
		if h := v.String(); h == host || h == "localhost" {
			return "<host>", true
		}
	case "Port":
		if fmt.Sprint(v.Interface()) == port {
			return "<port>", true
		}
		if strings.HasPrefix(parent, "DescribeQuorum") {
			return "<other port>", true
		}
	case "SessionID", "ProducerID":
		if v.CanInt() && v.Int() > 0 {
			return s.alias(strings.ToLower(strings.TrimSuffix(field, "ID")), strconv.FormatInt(v.Int(), 10)), true
		}
	case "FinalizedFeaturesEpoch":
		return "<epoch>", true
	case "HighWatermark", "LogEndOffset":
		if strings.HasPrefix(parent, "DescribeQuorum") && v.Int() > 0 {
			return "<offset>", true
		}
	case "LeaderEpoch":
		if strings.HasPrefix(parent, "DescribeQuorum") && v.Int() > 0 {
			return "<epoch>", true
		}
	case "TotalBytes", "UsableBytes":
		if v.Int() > 0 {
			return "<bytes>", true
		}
	}
	if strings.Contains(field, "Time") && v.CanInt() && isNow(v.Int()) {
		return "<now>", true
	}
	return nil, false
}

func (s *Session) maskClusterID(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if id, err := base64.RawURLEncoding.DecodeString(v.String()); err == nil && len(id) == 16 {
		return s.alias("cluster", v.String())
	}
	return v.String()
}

func isNow(ms int64) bool { return time.Since(time.UnixMilli(ms)).Abs() < nowWindow }

// ownOnly drops list elements that are named after a topic, group or other resource of another scenario, and of the lists of such elements
// those of which nothing is left: whether there were others is not to be seen.
func (s *Session) ownOnly(tree any) any {
	switch t := tree.(type) {
	case map[string]any:
		for k, v := range t {
			if list, ok := v.([]any); ok && k == "Groups" {
				v = slices.DeleteFunc(list, nameless)
			}
			t[k] = s.ownOnly(v)
		}
		for _, shared := range []string{"Topics", "Groups", "ConfigResources"} {
			if list, ok := t[shared].([]any); ok && len(list) == 0 {
				delete(t, shared)
			}
		}
	case []any:
		kept := []any{}
		for _, e := range t {
			if isOwn(e) {
				kept = append(kept, s.ownOnly(e))
			}
		}
		return kept
	}
	return tree
}

// nameless is the group "", which anybody may have made.
func nameless(group any) bool { return group.(map[string]any)["Group"] == nil }

// foreignName is what names of other scenarios begin with, as Run makes them.
var foreignName = regexp.MustCompile(`^o\d{4}-`)

// isOwn knows topics and groups by their mark; other names may be the broker's.
func isOwn(element any) bool {
	m, ok := element.(map[string]any)
	if !ok {
		return true
	}
	for _, f := range []string{"Topic", "Group"} {
		if name, ok := m[f].(string); ok && !strings.HasPrefix(name, "~") {
			return false
		}
	}
	name, _ := m["Name"].(string)
	return !foreignName.MatchString(name) && !strings.HasPrefix(name, "__")
}

// without drops the named fields anywhere in a tree.
func without(tree any, fields ...string) any {
	switch t := tree.(type) {
	case map[string]any:
		for _, f := range fields {
			delete(t, f)
		}
		for k, v := range t {
			t[k] = without(v, fields...)
		}
	case []any:
		for i, v := range t {
			t[i] = without(v, fields...)
		}
	}
	return tree
}
