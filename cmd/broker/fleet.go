package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"grete/cmd/broker/node"
	"grete/internal/config"
	"grete/internal/vfs"
)

// maxFleet bounds --brokers.
const maxFleet = 9

// fleet are the brokers of the process: one, or those of --brokers.
type fleet struct {
	nodes   []*node.Node
	failed  chan error
	stopped chan struct{}
	wg      sync.WaitGroup
}

// startFleet starts all side by side; when one cannot start, none does.
func startFleet(ctx context.Context, options []node.Options) (*fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes, errs := make([]*node.Node, len(options)), make([]error, len(options))
	var starting sync.WaitGroup
	for i, o := range options {
		starting.Go(func() {
			if nodes[i], errs[i] = node.Start(ctx, o); errs[i] != nil {
				cancel()
			}
		})
	}
	starting.Wait()
	f := &fleet{nodes: slices.DeleteFunc(nodes, func(n *node.Node) bool { return n == nil }), failed: make(chan error, 1), stopped: make(chan struct{})}
	if err := cause(errs); err != nil {
		stopCtx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer done()
		return nil, errors.Join(err, f.Stop(stopCtx))
	}
	for _, n := range f.nodes {
		f.wg.Go(func() { f.watch(n) })
	}
	return f, nil
}

// cause is the error that made the others give up.
func cause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// watch passes on the failure of one, with which all stop.
func (f *fleet) watch(n *node.Node) {
	select {
	case err := <-n.Failed():
		select {
		case f.failed <- err:
		default:
		}
	case <-f.stopped:
	}
}

// Failed delivers the error after which the process cannot go on.
func (f *fleet) Failed() <-chan error { return f.failed }

