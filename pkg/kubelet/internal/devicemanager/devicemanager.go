// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package devicemanager gives devices of the node to containers, by device plugins (KEP-3573, API v1beta1). Touch it when that
// API grows, or when devices are to be chosen otherwise.
//
// A plugin registers, and tells of its devices in a stream; from then on they are capacity of the node. The worker of a pod
// that asks for some has them allocated before anything of the pod is made, and what the plugin says that the container needs
// is kept on disk: a container that starts again, also under a later kubelet, gets the same. Nobody waits for a plugin but who
// needs it.
package devicemanager

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// grace is how long the devices of a plugin that has gone count as capacity, upstream's.
const grace = 5 * time.Minute

// Config is what a Manager is made from; all fields are required but NUMANodes.
type Config struct {
	// RootDir is the kubelet's directory. Plugins find the manager in its folder device-plugins.
	RootDir string
	Clock   clock.Clock
	// NUMANodes are those of the machine. They are needed by a Provider only.
	NUMANodes []int
	// Known says whether the node has taken a pod and not yet forgotten it, Made whether the engine has anything of it. The
	// devices of all others are free.
	Known, Made func(types.UID) bool
	// Changed is called when the node has other devices, Wake for each pod that has one whose health has changed. They do not
	// block.
	Changed func()
	Wake    func(types.UID)
	// Counts is told of what plugins do.
	Counts Counts
}

// Counts is told of plugins that were taken into use, and how long they took to allocate devices, whether or not they did. Its methods
// do not block.
type Counts interface {
	DevicePluginRegistered(resource string)
	DevicesAllocated(resource string, took time.Duration)
}

// Manager knows the devices of the node and who has them. Its methods are safe for concurrent use, but for those about one pod,
// which must come one after the other.
type Manager struct {
	cfg Config

	saving sync.Mutex // held while the state is written, so that the newest is written last

	mu    sync.Mutex // guards the fields below; held for no calls
	state state
	// asked is when a pod was looked at for the first time that has devices from before, zero if none was.
	asked time.Time
	// settled are the pods that have what they need.
	settled map[types.UID]bool
	// plugins by resource name, in the order in which they came; the last one is in use. One that has gone is not there.
	plugins map[string][]*plugin
	// life is that of Start, nil before. wg counts the plugins that are looked after.
	life context.Context //nolint:containedctx // plugins that register outlive the call by which they do
	wg   sync.WaitGroup
}

// New returns a Manager that knows what an earlier one has allocated. What it cannot read of that is logged: the node runs all
// the same.
func New(ctx context.Context, cfg Config) *Manager {
	m := &Manager{cfg: cfg, plugins: map[string][]*plugin{}, settled: map[types.UID]bool{}}
	var err error
	if m.state, err = load(statePath(cfg.RootDir), cfg.Clock.Now()); err != nil {
		klog.FromContext(ctx).Error(err, "Which devices are allocated is lost")
	}
	return m
}

// Resources are the devices by resource name, as capacity and allocatable of the node. Those of a plugin that has gone stay in
// the capacity for a while; then, and until one has come for the first time since the start, it is 0.
func (m *Manager) Resources() (capacity, allocatable corev1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	capacity, allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	for name, r := range m.state.resources {
		all, healthy := r.count(m.cfg.Clock.Now())
		capacity[corev1.ResourceName(name)] = *resource.NewQuantity(all, resource.DecimalSI)
		allocatable[corev1.ResourceName(name)] = *resource.NewQuantity(healthy, resource.DecimalSI)
	}
	return capacity, allocatable
}

// Without is the node without the devices: whether there are enough, allocation finds out, with upstream's words for it.
func (m *Manager) Without(node *corev1.Node) *corev1.Node {
	if node == nil {
		return nil
	}
	names, _ := m.Resources()
	out := *node
	out.Status.Allocatable = maps.Clone(node.Status.Allocatable)
	for name := range names {
		delete(out.Status.Allocatable, name)
	}
	return &out
}

// Options are what a container needs for its devices, all its resources together.
type Options struct {
	Env         map[string]string
	Mounts      []container.Mount
	Devices     []container.Device
	Annotations map[string]string
	// CDIDevices are qualified names of the Container Device Interface.
	CDIDevices []string
}

// Container prepares the devices of a container for a start, and returns what it needs.
func (m *Manager) Container(ctx context.Context, pod types.UID, name string) (Options, error) {
	m.mu.Lock()
	own := maps.Clone(m.state.pods[pod][name])
	m.mu.Unlock()
	var o Options
	for _, res := range slices.Sorted(maps.Keys(own)) {
		if err := m.preStart(ctx, res, own[res].Devices); err != nil {
			return Options{}, err
		}
		o.add(own[res].Response)
	}
	return o, nil
}

// Health tells of the devices of a container, by resource name, for its status (KEP-4680).
func (m *Manager) Health(pod types.UID, name string) []corev1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []corev1.ResourceStatus
	own := m.state.pods[pod][name]
	for _, res := range slices.Sorted(maps.Keys(own)) {
		s := corev1.ResourceStatus{Name: corev1.ResourceName(res)}
		for _, id := range own[res].Devices {
			health := m.state.resources[res].health(id)
			s.Resources = append(s.Resources, corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: health})
		}
		all = append(all, s)
	}
	return all
}

// Device is one of the node.
type Device struct {
	Resource, ID string
	// NUMANodes are those it is close to, if the plugin is there and has said so.
	NUMANodes []int64
}

// Allocated are the devices of a container.
func (m *Manager) Allocated(pod types.UID, name string) []Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Device
	own := m.state.pods[pod][name]
	for _, res := range slices.Sorted(maps.Keys(own)) {
		for _, id := range own[res].Devices {
			all = append(all, m.state.resources[res].describe(res, id))
		}
	}
	return all
}

// Healthy are all devices that containers have or can have.
func (m *Manager) Healthy() []Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Device
	for _, res := range slices.Sorted(maps.Keys(m.state.resources)) {
		d := m.state.resources[res]
		for _, id := range slices.Sorted(maps.Keys(d.known)) {
			if d.healthy(id) {
				all = append(all, d.describe(res, id))
			}
		}
	}
	return all
}

// release frees the devices of a pod of which nothing runs any more. Should that not get to the disk, the next kubelet finds out that
// the node has no such pod.
func (m *Manager) release(pod types.UID) error {
	m.mu.Lock()
	_, has := m.state.pods[pod]
	delete(m.state.pods, pod)
	delete(m.settled, pod)
	m.mu.Unlock()
	if !has {
		return nil
	}
	return m.save()
}

// save writes the state as it is now.
func (m *Manager) save() error {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	data, err := m.state.encode()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	return write(statePath(m.cfg.RootDir), data)
}
