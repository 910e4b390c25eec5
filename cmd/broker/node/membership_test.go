package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"grete/cluster/raftlog"
	"grete/internal/vfs"
)

// voters are the ids of those that vote, as node i knows.
func (c *nodes) voters(i int) (ids []int32) {
	for _, m := range c.running[i].members().Voters() {
		ids = append(ids, m.NodeID)
	}
	return ids
}

func (c *nodes) wantVoters(want ...int32) {
	c.t.Helper()
	for i, n := range c.running {
		if n != nil && !c.stopped[i] {
			c.eventually(fmt.Sprintf("voters %v on node %d", want, i+1), func() bool { return fmt.Sprint(c.voters(i)) == fmt.Sprint(want) })
		}
	}
}

// refused starts node i, which must fail with an error of one line that says what.
func (c *nodes) refused(i int, what ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := Start(ctx, c.options[i])
	if err == nil {
		stopNode(c.t, n)
		c.t.Fatalf("node %d was started", i+1)
	}
	for _, text := range append(what, "") {
		if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
			c.t.Errorf("node %d: %q, want %q", i+1, err, text)
		}
	}
}

func (c *nodes) directory(i int) string { return c.running[i].directoryID().String() }

// Most of the voters form a cluster; the last comes later, with what it learns, and votes then, too.
func TestMostVotersFormACluster(t *testing.T) {
	c := newNodes(t, 3)
	c.start(0, 2)
	if err := c.create(0, "early", 2); err != nil {
		t.Fatal(err)
	}
	c.wantVoters(1, 3)
	c.start(1)
	c.wantVoters(1, 2, 3)
	if err := c.create(1, "late", 3); err != nil {
		t.Fatal(err)
	}
	c.stop(0) // the one that began it is not needed any more
	if err := c.create(1, "without-the-first", 2); err != nil {
		t.Fatal(err)
	}
	for i := range c.running {
		c.stop(i)
	}
	c.start(1, 2)
	if err := c.create(2, "after-all", 2); err != nil {
		t.Fatal(err)
	}
}

// Brokers without a vote and controllers without partitions make a cluster, too; each finds the others by one address.
func TestRolesApart(t *testing.T) {
	c := emptyCluster(t)
	at := freePorts(t, 1)
	c.add("process.roles=controller", "listeners=CONTROLLER://"+at[0], "controller.quorum.bootstrap.servers="+at[0])
	for range 2 {
		c.add("process.roles=broker", "controller.quorum.bootstrap.servers="+at[0])
	}
	c.start(0)
	c.start(1, 2)
	for i := 1; i <= 2; i++ {
		name := fmt.Sprint("t", i)
		if err := c.create(i, name, 2); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.running[1].members()); n != 3 {
		t.Errorf("%d members", n)
	}
	if c.running[0].image().Broker(1) != nil || c.running[1].image().Broker(3) == nil {
		t.Error("not the brokers alone are registered as such")
	}
	c.wantVoters(1)
	c.stop(0)
	c.start(0)
	c.stop(2)
	c.start(2)
	if err := c.create(2, "again", 2); err != nil {
		t.Fatal(err)
	}
}

