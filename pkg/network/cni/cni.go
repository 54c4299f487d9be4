// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cni is the network.Plugin for who brings a network of one's own: pods are connected by the programs that a configuration of
// the Container Network Interface names. Touch it for how these are called; what they do is theirs.
// https://www.cni.dev/docs/spec/
package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/moby/sys/atomicwriter"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/bandwidth"
	"minik8s.io/minik8s/pkg/network/keyedmutex"
)

// podLink is the name of a pod's end, as everywhere in Kubernetes.
const podLink = "eth0"

// deadline is how long the programs of a configuration may take in all, as the CRI's clients have it.
const deadline = 2 * time.Minute

// farewell is how long they may take at a purge, for all sandboxes together. It is less than what a caller gives to the whole of it, so
// that a network that does not answer is told from a caller who does not want to wait.
const farewell = 30 * time.Second

// Config configures a Plugin. All fields are required.
type Config struct {
	// ConfDir has configurations, of which the first by name counts, and is looked for at each pod; BinDirs have the programs.
	ConfDir string
	BinDirs []string
	// StateDir is where is kept what was done.
	StateDir string
}

// Plugin implements network.Plugin.
type Plugin struct {
	config Config
	lib    libcni.CNI
	// farewell is shorter in tests.
	farewell time.Duration
	// boot is the machine's present one, "" if it has no name.
	boot string
	// sandboxes serializes work on one sandbox.
	sandboxes keyedmutex.Mutex

	mu      sync.Mutex
	records map[string]*record // by sandbox; the values do not change
}

var _ network.Plugin = (*Plugin)(nil)

// record is what is kept of a sandbox before anything is done about it. It has what undoes that, whatever becomes of the configuration.
type record struct {
	Network json.RawMessage
	Args    [][2]string
	// NetNS is where the network namespace was found, Inode which it was: the path is another one's when the process has ended. Boot is when:
	// a machine that has started again gives the same processes and namespaces the same numbers.
	NetNS string
	Inode uint64
	Boot  string `json:",omitempty"`
	// Addrs are there once the sandbox is connected.
	Addrs []netip.Addr `json:",omitempty"`
}

// New returns a Plugin with what is on disk.
func New(config Config) (*Plugin, error) {
	if config.ConfDir == "" || len(config.BinDirs) == 0 || config.StateDir == "" {
		return nil, errors.New("cni: ConfDir, BinDirs and StateDir are required")
	}
	p := &Plugin{
		config: config, farewell: farewell, records: map[string]*record{},
		lib: libcni.NewCNIConfigWithCacheDir(config.BinDirs, filepath.Join(config.StateDir, "cache"), &programs{}),
	}
	if boot, err := os.ReadFile(bootFile); err == nil {
		p.boot = strings.TrimSpace(string(boot))
	}
	files, err := os.ReadDir(p.dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading what is connected: %w", err)
	}
	for _, f := range files {
		id, is := strings.CutSuffix(f.Name(), ".json")
		if !is {
			continue // was not completed
		}
		data, err := os.ReadFile(filepath.Join(p.dir(), f.Name()))
		r := &record{}
		if err == nil {
			err = json.Unmarshal(data, r)
		}
		if err != nil {
			return nil, fmt.Errorf("reading what is connected: %s: %w", f.Name(), err)
		}
		p.records[id] = r
	}
	return p, nil
}

// bootFile is where the kernel names the time since it was started.
const bootFile = "/proc/sys/kernel/random/boot_id"

// is tells whether a record is of the namespace of a number. One that is older than names of boots is taken at its word.
func (p *Plugin) is(r *record, inode uint64) bool {
	return r.Inode == inode && (r.Boot == p.boot || r.Boot == "")
}

func (p *Plugin) dir() string           { return filepath.Join(p.config.StateDir, "sandboxes") }
func (p *Plugin) file(id string) string { return filepath.Join(p.dir(), id+".json") }

func (p *Plugin) record(sandboxID string) *record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.records[sandboxID]
}

// Start implements network.Plugin. The configuration may come later: often a pod on the node's network brings it.
func (p *Plugin) Start(context.Context) error {
	if err := os.MkdirAll(p.dir(), 0o700); err != nil {
		return fmt.Errorf("making the directory of connected sandboxes: %w", err)
	}
	return nil
}

// Ready implements network.Plugin.
func (p *Plugin) Ready() error { return Configured(p.config.ConfDir) }

