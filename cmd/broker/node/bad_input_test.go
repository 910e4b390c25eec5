package node

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/security/sasl"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// front is a broker with a listener of each kind. Whoever authenticates may do everything, but for two rights that ACLs
// give to the node's user alone: CLUSTER_ACTION, and writing with the transactional id "guarded".
type front struct {
	t     *testing.T
	n     *Node
	fs    *vfs.Mem
	ca    ca
	nodes *nodes
}

var frontListeners = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

func newFront(t *testing.T) *front {
	fs := vfs.NewMem()
	f := &front{t: t, fs: fs, ca: newCA(t)}
	f.ca.put(fs, "/node.pem", "node", 365)
	write(t, fs, "/ca.pem", f.ca.Certificate())
	c := emptyCluster(t)
	c.add("listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0", tlsProperties, "sasl.enabled.mechanisms=PLAIN",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config="+saslUsers, "listener.name.sasl_ssl.plain.sasl.jaas.config="+saslUsers,
		"connection.failed.authentication.delay.ms=1", standardAuthorizer, "allow.everyone.if.no.acl.found=true", "max.incremental.fetch.session.cache.slots=10",
		"group.max.size=5", "auto.create.topics.enable=false")
	c.options[0].FS = fs
	c.disks[0] = fs
	c.start(0)
	f.n, f.nodes = c.running[0], c
	c.grantTo("User:node", kmsg.ACLOperationClusterAction, kmsg.ACLResourceTypeCluster, "kafka-cluster")
	c.grantTo("User:node", kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTransactionalId, "guarded")
	c.eventually("the ACLs", func() bool { return f.n.image().ACLCount() == 2 })
	return f
}

// grantTo makes an ACL past the listeners.
func (c *nodes) grantTo(principal string, op kmsg.ACLOperation, t kmsg.ACLResourceType, name string) {
	c.t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	a := kmsg.NewCreateACLsRequestCreation()
	a.ResourceType, a.ResourceName, a.ResourcePatternType = t, name, kmsg.ACLResourcePatternTypeLiteral
	a.Principal, a.Host, a.Operation, a.PermissionType = principal, "*", op, kmsg.ACLPermissionTypeAllow
	req.Creations = append(req.Creations, a)
	resp, err := c.running[0].controller.Do(context.Background(), controllerPrincipal, req)
	if err != nil || resp.(*kmsg.CreateACLsResponse).Results[0].ErrorCode != 0 {
		c.t.Fatalf("%+v, %v", resp, err)
	}
}

// dial connects as a client that is authenticated.
func (f *front) dial(listener string) *caller {
	f.t.Helper()
	c := &caller{t: f.t}
	var err error
	if strings.HasSuffix(listener, "SSL") {
		c.Conn, err = dialTLS(f.ca.client(""))(f.t.Context(), f.n.Addr(listener))
	} else {
		c.Conn, err = net.Dial("tcp", f.n.Addr(listener))
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if strings.HasPrefix(listener, "SASL") {
		handshake, token := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLAuthenticateRequest()
		handshake.Version, handshake.Mechanism = 1, sasl.Plain
		token.Version, token.SASLAuthBytes = 2, []byte("\x00ann\x00x")
		asked[*kmsg.SASLHandshakeResponse](c, handshake)
		if resp := asked[*kmsg.SASLAuthenticateResponse](c, token); resp.ErrorCode != 0 {
			f.t.Fatalf("%+v", resp)
		}
	}
	return c
}

// caller is a client whose requests must be answered, in the versions that they name.
type caller struct {
	t *testing.T
	net.Conn
}

func asked[R kmsg.Response](c *caller, req kmsg.Request) R {
	c.t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)); err != nil {
		c.t.Fatal(err)
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		c.t.Fatalf("%T: %v", req, err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c, body); err != nil {
		c.t.Fatal(err)
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("%T: %v", req, err)
	}
	return resp.(R)
}

// serves checks that a client which means well writes and reads.
func (f *front) serves(listener string) {
	f.t.Helper()
	c := f.dial(listener)
	defer c.Close()
	good := built(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, []byte("good"))
	if code := asked[*kmsg.ProduceResponse](c, produced("good", "", good)).Topics[0].Partitions[0].ErrorCode; code != 0 {
		f.t.Errorf("%s: a good client gets error %d", listener, code)
	}
}

// closes sends a request of somebody who has not authenticated, and expects the end without an answer.
func (f *front) closes(listener string, req kmsg.Request, past bool) {
	f.t.Helper()
	var nc net.Conn
	var err error
	if past { // past TLS, and before SASL
		nc, err = dialTLS(f.ca.client(""))(f.t.Context(), f.n.Addr(listener))
	} else {
		nc, err = net.Dial("tcp", f.n.Addr(listener))
	}
	if err != nil {
		f.t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)
	_, _ = nc.Write(frame)
	got, err := io.ReadAll(nc)
	if errors.Is(err, os.ErrDeadlineExceeded) || len(got) > 0 && (past || got[0] != 21 || len(got) > 7) {
		f.t.Errorf("%s, before authentication: %x, %v", listener, got, err)
	}
}

// Each row of the table at each kind of listener: before TLS and before SASL it closes the connection, after them it
// has Kafka's error; the next good client is served, and no path outside the data directory is touched.
func TestBadInput(t *testing.T) {
	f := newFront(t)
	maker := f.dial("PLAINTEXT")
	for _, row := range []bad{
		creating("", named("t"), 1, nil), creating("", named("good"), 1, nil), creating("", named("a_b"), 1, nil), creating("", named("recompressed"), 1, map[string]string{"compression.type": "gzip"}),
		creating("", named("large"), 1, map[string]string{"max.message.bytes": "3000000", "segment.bytes": "1048576"}),
	} {
		if code := row.ask(maker, ""); code != 0 {
			t.Fatalf("error %d", code)
		}
	}
	for _, listener := range frontListeners {
		for _, row := range badInput() {
			t.Run(listener+"/"+row.name, func(t *testing.T) {
				f.t = t
				if strings.HasSuffix(listener, "SSL") {
					f.closes(listener, row.first(listener), false)
				}
				if strings.HasPrefix(listener, "SASL") {
					f.closes(listener, row.first(listener), strings.HasSuffix(listener, "SSL"))
				}
				var code int16
				if row.many != nil {
					code = row.many(f, listener)
				} else {
					c := f.dial(listener)
					defer c.Close()
					code = row.ask(c, listener)
				}
				if want := append(row.codes, 0)[:max(len(row.codes), 1)]; !slices.Contains(want, code) {
					t.Errorf("error %d, want %d", code, want)
				}
				f.serves(listener)
			})
		}
	}
	if infos, err := f.fs.ReadDir("/"); err != nil || len(infos) != 3 {
		t.Errorf("%v, %v", infos, err)
	}
}