// A broker that lost its disk comes anew: a learner may, nobody relies on its vote.
func TestEmptiedLearnerComesAnew(t *testing.T) {
	c := emptyCluster(t)
	at := freePorts(t, 1)
	c.add("listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://"+at[0], "controller.quorum.bootstrap.servers="+at[0])
	c.add("process.roles=broker", "controller.quorum.bootstrap.servers="+at[0])
	c.start(0, 1)
	twin := c.add("process.roles=broker", "controller.quorum.bootstrap.servers="+at[0], "node.id=2")
	c.refused(twin, "node id 2 is in use by a node with directory "+c.directory(1))
	was := c.directory(1)
	c.stop(1)
	c.options[1].FS = vfs.NewMem()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for { // it is believed alive until its session has ended
		n, err := Start(ctx, c.options[1])
		if err == nil {
			c.running[1], c.stopped[1] = n, false
			break
		}
		if !strings.Contains(err.Error(), "in use") {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	m, _ := c.running[0].members().Find(2)
	if now := c.directory(1); now == was || m.DirectoryID.String() != now || m.Voter {
		t.Errorf("it had %s and has %s, the quorum says %+v", was, now, m)
	}
	if err := c.create(1, "t", 2); err != nil {
		t.Fatal(err)
	}
}

// A voter whose metadata log alone is gone is refused, and so is a directory of another cluster.
func TestStrangeDirectoryOfAVoterIsRefused(t *testing.T) {
	c := newNodes(t, 3)
	c.start(0, 1, 2)
	c.wantVoters(1, 2, 3)
	was := c.directory(2)
	c.stop(2)
	disk := c.options[2].FS
	halfEmptied := disk.(*vfs.Mem).CrashClone(rand.New(rand.NewPCG(1, 1)), 100)
	if err := halfEmptied.RemoveAll("/data/__cluster_metadata-0"); err != nil {
		t.Fatal(err)
	}
	c.options[2].FS = halfEmptied
	c.refused(2, "the metadata log is gone", was)

	other := start(t, options(t, vfs.NewMem(), "node.id=3"))
	stopNode(t, other)
	c.options[2].FS = other.o.FS
	c.refused(2, "different clusters", other.ClusterID())

	c.options[2].FS = disk
	c.start(2)
	c.wantVoters(1, 2, 3)
	if err := c.create(2, "t", 3); err != nil {
		t.Fatal(err)
	}
}

// removeVoter and addVoter ask node i.
func (c *nodes) removeVoter(i int, m raftlog.Member) error {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = m.NodeID, m.DirectoryID
	resp, err := c.running[i].controller.Do(context.Background(), controllerPrincipal, req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.RemoveRaftVoterResponse).ErrorCode)
}

func (c *nodes) addVoter(i int, m raftlog.Member) error {
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID, req.TimeoutMillis = m.NodeID, m.DirectoryID, 5000
	for _, l := range m.Listeners {
		req.Listeners = append(req.Listeners, kmsg.AddRaftVoterRequestListener{Name: l.Listener, Host: l.Host, Port: l.Port})
	}
	resp, err := c.running[i].controller.Do(context.Background(), controllerPrincipal, req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.AddRaftVoterResponse).ErrorCode)
}

