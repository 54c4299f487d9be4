// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/dns"
	"minik8s.io/minik8s/pkg/kubelet"
	"minik8s.io/minik8s/pkg/kubelet/container/docker"
	"minik8s.io/minik8s/pkg/network/nodenet"
	"minik8s.io/minik8s/pkg/network/routes"
	nodes "minik8s.io/minik8s/pkg/node"
)

// nodesDir holds what the nodes of this machine keep, but the first.
func nodesDir(c Config) nodes.Dir { return nodes.Dir(filepath.Join(c.DataDir, "nodes")) }

// of is the configuration of one of the nodes: its data are in its own folder.
func (c Config) of(n nodes.Node) Config {
	c.DataDir = nodesDir(c).Of(n.Name)
	c.Kubelet.NodeName, c.Kubelet.NodeIP, c.Kubelet.PodCIDR = n.Name, pairText(n.IPs()), n.PodCIDR
	c.Kubelet.MaxPods = cmp.Or(n.Size.Pods, c.Kubelet.MaxPods)
	return c
}

// kubeletDirs are the kubelet's root directories of all nodes of the machine, which have one engine.
func kubeletDirs(c Config) ([]string, error) {
	dirs := []string{kubeletDir(c)}
	list, err := nodesDir(c).List()
	for _, n := range list {
		dirs = append(dirs, kubeletDir(c.of(n)))
	}
	return dirs, err
}

func nodeNetwork(c Config, machine []netip.Addr) (*nodenet.Network, error) {
	subnets, err := settledRanges("networking.nodeSubnet", c.Networking.NodeSubnet)
	if err != nil {
		return nil, err
	}
	_, pods, err := nodePods(c)
	if err != nil {
		return nil, err
	}
	return nodenet.New(nodenet.Config{
		Cluster: c.Name, Dir: filepath.Join(c.DataDir, "netns"), Subnets: subnets, Pods: pods, Machine: machine,
	}), nil
}

// fleet are the nodes of this process but the first, which is the machine. Which there are is on disk; a fleet brings about that they
// are as it says there, and is told to change it. Safe for concurrent use.
type fleet struct {
	config Config
	dir    nodes.Dir
	counts func(nodes int) error // keeps how many nodes there are, with the first

	// What follows is there once it runs.
	ctx     context.Context
	admin   kubernetes.Interface
	machine []netip.Addr // its addresses, by which others reach it
	host    nodeHost

	changing chan struct{} // is full while somebody changes the list
	mu       sync.Mutex    // guards running
	running  map[string]*runningNode
}

// runningNode are the parts of a node.
type runningNode struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func newFleet(c Config, counts func(int) error) *fleet {
	return &fleet{
		config: c, dir: nodesDir(c), counts: counts, changing: make(chan struct{}, 1), running: map[string]*runningNode{},
	}
}

// moreNodes makes the fleet. It watches Services together with the first node, whose DNS answers on all, and which has the same engine.
func (r *runner) moreNodes(shared informers.SharedInformerFactory, names *dns.Server, pulls *kubelet.ImagePulls) (func(context.Context) error, error) {
	network, err := nodeNetwork(r.config, r.nodeIPs)
	if err != nil {
		return nil, err
	}
	f := r.fleet
	if f.admin, err = r.client("minik8s", "kubernetes-admin", "system:masters"); err != nil {
		return nil, err
	}
	f.machine = r.nodeIPs
	f.host = &thisMachine{
		config: r.config, credentials: r.credentials, shared: shared, services: r.services, pulls: pulls, network: network, dns: names,
	}
	return func(ctx context.Context) error {
		parts, ctx := errgroup.WithContext(ctx)
		parts.Go(func() error { network.Start(ctx); return nil })
		parts.Go(func() error { return f.run(ctx) })
		return parts.Wait()
	}, nil
}

// run brings about that nodes are as it says on disk, and as many as there are to be, and takes orders until ctx ends. Pods go on
// running when it returns.
func (f *fleet) run(ctx context.Context) error {
	f.ctx = ctx
	orders, err := f.listen()
	if err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return f.begin(ctx) })
	parts.Go(func() error { return orders(ctx) })
	err = parts.Wait()
	f.mu.Lock()
	all := f.running
	f.running = map[string]*runningNode{}
	f.mu.Unlock()
	for _, n := range all {
		n.stop()
		<-n.ended
	}
	return err
}

// change waits for the turn to change the list, which lasts until done is called. Nobody waits longer than ctx lasts: what the one before
// does may hang.
func (f *fleet) change(ctx context.Context) (done func(), err error) {
	select {
	case f.changing <- struct{}{}:
		return func() { <-f.changing }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting until another change of the nodes is done: %w", context.Cause(ctx))
	}
}

