// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cpumanager decides which CPUs the containers of a node run on (KEP-3570). Touch it when CPUs are to be chosen otherwise.
//
// With the policy "static" a container that asks for whole CPUs, in a pod of the class Guaranteed, has them for itself from before
// the pod is made until nothing of it runs. All other containers share what is left, and move when that changes. Who has which is
// on disk before the pod is made, so that a kubelet that is killed changes nothing.
package cpumanager

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// Config is what a Manager is made from; all fields are required.
type Config struct {
	// Policy is None or Static; the other fields are for the latter.
	Policy  string
	Options Options
	// Reserved is how much of the node's CPUs is not for pods, ReservedCPUs which these are; empty: the manager chooses.
	Reserved     resource.Quantity
	ReservedCPUs cpuset.CPUSet
	Machine      *topology.Machine
	// SingleNode: containers that do not fit into one NUMA node are refused.
	SingleNode bool
	// RootDir is the kubelet's directory.
	RootDir string
	// Changed is called when containers have to move to other CPUs. It does not block.
	Changed func()
	Counts  Counts
}

// Counts are told what came of containers that want CPUs of their own. Their methods do not block.
type Counts interface {
	// CPUs: one has got them, unless err says why not.
	CPUs(err error)
	// Aligned: those of a scope, which is always a container, lie within a boundary ("physical_cpu", "uncore_cache"), or could not.
	Aligned(scope, boundary string, is bool)
}

// Manager knows who has which CPUs. Its methods are safe for concurrent use, but what one decides on may have changed when the
// next is called: topologymanager lets one pod at a time be decided about.
type Manager struct {
	policy  *policy // nil: none
	path    string
	changed func()
	counts  Counts

	saving sync.Mutex // held while the state is written, so that the newest is written last

	mu    sync.Mutex // guards the fields below; held for no calls
	state state
	// dirty: the state is not on disk as it is; told are the shared CPUs that containers were moved to.
	dirty bool
	told  cpuset.CPUSet
}

// New returns a Manager that knows what an earlier one has decided. It fails if the settings do not fit the machine, or what was
// decided does not fit them: then, as with upstream's kubelet, somebody has to look.
func New(cfg Config) (*Manager, error) {
	m := &Manager{path: filepath.Join(cfg.RootDir, "cpu_manager_state"), changed: cfg.Changed, counts: cfg.Counts}
	var err error
	switch cfg.Policy {
	case None:
	case Static:
		if m.policy, err = newPolicy(cfg); err != nil {
			return nil, fmt.Errorf("new static policy error: %w", err)
		}
	default:
		return nil, fmt.Errorf("unknown policy: %q", cfg.Policy)
	}
	var found bool
	if m.state, found, err = load(m.path, cfg.Policy); err == nil && m.policy != nil {
		if !found {
			m.state, m.dirty = state{shared: m.policy.usable(), own: map[types.UID]map[string]cpuset.CPUSet{}}, true
		}
		err = m.policy.validate(m.state)
	}
	if err != nil {
		return nil, fmt.Errorf("state of the CPU manager: %w; please drain the node and remove %s", err, m.path)
	}
	m.told = m.state.shared
	return m, nil
}

// Hints are the NUMA nodes that a container may have its CPUs from; nil if it needs none of its own.
func (m *Manager) Hints(pod *corev1.Pod, c *corev1.Container) map[corev1.ResourceName][]topology.Hint {
	if m.policy == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policy.hints(m.state, pod, c)
}

// PodHints are those for all containers of a pod together.
func (m *Manager) PodHints(pod *corev1.Pod) map[corev1.ResourceName][]topology.Hint {
	if m.policy == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policy.podHints(m.state, pod)
}

// Allocate gives a container its CPUs, unless it has them or needs none, those close to some NUMA nodes first (none: any).
func (m *Manager) Allocate(pod *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	if m.policy == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	given, err := m.policy.allocate(m.state, pod, c, near.Nodes)
	if wanted(pod, c) > 0 {
		m.count(given, err)
	}
	if err != nil || given.IsEmpty() {
		return err
	}
	m.state.give(pod.UID, c.Name, given)
	m.dirty = true
	return nil
}

