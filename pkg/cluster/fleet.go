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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
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
	c.Kubelet.NodeName, c.Kubelet.NodeIP, c.Kubelet.PodCIDR = n.Name, n.IP.String(), n.PodCIDR
	c.Kubelet.MaxPods = cmp.Or(n.Size.Pods, c.Kubelet.MaxPods)
	return c
}

func nodeNetwork(c Config) (*nodenet.Network, error) {
	subnet, err := netip.ParsePrefix(c.Networking.NodeSubnet)
	if err != nil {
		return nil, fmt.Errorf("networking.nodeSubnet: %w", err)
	}
	_, pods, err := nodePods(c)
	if err != nil {
		return nil, err
	}
	return nodenet.New(nodenet.Config{Cluster: c.Name, Dir: filepath.Join(c.DataDir, "netns"), Subnet: subnet, Pods: pods}), nil
}

// fleet are the nodes of this process but the first, which is the machine. Which there are is on disk; a fleet brings about that they
// are as it says there, and is told to change it. Safe for concurrent use.
type fleet struct {
	config Config
	dir    nodes.Dir
	counts func(nodes int) error // keeps how many nodes there are, with the first

	// What follows is there once it runs.
	ctx         context.Context
	credentials *credentials
	admin       kubernetes.Interface
	shared      informers.SharedInformerFactory
	services    netip.Prefix
	machine     netip.Addr          // its address, by which others reach it
	pulls       *kubelet.ImagePulls // of the one engine
	network     *nodenet.Network
	dns         *dns.Server // answers on every node

	changing sync.Mutex // one change of the list at a time
	mu       sync.Mutex // guards names and running
	names    map[string]bool
	running  map[string]*runningNode
}

// runningNode are the parts of a node.
type runningNode struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func newFleet(c Config, counts func(int) error) *fleet {
	return &fleet{config: c, dir: nodesDir(c), counts: counts, names: map[string]bool{}, running: map[string]*runningNode{}}
}

// has tells whether a node is one of this process.
func (f *fleet) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[name] || f.config.NodeCount() > 0 && name == f.config.Kubelet.NodeName
}

// moreNodes makes the fleet. It watches Services together with the first node, whose DNS answers on all.
func (r *runner) moreNodes(shared informers.SharedInformerFactory, names *dns.Server) (func(context.Context) error, error) {
	f := r.fleet
	var err error
	if f.network, err = nodeNetwork(r.config); err != nil {
		return nil, err
	}
	if f.admin, _, err = r.informers("minik8s", "kubernetes-admin", "system:masters"); err != nil {
		return nil, err
	}
	f.credentials, f.shared, f.services, f.machine, f.dns = r.credentials, shared, r.services, r.nodeIP, names
	return f.run, nil
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
	parts.Go(func() error { f.network.Start(ctx); return nil })
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

func (f *fleet) begin(ctx context.Context) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	list, err := f.dir.List()
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, n := range list {
		group.Go(func() error { return f.resume(ctx, n) })
	}
	for len(list)+1 < f.config.NodeCount() {
		n, err := f.note(list, nodes.Node{Name: nodes.NextName(f.config.Name, list)})
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		list = append(list, n)
		group.Go(func() error { return f.resume(ctx, n) })
	}
	err = group.Wait()
	if ctx.Err() != nil {
		return nil // the cluster ends
	}
	return errors.Join(err, f.count())
}

// resume does what a process that was killed may have left undone, and starts the node if it is to run.
func (f *fleet) resume(ctx context.Context, n nodes.Node) error {
	switch n.State {
	case nodes.Removing:
		return f.finishRemoval(ctx, n)
	case nodes.Stopped:
		f.know(n.Name, true)
		return f.cutOff(ctx, n)
	}
	return f.start(ctx, n)
}

// count keeps how many nodes there are. The caller holds changing.
func (f *fleet) count() error {
	list, err := f.dir.List()
	if err != nil {
		return err
	}
	return f.counts(1 + len(list))
}

func (f *fleet) know(name string, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names[name] = is
}