// begin brings about what the records say, of as many nodes as there are to be. What fails for one of them is no reason for the others
// and the control plane to end: it is tried again until ctx ends.
func (f *fleet) begin(ctx context.Context) error {
	failed, err := f.resumeAll(ctx)
	if err != nil && ctx.Err() == nil { // else the cluster ends
		return err
	}
	var tries sync.WaitGroup
	for _, name := range failed {
		tries.Go(func() { f.retry(ctx, name) })
	}
	tries.Wait()
	return nil
}

// resumeAll makes the nodes that are missing and resumes all. It returns the names of those for which that fails.
func (f *fleet) resumeAll(ctx context.Context) (failed []string, err error) {
	done, err := f.change(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := f.dir.List()
	if err != nil {
		return nil, err
	}
	for _, name := range missing(f.config, list) {
		n, err := f.note(list, nodes.Node{Name: name})
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	errs := make([]error, len(list))
	for i, n := range list {
		// One after the other: ranges are noted in one place, and of several at once all but one would have to look again.
		list[i], errs[i] = f.registered(ctx, n)
	}
	var all sync.WaitGroup
	for i, n := range list {
		if errs[i] == nil {
			all.Go(func() { errs[i] = f.resume(ctx, n) })
		}
	}
	all.Wait()
	for i, n := range list {
		if errs[i] != nil {
			reportLater(ctx, n.Name, errs[i])
			failed = append(failed, n.Name)
		}
	}
	return failed, f.count("")
}

// retry resumes a node until that succeeds or ctx ends.
func (f *fleet) retry(ctx context.Context, name string) {
	for pause(ctx) {
		err := f.resumeAgain(ctx, name)
		if err == nil {
			return
		}
		reportLater(ctx, name, err)
	}
}

// resumeAgain resumes a node as it is to be by now. Somebody may have removed it.
func (f *fleet) resumeAgain(ctx context.Context, name string) error {
	done, err := f.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	n, _, err := f.find(name)
	if isProblem(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.resume(ctx, n)
}

// reportLater tells of a node that is not what it is to be, and is seen to again. That the cluster ends is no news.
func reportLater(ctx context.Context, name string, err error) {
	if ctx.Err() == nil {
		klog.FromContext(ctx).WithName(name).Error(err, "A node could not be resumed, that is tried again")
	}
}

// resume does what a process that was killed may have left undone, and starts the node if it is to run. The caller has the turn.
func (f *fleet) resume(ctx context.Context, n nodes.Node) error {
	switch n.State {
	case nodes.Removing:
		return f.finishRemoval(ctx, n)
	case nodes.Stopped:
		return f.host.cutOff(ctx, n)
	}
	return f.start(ctx, n)
}

// staying are the nodes that are not being removed.
func staying(list []nodes.Node) []nodes.Node {
	return slices.DeleteFunc(slices.Clone(list), func(n nodes.Node) bool { return n.State == nodes.Removing })
}

// missing names the nodes that a start makes, so that there are as many as there are to be.
func missing(c Config, list []nodes.Node) []string {
	var names []string
	list = slices.Clone(list)
	for range c.NodeCount() - 1 - len(staying(list)) {
		n := nodes.Node{Name: nodes.NextName(c.Name, list)}
		names, list = append(names, n.Name), append(list, n)
	}
	return names
}

// count keeps how many nodes there are to be, without one that is about to go: those that are being removed do not come again. The caller
// has the turn.
func (f *fleet) count(without string) error {
	list, err := f.dir.List()
	if err != nil {
		return err
	}
	return f.counts(1 + len(slices.DeleteFunc(staying(list), func(n nodes.Node) bool { return n.Name == without })))
}

func (f *fleet) runs(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[name] != nil
}

// note writes a new node down, with an address of each family.
func (f *fleet) note(list []nodes.Node, n nodes.Node) (nodes.Node, error) {
	subnets, err := settledRanges("networking.nodeSubnet", f.config.Networking.NodeSubnet)
	if err != nil {
		return n, err
	}
	if n.IP, err = nodes.NextIP(subnets[0], list); err != nil {
		return n, err
	}
	if len(subnets) > 1 {
		if n.SecondIP, err = nodes.NextIP(subnets[1], list); err != nil {
			return n, err
		}
	}
	n.State = nodes.Running
	return n, f.dir.Write(n)
}

// start makes the network of a node and runs its parts. One that runs stays as it is.
func (f *fleet) start(ctx context.Context, n nodes.Node) error {
	if f.runs(n.Name) {
		return nil
	}
	n, err := f.registered(ctx, n)
	if err != nil {
		return err
	}
	if err := f.tellMachine(ctx, n.Name); err != nil {
		return err
	}
	run, err := f.host.build(n)
	if err != nil {
		return fmt.Errorf("node %q: %w", n.Name, err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(f.ctx, klog.FromContext(f.ctx).WithName(n.Name)))
	r := &runningNode{stop: cancel, ended: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[n.Name] = r
	go func() {
		defer close(r.ended)
		f.keep(ctx, n, run)
	}()
	return nil
}

// registered gives a new node that is to run a range for its pods, among all nodes of the cluster.
func (f *fleet) registered(ctx context.Context, n nodes.Node) (nodes.Node, error) {
	if n.State != nodes.Running || n.PodCIDR != "" {
		return n, nil
	}
	pods, err := register(ctx, f.admin, f.config, joiner{name: n.Name, ips: n.IPs(), key: besideKey})
	if err != nil {
		return n, err
	}
	n.PodCIDR = pods
	return n, f.dir.Write(n)
}

// tellMachine tells other machines that the node is behind this one. A node that somebody has deleted registers itself, without that.
func (f *fleet) tellMachine(ctx context.Context, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, routes.BehindAnnotation, pairText(f.machine))
	_, err := f.admin.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("telling where node %q is: %w", name, err)
	}
	return nil
}

// again is after how long something is tried anew that has failed, or a node started whose parts have ended by themselves.
const again = 5 * time.Second

// pause waits until something may be tried again. False: it may not, for ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(again):
		return true
	}
}

// keep runs the parts of a node until ctx ends. That those of one fail is no reason for the others to end.
func (f *fleet) keep(ctx context.Context, n nodes.Node, run func(context.Context) error) {
	for {
		err := run(ctx)
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "A node has ended, it is started anew")
		for run = nil; run == nil; {
			if !pause(ctx) {
				return
			}
			if run, err = f.host.build(n); err != nil {
				klog.FromContext(ctx).Error(err, "A node cannot be started")
			}
		}
	}
}