// count tells what came of a container that wants CPUs of its own; none are given to one that has them already.
func (m *Manager) count(given cpuset.CPUSet, err error) {
	m.counts.CPUs(err)
	if m.policy.options.FullPhysicalCPUsOnly {
		m.counts.Aligned("container", "physical_cpu", err == nil)
	}
	if err == nil && !given.IsEmpty() && len(m.policy.machine.IDs(topology.Cache, given)) == 1 {
		m.counts.Aligned("container", "uncore_cache", true)
	}
}

// Usage is how many CPUs containers share, and how many of each NUMA node one has alone; 0 and nil without a policy.
func (m *Manager) Usage() (shared int, own map[int]int) {
	if m.policy == nil {
		return 0, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	own = map[int]int{}
	for _, n := range m.policy.machine.Nodes {
		own[n.ID] = 0
	}
	for _, id := range m.state.owned().UnsortedList() {
		own[m.policy.machine.CPUs[id].Node]++
	}
	return m.state.shared.Difference(m.policy.reserved).Size(), own
}

// Retain takes back what pods have that are not present.
func (m *Manager) Retain(present func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.state.own {
		if !present(uid) {
			m.state.release(uid)
			m.dirty = true
		}
	}
}

// Release takes back what a pod has.
func (m *Manager) Release(pod types.UID) {
	m.Retain(func(uid types.UID) bool { return uid != pod })
}

// Save writes down what has been decided, and then has containers moved. A kubelet that is killed before may decide otherwise.
func (m *Manager) Save() error {
	if m.policy == nil {
		return nil
	}
	m.saving.Lock()
	m.mu.Lock()
	dirty, shared := m.dirty, m.state.shared
	data, err := m.state.encode()
	m.dirty = false
	m.mu.Unlock()
	if dirty && err == nil {
		err = write(m.path, data)
	}
	m.mu.Lock()
	m.dirty = m.dirty || dirty && err != nil
	move := err == nil && !shared.Equals(m.told)
	if move {
		m.told = shared
	}
	m.mu.Unlock()
	m.saving.Unlock()
	if move {
		m.changed()
	}
	return err
}

// CPUs are those that a container is to run on, its own or the shared ones; none if it may run on all.
func (m *Manager) CPUs(pod types.UID, name string) cpuset.CPUSet {
	if m.policy == nil {
		return cpuset.New()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if own, is := m.state.own[pod][name]; is {
		return own
	}
	return m.state.shared
}

// Own are the CPUs that only a container has, none if it shares them.
func (m *Manager) Own(pod types.UID, name string) cpuset.CPUSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.own[pod][name]
}

// Exclusive says whether a container of the pod has CPUs of its own.
func (m *Manager) Exclusive(pod types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.state.own[pod]) > 0
}

// Allocatable are the CPUs that containers can have for themselves, whether or not they do; none without a policy.
func (m *Manager) Allocatable() cpuset.CPUSet {
	if m.policy == nil {
		return cpuset.New()
	}
	return m.policy.machine.Set().Difference(m.policy.reserved)
}

var errNoReservation = errors.New("the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")

// state is which CPUs containers have. It decides, and does nothing.
type state struct {
	// shared are those that nobody has alone.
	shared cpuset.CPUSet
	own    map[types.UID]map[string]cpuset.CPUSet
}

func (s *state) give(pod types.UID, name string, cpus cpuset.CPUSet) {
	if s.own[pod] == nil {
		s.own[pod] = map[string]cpuset.CPUSet{}
	}
	s.own[pod][name] = cpus
	s.shared = s.shared.Difference(cpus)
}

// owned are the CPUs that containers have alone. Those of an init container may be another's again.
func (s *state) owned() cpuset.CPUSet {
	all := cpuset.New()
	for _, pod := range s.own {
		all = all.Union(slices.Collect(maps.Values(pod))...)
	}
	return all
}

func (s *state) release(pod types.UID) {
	for own := range maps.Values(s.own[pod]) {
		s.shared = s.shared.Union(own)
	}
	delete(s.own, pod)
}
