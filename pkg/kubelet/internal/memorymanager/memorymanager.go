// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package memorymanager decides which NUMA nodes the containers of a node have memory and huge pages from (KEP-1769). Touch it when
// memory is to be chosen otherwise.
//
// With the policy "Static" the containers of pods of the class Guaranteed have what they request from as few nodes as possible, and
// nobody else of that class has it. Who has what is on disk before the pod is made.
package memorymanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/sys/atomicwriter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// The policies, by upstream's names.
const (
	None   = "None"
	Static = "Static"
)

// Config is what a Manager is made from; all fields are required.
type Config struct {
	// Policy is None or Static; the other fields are for the latter.
	Policy  string
	Machine *topology.Machine
	// ReservedOf are the parts of Reserved, the memory that is not for pods, that nodes have, and huge pages that are not for pods.
	ReservedOf []Reservation
	Reserved   resource.Quantity
	// RootDir is the kubelet's directory.
	RootDir string
	// Count is told that a container wants memory, and has got it unless err says why not. It does not block.
	Count func(err error)
}

// Manager knows who has which memory. Its methods are safe for concurrent use, but what one decides on may have changed when the
// next is called: topologymanager lets one pod at a time be decided about.
type Manager struct {
	table table // nil: no policy
	path  string
	count func(error)

	saving sync.Mutex // held while the state is written, so that the newest is written last

	mu    sync.Mutex // guards the fields below; held for no calls
	state state
	dirty bool // the state is not on disk as it is
}

// New returns a Manager that knows what an earlier one has decided. It fails if the settings do not fit the machine, or what was
// decided does not fit them: then, as with upstream's kubelet, somebody has to look.
func New(cfg Config) (*Manager, error) {
	m := &Manager{path: filepath.Join(cfg.RootDir, "memory_manager_state"), count: cfg.Count}
	switch cfg.Policy {
	case None:
	case Static:
		err := checkReserved(cfg.Machine.Nodes, cfg.ReservedOf, cfg.Reserved)
		if err == nil {
			m.table, err = newTable(cfg.Machine.Nodes, cfg.ReservedOf)
		}
		if err != nil {
			return nil, fmt.Errorf("memory manager: %w", err)
		}
	default:
		return nil, fmt.Errorf("unknown policy: %q", cfg.Policy)
	}
	var found bool
	var err error
	if m.state, found, err = load(m.path, cfg.Policy); err == nil {
		err = m.table.validate(m.state)
	}
	if err != nil {
		return nil, fmt.Errorf("state of the memory manager: %w; please drain the node and remove %s", err, m.path)
	}
	m.dirty = !found
	return m, nil
}

// Hints are the NUMA nodes that a container may have its memory from; nil if it needs none of its own, or there is not enough, of
// which Allocate tells.
func (m *Manager) Hints(pod *corev1.Pod, c *corev1.Container) map[corev1.ResourceName][]topology.Hint {
	return m.hints(pod, c.Name, wanted(pod, c))
}

// PodHints are those for all containers of a pod together.
func (m *Manager) PodHints(pod *corev1.Pod) map[corev1.ResourceName][]topology.Hint {
	return m.hints(pod, "", podWanted(pod))
}

func (m *Manager) hints(pod *corev1.Pod, name string, need amounts) map[corev1.ResourceName][]topology.Hint {
	if m.table == nil || len(need) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	hints := m.table.hints(m.state, pod, name, need)
	if len(hints) == 0 {
		return nil
	}
	out := map[corev1.ResourceName][]topology.Hint{}
	for r := range need {
		out[r] = hints
	}
	return out
}

// Allocate gives a container its memory, unless it has it or needs none, close to the nodes of a hint if it has any.
func (m *Manager) Allocate(pod *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	if m.table == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	had := len(m.state.own[pod.UID])
	err := m.table.allocate(m.state, pod, c, near)
	if len(wanted(pod, c)) > 0 {
		m.count(err)
	}
	m.dirty = m.dirty || len(m.state.own[pod.UID]) != had
	return err
}

// Retain takes back what pods have that are not present.
func (m *Manager) Retain(present func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.state.own {
		if !present(uid) {
			delete(m.state.own, uid)
			m.dirty = true
		}
	}
}

// Release takes back what a pod has.
func (m *Manager) Release(pod types.UID) {
	m.Retain(func(uid types.UID) bool { return uid != pod })
}

// Save writes down what has been decided, if it has changed.
func (m *Manager) Save() error {
	if m.table == nil {
		return nil
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	dirty := m.dirty
	m.dirty = false
	data, err := json.Marshal(checkpoint{PolicyName: Static, Entries: m.state.own})
	m.mu.Unlock()
	if !dirty {
		return nil
	}
	if err == nil {
		err = atomicwriter.WriteFile(m.path, data, 0o600) // in one step: a kill leaves the old or the new one
	}
	if err != nil {
		m.mu.Lock()
		m.dirty = true
		m.mu.Unlock()
		return fmt.Errorf("writing down allocated memory: %w", err)
	}
	return nil
}

// Own is the memory that a container has.
func (m *Manager) Own(pod types.UID, name string) []Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.state.own[pod][name])
}

// NUMANodes is a list of those that a container has its memory from, such as "0,2"; "" if it may be from any.
func (m *Manager) NUMANodes(pod types.UID, name string) string {
	var set topology.Nodes
	for _, b := range m.Own(pod, name) {
		set |= topology.NodesOf(b.Nodes...)
	}
	var out []string
	for _, id := range set.IDs() {
		out = append(out, strconv.Itoa(id))
	}
	return strings.Join(out, ",")
}

// Allocatable is the memory that containers can have, whether or not they do; none without a policy.
func (m *Manager) Allocatable() []Block {
	var out []Block
	for _, id := range slices.Sorted(maps.Keys(m.table)) {
		for _, name := range slices.Sorted(maps.Keys(m.table[id])) {
			if n := m.table[id][name]; n > 0 {
				out = append(out, Block{Nodes: []int{id}, Type: name, Size: n})
			}
		}
	}
	return out
}

// checkpoint is a state on disk, with the fields of upstream's.
type checkpoint struct {
	PolicyName string                           `json:"policyName"`
	Entries    map[types.UID]map[string][]Block `json:"entries,omitempty"`
}

// load reads what Save has written; found is false if nobody has. Without a policy nothing is written: only what another policy
// has left is in the way.
func load(path, policy string) (s state, found bool, err error) {
	s = state{own: map[types.UID]map[string][]Block{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	var c checkpoint
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil && c.PolicyName != policy {
		err = fmt.Errorf("[memorymanager] configured policy %q differs from state checkpoint policy %q", policy, c.PolicyName)
	}
	if err != nil {
		return s, false, err
	}
	if c.Entries != nil {
		s.own = c.Entries
	}
	return s, true, nil
}