// note writes a new node down, with an address.
func (f *fleet) note(list []nodes.Node, n nodes.Node) (nodes.Node, error) {
	subnet, err := netip.ParsePrefix(f.config.Networking.NodeSubnet)
	if err != nil {
		return n, fmt.Errorf("networking.nodeSubnet: %w", err)
	}
	if n.IP, err = nodes.NextIP(subnet, list); err != nil {
		return n, err
	}
	n.State = nodes.Running
	return n, f.dir.Write(n)
}

// start makes the network of a node and runs its parts.
func (f *fleet) start(ctx context.Context, n nodes.Node) error {
	f.know(n.Name, true)
	if n.PodCIDR == "" { // it is new, and among all nodes of the cluster its pods need a range
		var err error
		if n.PodCIDR, err = register(ctx, f.admin, f.config, joiner{name: n.Name, ip: n.IP}); err != nil {
			return err
		}
		if err := f.dir.Write(n); err != nil {
			return err
		}
	}
	if err := f.tellMachine(ctx, n.Name); err != nil {
		return err
	}
	if err := f.network.Add(n.Name, n.IP); err != nil {
		return err
	}
	run, err := f.build(n)
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

// tellMachine tells other machines that the node is behind this one. A node that somebody has deleted registers itself, without that.
func (f *fleet) tellMachine(ctx context.Context, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, routes.BehindAnnotation, f.machine)
	_, err := f.admin.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("telling where node %q is: %w", name, err)
	}
	return nil
}

// again is after how long the parts of a node are started anew that have ended by themselves.
const again = 5 * time.Second

// keep runs the parts of a node until ctx ends. That those of one fail is no reason for the others to end.
func (f *fleet) keep(ctx context.Context, n nodes.Node, run func(context.Context) error) {
	for {
		err := run(ctx)
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "A node has ended, it is started anew")
		for run = nil; run == nil; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(again):
			}
			if err = f.network.Add(n.Name, n.IP); err == nil {
				run, err = f.build(n)
			}
			if err != nil {
				klog.FromContext(ctx).Error(err, "A node cannot be started")
			}
		}
	}
}

// build makes the parts of a node.
func (f *fleet) build(n nodes.Node) (func(context.Context) error, error) {
	subnet, err := netip.ParsePrefix(f.config.Networking.NodeSubnet)
	if err != nil {
		return nil, fmt.Errorf("networking.nodeSubnet: %w", err)
	}
	made := &node{
		config: f.config.of(n), ip: n.IP, dnsIP: dnsIP(f.services), ca: f.credentials.ca.Cert,
		serving: f.credentials.ca.Leaf(nodeRequest(n.Name, n.IP)).Certificate, pulls: f.pulls,
		apart: apart{
			netNS: f.network.Path(n.Name), segment: subnet, shared: f.shared, names: f.dns, size: kubelet.Size{CPU: n.Size.CPU, Memory: n.Size.Memory},
		},
	}
	if made.kubelet, err = f.credentials.Client(nodeUser(n.Name), nodeGroup); err != nil {
		return nil, err
	}
	if made.proxy, err = f.credentials.Client(policy.ServicesUser); err != nil {
		return nil, err
	}
	if made.policy, err = f.credentials.Client(policy.NetworkPolicyUser); err != nil {
		return nil, err
	}
	return made.build()
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

// cutOff ends the processes of a node whose parts do not run, and its network.
func (f *fleet) cutOff(ctx context.Context, n nodes.Node) error {
	err := withRuntime(f.config.of(n), func(r *docker.Runtime) error { return r.KillNode(ctx) })
	return errors.Join(err, f.network.Remove(n.Name))
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
	network, err := nodeNetwork(c)
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
func keepNodes(before, c Config) (Config, error) {
	list, err := nodesDir(c).List()
	there := len(list) + 1
	if err != nil || len(list) == 0 || c.NodeCount() >= there {
		return c, err
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
	if len(list)+1 < c.NodeCount() {
		return fmt.Sprintf("%d of %d nodes are not made", c.NodeCount()-1-len(list), c.NodeCount()), nil
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