// halt ends the parts of a node. Its pods go on.
func (f *fleet) halt(name string) {
	f.mu.Lock()
	r := f.running[name]
	delete(f.running, name)
	f.mu.Unlock()
	if r != nil {
		r.stop()
		<-r.ended
	}
}

// clearNodes removes what the nodes of a cluster without a process have outside its data directory, but containers.
func clearNodes(_ context.Context, c Config) error {
	if c.Networking.NodeSubnet == "" {
		return nil // of a cluster that was never more than one
	}
	list, err := nodesDir(c).List()
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range list {
		errs = append(errs, clearNode(c.of(n)))
	}
	network, err := nodeNetwork(c, nil)
	if err == nil {
		err = network.Purge()
	}
	return errors.Join(append(errs, err)...)
}

// clearGroups removes the cgroups of the pods of all nodes. Their containers must be gone.
func clearGroups(ctx context.Context, c Config) error {
	roots := []string{cgroupRoot(c)}
	list, err := nodesDir(c).List()
	for _, n := range list {
		roots = append(roots, cgroupRootOf(c.of(n)))
	}
	if err != nil {
		return err
	}
	return withRuntime(c, func(r *docker.Runtime) error { return kubelet.ClearGroups(ctx, r, roots...) })
}

// clearNode removes what a node of the machine has outside its folder, but its network and cgroups; c is the node's own. Its containers
// must be gone.
func clearNode(c Config) error {
	dir := kubeletDir(c)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return os.RemoveAll(networkDir(c))
	}
	return errors.Join(kubelet.ClearApart(dir), unmountAll(dir), os.RemoveAll(networkDir(c)))
}

// keepNodes makes of a configuration one with as many nodes as there are, which a process that was killed may not have noted. It refuses
// one with fewer: which are not wanted is not said.
func keepNodes(before, c Config, list []nodes.Node) (Config, error) {
	there := len(staying(list)) + 1
	if there == 1 || c.NodeCount() >= there {
		return c, nil
	}
	if c.NodeCount() == before.NodeCount() {
		c.Nodes = &there
		return c, nil
	}
	return c, &Problem{
		Cause:  fmt.Sprintf("cluster %q has %d nodes, not %d", c.Name, there, c.NodeCount()),
		Remedy: "start it with those, and say which are not wanted any more: minik8s node remove NAME",
	}
}

// nodesReady says which nodes of the machine are missing, but the first.
func nodesReady(ctx context.Context, client kubernetes.Interface, c Config, since time.Time) (string, error) {
	list, err := nodesDir(c).List()
	if err != nil {
		return "", err
	}
	if left := missing(c, list); len(left) > 0 {
		return fmt.Sprintf("%d of %d nodes are not made", len(left), c.NodeCount()), nil
	}
	for _, n := range list {
		if n.State != nodes.Running {
			continue
		}
		if missing, err := nodeReady(ctx, client, n.Name, since); missing != "" || err != nil {
			return missing, err
		}
	}
	return "", nil
}
