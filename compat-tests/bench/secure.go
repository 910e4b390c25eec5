package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// secureComparisons are loads over TLS, which a target has the certificate and the cipher suite of the others for, and
// logins by SASL.
func secureComparisons(scale int64) []comparison {
	cpuGiB := func(s sample) float64 { return s.cpuPerGiB }
	cpu := func(name string, ofFloor float64) []figure {
		return []figure{{name + ": broker CPU s/GiB", cpuGiB, "floor", ofFloor, 0}, {name + ": broker CPU s/GiB", cpuGiB, "kafka", .5, 0}}
	}
	cs := []comparison{
		{name: "tls-produce64", listener: "SSL", targets: all, run: produce(produceLoad{topic: "p64", partitions: 6, totalBytes: scale << 30, batchBytes: 65536, conns: 2, inFlight: 5}),
			figures: cpu("TLS: produce 64 KiB batches", 1.3)},
		{name: "tls-fetch", listener: "SSL", targets: all, run: runFetch(scale),
			figures: cpu("TLS: fetch 50 MiB responses", 1.3)},
	}
	perLogin := func(s sample) float64 { return s.msPerLogin }
	cpuLogin := func(s sample) float64 { return s.cpuMsPerReq }
	for _, l := range []scramLoad{{"SCRAM-SHA-256", 4096}, {"SCRAM-SHA-256", 16384}, {"SCRAM-SHA-512", 4096}, {"SCRAM-SHA-512", 16384}} {
		what := fmt.Sprintf("connection with %s, %d iterations: ", l.mechanism, l.iterations)
		cs = append(cs, comparison{name: fmt.Sprintf("scram-%s-%d", l.mechanism[len("SCRAM-SHA-"):], l.iterations), listener: "SASL_PLAINTEXT", warm: true, targets: both, run: l.run,
			figures: []figure{{what + "ms each, 8 at once", perLogin, "kafka", .5, 0}, {what + "broker CPU ms", cpuLogin, "kafka", .5, 0}}})
	}
	return cs
}

// certificates makes an authority and a key with its certificate for 127.0.0.1.
func certificates(dir string) (node, ca string, err error) {
	bin, err := kafka.GreteBin()
	if err != nil {
		return "", "", err
	}
	if out, err := exec.Command(bin, "certs", dir, "--node", "node").CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("grete certs: %w: %s", err, out)
	}
	return filepath.Join(dir, "node.pem"), filepath.Join(dir, "ca.pem"), nil
}