// errAhead is why there are no addresses before there is a network.
var errAhead = errors.New("a network by CNI gives addresses only to a sandbox that runs")

// Reserve implements network.Plugin: it always fails, and so nothing is made ahead of the network.
func (p *Plugin) Reserve(context.Context, string) ([]netip.Addr, error) { return nil, errAhead }

// SetUp implements network.Plugin.
func (p *Plugin) SetUp(ctx context.Context, pod network.Pod, netns string) ([]netip.Addr, error) {
	defer p.sandboxes.Lock(pod.SandboxID)()
	inode, err := inodeOf(netns)
	if err != nil {
		return nil, err
	}
	if own, err := inodeOf("/proc/thread-self/ns/net"); err != nil || own == inode {
		return nil, errors.Join(fmt.Errorf("network namespace %q is the node's own", netns), err)
	}
	if r := p.record(pod.SandboxID); r != nil {
		if r.Addrs != nil && p.is(r, inode) {
			return r.Addrs, nil
		}
		if err := p.undo(ctx, pod.SandboxID, r); err != nil { // began, and nobody knows how it ended
			return nil, err
		}
	}
	list, err := configuration(p.config.ConfDir)
	if err != nil {
		return nil, err
	}
	r := &record{Network: list.Bytes, Args: arguments(pod), NetNS: netns, Inode: inode, Boot: p.boot}
	if err := p.keep(pod.SandboxID, r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	rt := runtime(pod.SandboxID, r, netns)
	rt.CapabilityArgs = capabilities(pod.Bandwidth)
	result, err := p.lib.AddNetworkList(ctx, list, rt)
	if err != nil {
		return nil, fmt.Errorf("connecting sandbox %q to the network %q: %w", pod.SandboxID, list.Name, err)
	}
	done := *r
	if done.Addrs, err = addresses(result); err != nil {
		return nil, fmt.Errorf("network %q: %w", list.Name, err)
	}
	return done.Addrs, p.keep(pod.SandboxID, &done)
}

// capabilities are what programs are asked for beyond a connection, if they can do it.
func capabilities(limits bandwidth.Limits) map[string]any {
	asked := map[string]uint64{}
	for name, rate := range map[string]uint64{"ingress": limits.Ingress, "egress": limits.Egress} {
		if rate != 0 { // at once may pass a tenth of a second, within what the plugin takes; in bits
			asked[name+"Rate"], asked[name+"Burst"] = rate, min(max(rate/10, 1<<20), math.MaxInt32)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	return map[string]any{"bandwidth": asked}
}

// Configured is why the directory has no network to connect pods to, nil if it has one.
func Configured(dir string) error {
	_, err := configuration(dir)
	return err
}

// configuration is the first that the directory has, by name.
func configuration(dir string) (*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, fmt.Errorf("looking for a network configuration in %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no network configuration in %s: it has to be brought there, by the pods of the network if there are any", dir)
	}
	slices.Sort(files)
	return read(files[0])
}

// read reads a list of plugins, or a single one as a list.
func read(file string) (*libcni.NetworkConfigList, error) {
	if filepath.Ext(file) == ".conflist" {
		list, err := libcni.NetworkConfFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("network configuration %s: %w", file, err)
		}
		return list, nil
	}
	one, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("network configuration: %w", err)
	}
	list, err := listOf(one)
	if err != nil {
		return nil, fmt.Errorf("network configuration %s: %w", file, err)
	}
	return list, nil
}

// listOf makes a list of a configuration that is a single plugin.
func listOf(plugin []byte) (*libcni.NetworkConfigList, error) {
	var of struct {
		CNIVersion string          `json:"cniVersion,omitempty"`
		Name       string          `json:"name,omitempty"`
		Plugins    json.RawMessage `json:"plugins"`
	}
	if err := json.Unmarshal(plugin, &of); err != nil {
		return nil, err
	}
	of.Plugins = slices.Concat([]byte{'['}, plugin, []byte{']'})
	list, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	return libcni.NetworkConfFromBytes(list)
}

// arguments are what programs are told about a pod, by the names that they know from everywhere.
func arguments(pod network.Pod) [][2]string {
	return [][2]string{
		{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", pod.Namespace}, {"K8S_POD_NAME", pod.Name},
		{"K8S_POD_INFRA_CONTAINER_ID", pod.SandboxID}, {"K8S_POD_UID", pod.UID},
	}
}

func runtime(sandboxID string, r *record, netns string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: sandboxID, NetNS: netns, IfName: podLink, Args: r.Args}
}