// Stop has one after the other leave: each hands over while there are enough to hand over to, and no quorum is lost
// meanwhile. Then all stop side by side, for they wait for the same disk.
func (f *fleet) Stop(ctx context.Context) error {
	close(f.stopped)
	f.wg.Wait()
	for _, n := range slices.Backward(f.nodes) {
		n.Leave(ctx)
	}
	errs := make([]error, len(f.nodes))
	var stopping sync.WaitGroup
	for i, n := range f.nodes {
		stopping.Go(func() { errs[i] = n.Stop(ctx) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// reserved are loopback sockets that were bound before those who use them were told their ports.
type reserved struct {
	mu        sync.Mutex
	byAddress map[string]net.Listener
}

func (r *reserved) reserve() (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	r.byAddress[l.Addr().String()] = l
	return l.Addr().String(), nil
}

// listen is net.Listen, and hands out what is reserved.
func (r *reserved) listen(network, address string) (net.Listener, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byAddress[address]; l != nil {
		delete(r.byAddress, address)
		return l, nil
	}
	return net.Listen(network, address)
}

// close lets go of what nobody has taken.
func (r *reserved) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.byAddress {
		l.Close()
	}
}

// fleetOwns are properties that --brokers settles.
var fleetOwns = []string{"node.id", "broker.id", "listeners", "advertised.listeners", "controller.quorum.voters", "controller.quorum.bootstrap.servers", "process.roles", "gossip.join"}

// adminAddresses are properties with an address, of which each broker of --brokers takes the next port.
var adminAddresses = []string{"admin.listen", "admin.pprof.listen"}

// loadFleet is the configuration of each broker of --brokers: the common one, and what makes them a cluster on this
// machine.
func (f *serveFlags) loadFleet(files vfs.FS, env []string, r *reserved) ([]*config.Broker, error) {
	if f.brokers < 1 || f.brokers > maxFleet {
		return nil, fmt.Errorf("config: --brokers=%d: from 1 to %d", f.brokers, maxFleet)
	}
	common, err := f.load(files, env, nil)
	if err == nil && f.brokers == 1 {
		err = checkSingle(files, common)
	}
	if err != nil || f.brokers == 1 {
		return []*config.Broker{common}, err
	}
	if err := f.checkFleet(files, common); err != nil {
		return nil, err
	}
	controllers := make([]string, f.brokers)
	var voters []string
	for i := range controllers {
		if controllers[i], err = r.reserve(); err != nil {
			return nil, err
		}
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, controllers[i]))
	}
	out := make([]*config.Broker, f.brokers)
	for i, controller := range controllers {
		own := f.ownOf(common, i)
		own["controller.quorum.voters"] = strings.Join(voters, ",")
		own["listeners"] += ",CONTROLLER://" + controller
		if out[i], err = f.load(files, env, own); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkFleet refuses what --brokers would overrule, and data of a single broker where it would put its own.
func (f *serveFlags) checkFleet(files vfs.FS, common *config.Broker) error {
	for _, name := range fleetOwns {
		if _, set := common.Chosen(name); set && (name != "listeners" || f.listen == "") {
			return fmt.Errorf("config: --brokers=%d: settles %s by itself", f.brokers, name)
		}
	}
	if err := f.checkPorts(common); err != nil {
		return err
	}
	for _, dir := range common.LogDirs {
		if hasBroker(files, dir) {
			return fmt.Errorf("config: --brokers=%d: %s has the data of a single broker; name another --data-dir", f.brokers, dir)
		}
	}
	return nil
}

// checkPorts refuses a first port after which there are too few.
func (f *serveFlags) checkPorts(common *config.Broker) error {
	ports := map[string]string{"--listen": strconv.Itoa(int(common.Listeners[0].Port))}
	for _, name := range adminAddresses {
		if _, port, err := net.SplitHostPort(common.Text(name)); err == nil {
			ports[name] = port
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		if n, err := strconv.Atoi(ports[name]); err == nil && n != 0 && n+f.brokers-1 > math.MaxUint16 {
			return fmt.Errorf("config: --brokers=%d: from port %s of %s on there are only %d", f.brokers, ports[name], name, math.MaxUint16-n+1)
		}
	}
	return nil
}

// checkSingle refuses a single broker where those of --brokers have their data: its own would lock them out.
func checkSingle(files vfs.FS, cfg *config.Broker) error {
	for _, dir := range cfg.LogDirs {
		n := 0
		for n < maxFleet && hasBroker(files, path.Join(dir, strconv.Itoa(n+1))) {
			n++
		}
		if n > 1 && !hasBroker(files, dir) {
			return fmt.Errorf("config: %s holds the brokers of --brokers; start it with --brokers %d, or name another --data-dir", dir, n)
		}
	}
	return nil
}

// hasBroker says whether a directory is a broker's; one that cannot be read may be.
func hasBroker(files vfs.FS, dir string) bool {
	_, err := vfs.ReadFile(files, path.Join(dir, "meta.properties"), maxConfigBytes)
	return !errors.Is(err, fs.ErrNotExist)
}

// ownOf are the properties of the broker at an index: ports one after the other, directories by number.
func (f *serveFlags) ownOf(common *config.Broker, i int) map[string]string {
	own := map[string]string{"node.id": strconv.Itoa(i + 1)}
	l := common.Listeners[0]
	if l.Port != 0 {
		l.Port += uint16(i)
	}
	own["listeners"] = "PLAINTEXT://" + l.Address()
	if _, chosen := common.Chosen("offsets.topic.replication.factor"); !chosen && f.brokers == 2 { // Kafka's is 3
		own["offsets.topic.replication.factor"], own["transaction.state.log.replication.factor"] = "2", "2"
	}
	var dirs []string
	for _, dir := range common.LogDirs {
		dirs = append(dirs, path.Join(dir, strconv.Itoa(i+1)))
	}
	own["log.dirs"] = strings.Join(dirs, ",")
	for _, name := range adminAddresses {
		if host, port, err := net.SplitHostPort(common.Text(name)); err == nil && port != "0" {
			n, _ := strconv.Atoi(port)
			own[name] = net.JoinHostPort(host, strconv.Itoa(n+i))
		}
	}
	return own
}