// startSecured starts a target that has a listener of this security protocol beside a plain one, and is reached by
// that.
func startSecured(ctx context.Context, name, protocol, dir string) (*target, error) {
	node, ca, err := certificates(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	at := endpoint{}
	if protocol == "SSL" {
		if at.tls, err = trusting(ca); err != nil {
			return nil, err
		}
	}
	if name == "floor" {
		t, err := startFloor(dir, node)
		if err == nil {
			t.tls = at.tls
		}
		return t, err
	}
	if at.addr, err = kafka.FreeAddr(); err != nil {
		return nil, err
	}
	o := kafka.Options{Dir: dir, JVM: brokerJVM, Listeners: []string{protocol + "://" + at.addr}, Properties: map[string]string{
		"ssl.keystore.type": "PEM", "ssl.keystore.location": node, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
	}}
	if protocol != "SSL" {
		o.Properties["sasl.enabled.mechanisms"] = "SCRAM-SHA-256,SCRAM-SHA-512"
		for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
			o.Properties["listener.name.sasl_plaintext."+mechanism+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	start := kafka.StartApache
	if name == "grete" {
		start = kafka.StartGrete
		delete(o.Properties, "ssl.cipher.suites") // Go chooses none of TLS 1.3; that one is its first
	}
	t, err := fromBroker(name)(start(ctx, o))
	if err == nil {
		t.plain, t.endpoint = t.endpoint, at
	}
	return t, err
}

func trusting(ca string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, nil
}

// idleTLS measures the memory of idle connections with TLS: of some that have asked for versions, and of some that have
// produced 64 KiB, too.
func idleTLS(scratch string, _ int) ([]row, error) {
	var rows []row
	for i, batchBytes := range []int{0, 64 << 10} {
		kib, err := idleTLSMemory(filepath.Join(scratch, fmt.Sprint(i)), batchBytes)
		if err != nil {
			return nil, err
		}
		what := "10,000 idle connections with TLS: memory of each"
		if batchBytes > 0 {
			what += " that has produced 64 KiB"
		}
		rows = append(rows, bound(what, kib, 30, "KiB"))
	}
	return rows, nil
}

// idleBefore is how long the connections have been idle when memory is looked at: the broker has given back what the
// handshakes took.
const idleBefore = 30 * time.Second

func idleTLSMemory(dir string, batchBytes int) (kibEach float64, err error) {
	t, err := startSecured(context.Background(), "grete", "SSL", dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = t.stop() }()
	raw := recordBatch(batchBytes, 1024, time.Now().UnixMilli())
	if err := fillTopic(t, "idle", 1, raw); err != nil {
		return 0, err
	}
	time.Sleep(time.Second)
	const conns = 10_000
	before := t.rssMiB()
	for range conns {
		c, err := t.dial()
		if err != nil {
			return 0, err
		}
		defer c.close()
		if _, err := c.call(kmsg.NewPtrApiVersionsRequest()); err != nil {
			return 0, err
		}
		if batchBytes == 0 {
			continue
		}
		if _, err := c.c.Write(encodeProduce("idle", 0, raw)); err != nil {
			return 0, err
		}
		if err := c.readAck(); err != nil {
			return 0, err
		}
	}
	time.Sleep(idleBefore)
	return (t.rssMiB() - before) * 1024 / conns, nil
}

const (
	aclCount = 10_000
	aclUser  = "User:ANONYMOUS"
)

// manyACLs compares small produces on a broker whose client has its right by one of 10,000 ACLs with those on one
// without an authorizer.
func manyACLs(scratch string, rounds int) ([]row, error) {
	var ts [2]*target
	for i := range ts {
		o := kafka.Options{Dir: filepath.Join(scratch, fmt.Sprint(i))}
		if i == 1 {
			o.Properties = map[string]string{
				"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "allow.everyone.if.no.acl.found": "true", // so that the first can be made
			}
		}
		var err error
		if ts[i], err = fromBroker("grete")(kafka.StartGrete(context.Background(), o)); err != nil {
			return nil, err
		}
		defer func() { _ = ts[i].stop() }()
	}
	if err := createACLs(ts[1]); err != nil {
		return nil, err
	}
	load := produceLoad{partitions: 6, totalBytes: 1 << 27, batchBytes: 1024, conns: 4, inFlight: 5}
	var ms [2][]float64
	var ratios []float64
	for round := range 2 * rounds { // each of the two is first as often as the other
		load.topic = fmt.Sprint("allowed-", round)
		for j := range ts {
			i := (j + round) % 2
			syscall.Sync()
			s, err := load.run(ts[i])
			if err != nil {
				return nil, err
			}
			ms[i] = append(ms[i], s.cpuMsPerReq)
		}
		ratios = append(ratios, ms[1][round]/ms[0][round])
	}
	r := median(ratios)
	return []row{{work: "produce 1 KiB batches without an authorizer and with 10,000 ACLs: broker CPU ms/request", grete: fmt.Sprintf("%.4g and %.4g", median(ms[0]), median(ms[1])),
		result: fmt.Sprintf("%.2f ×", r), target: "≤ 1.05 ×", met: r <= 1.05}}, nil
}

// createACLs makes them: the client may administer, and write to what one of the many prefixes fits.
func createACLs(t *target) error {
	c, err := t.dial()
	if err != nil {
		return err
	}
	defer c.close()
	acl := func(principal, name string, kind kmsg.ACLResourceType, pattern kmsg.ACLResourcePatternType, op kmsg.ACLOperation) kmsg.CreateACLsRequestCreation {
		return kmsg.CreateACLsRequestCreation{Principal: principal, Host: "*", ResourceName: name, ResourceType: kind, ResourcePatternType: pattern, Operation: op, PermissionType: kmsg.ACLPermissionTypeAllow}
	}
	literal, prefixed, topic := kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed, kmsg.ACLResourceTypeTopic
	all := []kmsg.CreateACLsRequestCreation{
		acl(aclUser, "kafka-cluster", kmsg.ACLResourceTypeCluster, literal, kmsg.ACLOperationAll),
		acl(aclUser, "allowed-", topic, prefixed, kmsg.ACLOperationWrite),
	}
	for i := len(all); i < aclCount; i++ {
		who := fmt.Sprint("User:", i%100)
		if i%10 == 0 {
			who = aclUser
		}
		pattern := literal
		if i%3 == 0 {
			pattern = prefixed
		}
		all = append(all, acl(who, fmt.Sprint("topic-", i), topic, pattern, kmsg.ACLOperationWrite))
	}
	for batch := range slices.Chunk(all, 1000) {
		req := kmsg.NewPtrCreateACLsRequest()
		req.Version, req.Creations = 2, batch
		resp, err := c.call(req)
		if err != nil {
			return err
		}
		for _, r := range resp.(*kmsg.CreateACLsResponse).Results {
			if r.ErrorCode != 0 {
				return fmt.Errorf("CreateAcls: error code %d", r.ErrorCode)
			}
		}
	}
	return nil
}