// addresses are those that a result gives to the pod's link, in its order.
func addresses(result types.Result) ([]netip.Addr, error) {
	r, err := types100.NewResultFromResult(result)
	if err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	var addrs []netip.Addr
	for _, ip := range r.IPs {
		if i := ip.Interface; i != nil && *i >= 0 && *i < len(r.Interfaces) && r.Interfaces[*i].Sandbox == "" {
			continue // of the node's end
		}
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			addrs = append(addrs, a.Unmap())
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("the result has no address for the pod")
	}
	return addrs, nil
}

// keep writes a record down before it counts.
func (p *Plugin) keep(sandboxID string, r *record) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = atomicwriter.WriteFile(p.file(sandboxID), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping what is done about sandbox %q: %w", sandboxID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records[sandboxID] = r
	return nil
}

// Addresses implements network.Plugin.
func (p *Plugin) Addresses(sandboxID string) []netip.Addr {
	if r := p.record(sandboxID); r != nil {
		return r.Addrs
	}
	return nil
}

// TearDown implements network.Plugin.
func (p *Plugin) TearDown(ctx context.Context, sandboxID string) error {
	defer p.sandboxes.Lock(sandboxID)()
	r := p.record(sandboxID)
	if r == nil {
		return nil
	}
	return p.undo(ctx, sandboxID, r)
}

// undo disconnects a sandbox by the configuration that it was connected by, and forgets it then.
func (p *Plugin) undo(ctx context.Context, sandboxID string, r *record) error {
	list, err := libcni.NetworkConfFromBytes(r.Network)
	if err != nil {
		return fmt.Errorf("reading the network that sandbox %q was connected to: %w", sandboxID, err)
	}
	netns := r.NetNS
	if inode, err := inodeOf(netns); err != nil || !p.is(r, inode) {
		netns = "" // is gone, and what is in it with it; what is elsewhere is undone without
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := p.lib.DelNetworkList(ctx, list, runtime(sandboxID, r, netns)); err != nil {
		return fmt.Errorf("disconnecting sandbox %q from the network %q: %w", sandboxID, list.Name, err)
	}
	if err := os.Remove(p.file(sandboxID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting sandbox %q: %w", sandboxID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.records, sandboxID)
	return nil
}

// without are the sandboxes of which there is a record, but for those in keep.
func (p *Plugin) without(keep map[string]bool) (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.records {
		if !keep[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// Retain implements network.Plugin. It only finds out what belongs to no sandbox, of which none can come to belong to a new one. To
// disconnect that may take an agent of the network, which may be a pod that the caller runs next.
func (p *Plugin) Retain(ctx context.Context, keep map[string]bool) error {
	for _, id := range p.without(keep) {
		go p.release(ctx, id)
	}
	return nil
}

// After firstRetry what could not be disconnected is tried again, then after twice the time before, up to lastRetry.
const firstRetry, lastRetry = time.Second, time.Minute

// release disconnects what nobody waits for. It repeats until that succeeds, or ctx ends.
func (p *Plugin) release(ctx context.Context, sandboxID string) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := p.TearDown(ctx, sandboxID)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "A sandbox that has gone is not disconnected yet", "again", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// Purge implements network.Plugin. It disconnects each sandbox once, if the network does that in time, and forgets it whatever comes of
// it: links have gone with the containers, and so has whom the network may need for the rest. What stays then is what others have noted,
// such as an address in a store outside. What the network's own programs have brought to the node stays, too; it is not known.
// If ctx ends, nothing is forgotten that is not undone: its owner can go on later.
func (p *Plugin) Purge(ctx context.Context) error {
	ids := p.without(nil)
	errs := make([]error, len(ids))
	limited, cancel := context.WithTimeout(ctx, p.farewell)
	defer cancel()
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() { errs[i] = p.TearDown(limited, id) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("disconnecting all sandboxes: %w", err)
	}
	if err := errors.Join(errs...); err != nil {
		klog.FromContext(ctx).Error(err, "What is elsewhere of sandboxes that have gone may stay there, such as addresses")
	}
	if err := os.RemoveAll(p.config.StateDir); err != nil {
		return fmt.Errorf("forgetting all sandboxes: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.records)
	return nil
}

// inodeOf is the number of a network namespace.
func inodeOf(netns string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(netns, &s); err != nil {
		return 0, fmt.Errorf("finding network namespace %q: %w", netns, err)
	}
	return s.Ino, nil
}