// Voters come and go while the cluster runs, the leader among them; what an emptied one was is taken out, and it comes
// anew.
func TestVotersComeAndGo(t *testing.T) {
	c := emptyCluster(t)
	at := freePorts(t, 4)
	for i := range at {
		c.add("listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://"+at[i], "controller.quorum.bootstrap.servers="+at[0])
	}
	c.start(0)
	c.start(1, 2, 3)
	c.wantVoters(1)
	self := func(i int) raftlog.Member {
		return raftlog.Member{NodeID: int32(i + 1), DirectoryID: c.running[i].directoryID(), Listeners: c.running[i].controllerEndpoints()}
	}
	for i := 1; i <= 3; i++ {
		if err := c.addVoter(3-i+1, self(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.wantVoters(1, 2, 3, 4)
	if err := c.addVoter(0, self(1)); err != kerr.DuplicateVoter {
		t.Error(err)
	}
	if err := c.removeVoter(2, self(0)); err != nil { // it leads
		t.Fatal(err)
	}
	c.wantVoters(2, 3, 4)
	if c.leader() == 0 {
		t.Error("it leads without a vote")
	}
	if err := c.removeVoter(2, self(0)); err != kerr.VoterNotFound {
		t.Error(err)
	}
	if err := c.create(0, "by-a-learner", 3); err != nil {
		t.Fatal(err)
	}
	gone := self(3)
	c.stop(3)
	c.options[3].FS = vfs.NewMem()
	c.refused(3, "node 4 votes")
	if err := c.removeVoter(0, gone); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2200 * time.Millisecond) // its session
	c.start(3)
	if err := c.addVoter(1, self(3)); err != nil {
		t.Fatal(err)
	}
	c.wantVoters(2, 3, 4)
	for i := range c.running {
		c.stop(i)
	}
	c.start(0, 1, 2, 3)
	c.wantVoters(2, 3, 4)
	if err := c.create(3, "after", 4); err != nil {
		t.Fatal(err)
	}
}

// atController sends a request of a version to a controller listener.
func atController[R kmsg.Response](t *testing.T, address string, version int16, req kmsg.Request) R {
	t.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(req.Key(), version)
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RequestRetries(0), kgo.MaxVersions(versions))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	resp, err := cl.SeedBrokers()[0].Request(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(R)
}

// A controller listener answers clients as Kafka's does: it names controllers, tells of the quorum with ids, times and
// addresses, decides where the node leads, and sends clients on where it does not.
func TestControllerListenerServesClients(t *testing.T) {
	c := newNodes(t, 3)
	c.add("process.roles=broker", "controller.quorum.voters="+c.options[0].Config.Text("controller.quorum.voters"))
	c.start(0, 1, 2)
	c.start(3)
	c.wantVoters(1, 2, 3)
	lead := c.leader()
	address := c.running[lead].Addr("CONTROLLER")
	described := atController[*kmsg.DescribeClusterResponse](t, address, 2, &kmsg.DescribeClusterRequest{EndpointType: 2})
	if described.ErrorCode != 0 || described.ControllerID != int32(lead+1) || len(described.Brokers) != 3 || described.ClusterID != c.running[0].ClusterID() {
		t.Errorf("%+v", described)
	}
	for _, tt := range []struct {
		version int16
		kind    int8
		code    int16
	}{{1, 1, kerr.MismatchedEndpointType.Code}, {2, 3, kerr.UnsupportedEndpointType.Code}, {0, 0, kerr.InvalidRequest.Code}} {
		if resp := atController[*kmsg.DescribeClusterResponse](t, address, tt.version, &kmsg.DescribeClusterRequest{EndpointType: tt.kind}); resp.ErrorCode != tt.code {
			t.Errorf("endpoints of type %d in version %d: %d", tt.kind, tt.version, resp.ErrorCode)
		}
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	c.eventually("everybody in the quorum", func() bool {
		q := atController[*kmsg.DescribeQuorumResponse](t, address, 2, quorum)
		p := q.Topics[0].Partitions[0]
		now := time.Now().UnixMilli()
		for _, m := range append(p.CurrentVoters, p.Observers...) {
			if m.ReplicaDirectoryID != c.running[m.ReplicaID-1].directoryID() || now-m.LastFetchTimestamp > 2000 || now-m.LastCaughtUpTimestamp > 2000 {
				return false
			}
		}
		return len(p.CurrentVoters) == 3 && len(p.Observers) == 1 && len(q.Nodes) == 3 && q.Nodes[0].Listeners[0].Name == "CONTROLLER"
	})
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 1, ReplicationFactor: 4}}
	other := c.running[(lead+1)%3].Addr("CONTROLLER")
	if resp := atController[*kmsg.CreateTopicsResponse](t, other, 7, create); resp.Topics[0].ErrorCode != kerr.NotController.Code {
		t.Errorf("a controller that does not lead answers %d", resp.Topics[0].ErrorCode)
	}
	if resp := atController[*kmsg.CreateTopicsResponse](t, address, 7, create); resp.Topics[0].ErrorCode != 0 {
		t.Errorf("the leader answers %d", resp.Topics[0].ErrorCode)
	}
	for id, want := range map[int32]int16{int32(lead + 1): kerr.InvalidRequest.Code, 77: kerr.ControllerIDNotRegistered.Code} {
		if resp := atController[*kmsg.UnregisterControllerResponse](t, address, 0, &kmsg.UnregisterControllerRequest{ControllerID: id}); resp.ErrorCode != want {
			t.Errorf("unregistering controller %d: %d", id, resp.ErrorCode)
		}
	}
	// A broker that leaves for good leaves the quorum, too.
	c.stop(3)
	c.eventually("farewell", func() bool {
		atController[*kmsg.UnregisterBrokerResponse](t, address, 0, &kmsg.UnregisterBrokerRequest{BrokerID: 4})
		_, known := c.running[lead].members().Find(4)
		return !known
	})
}
