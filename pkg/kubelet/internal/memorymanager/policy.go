// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// Block is an amount of memory, or of huge pages of a size, that a container may use.
type Block struct {
	// Nodes are the ids of the NUMA nodes that it comes from, together.
	Nodes []int `json:"numaAffinity"`
	// Type is "memory" or "hugepages-2Mi" and the like, Size is in bytes.
	Type corev1.ResourceName `json:"type"`
	Size uint64              `json:"size"`
}

// table is how much of each type pods may have, by NUMA node, in bytes.
type table map[int]map[corev1.ResourceName]uint64

// state is which memory containers have. Nodes are used one by one, or as a group: one that is part of a group is not used alone,
// nor in another group. So what of a group is left is a sum, and it does not matter which node of it a page comes from.
type state struct {
	own map[types.UID]map[string][]Block
}

// amounts are in bytes, by type.
type amounts = map[corev1.ResourceName]uint64

// wanted is how much a container gets. Pods that are not Guaranteed, or have resources themselves, get nothing.
func wanted(pod *corev1.Pod, c *corev1.Container) amounts {
	if qos.Of(pod) != corev1.PodQOSGuaranteed || resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	out := amounts{}
	for name, q := range c.Resources.Requests {
		if (name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)) && q.Sign() > 0 {
			out[name] = uint64(q.Value())
		}
	}
	return out
}

// podWanted is how much all containers of a pod need at a time.
func podWanted(pod *corev1.Pod) amounts {
	starting, sidecars, out := amounts{}, amounts{}, amounts{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		for name, n := range wanted(pod, c) {
			if podspec.IsSidecar(c) {
				sidecars[name] += n
			} else {
				starting[name] = max(starting[name], sidecars[name]+n)
			}
		}
	}
	maps.Copy(out, sidecars)
	for i := range pod.Spec.Containers {
		for name, n := range wanted(pod, &pod.Spec.Containers[i]) {
			out[name] += n
		}
	}
	for name, n := range starting {
		out[name] = max(out[name], n)
	}
	return out
}

// blocks are all that somebody has.
func (s state) blocks(yield func(Block) bool) {
	for _, containers := range s.own {
		for _, blocks := range containers {
			for _, b := range blocks {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// free is how much of a type is left in a set of nodes that is not in the way of others (see usable).
func (t table) free(s state, name corev1.ResourceName, set topology.Nodes) uint64 {
	sum, used := t.sum(name, set), uint64(0)
	for b := range s.blocks {
		if b.Type == name && topology.NodesOf(b.Nodes...)&set != 0 {
			used += b.Size
		}
	}
	return sum - min(sum, used)
}

func (t table) sum(name corev1.ResourceName, set topology.Nodes) (n uint64) {
	for _, id := range set.IDs() {
		n += t[id][name]
	}
	return n
}

// usable says whether a set of nodes may be used together, or a node alone.
func (s state) usable(set topology.Nodes) bool {
	for b := range s.blocks {
		if other := topology.NodesOf(b.Nodes...); other&set != 0 && other != set {
			return false
		}
	}
	return true
}

// reusable is how much init containers that have ended when a container starts leave to it, on the same nodes.
func (s state) reusable(pod *corev1.Pod, name string, t corev1.ResourceName, set topology.Nodes) (sum uint64) {
	for b := range s.left(pod, name, t, set) {
		sum += b.Size
	}
	return sum
}

// left yields what that is, to be changed.
func (s state) left(pod *corev1.Pod, name string, t corev1.ResourceName, set topology.Nodes) iter.Seq[*Block] {
	return func(yield func(*Block) bool) {
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			if c.Name == name {
				return
			}
			if podspec.IsSidecar(c) {
				continue
			}
			blocks := s.own[pod.UID][c.Name]
			for j := range blocks {
				if b := &blocks[j]; b.Type == t && topology.NodesOf(b.Nodes...) == set && !yield(b) {
					return
				}
			}
		}
	}
}

// hints are the sets of nodes that have all that a container, or ("") a pod, needs.
func (t table) hints(s state, pod *corev1.Pod, name string, need amounts) []topology.Hint {
	var hints []topology.Hint
	nodes := slices.Sorted(maps.Keys(t))
	least := len(nodes)
	for set := range topology.Subsets(nodes) {
		if !all(need, func(r corev1.ResourceName, n uint64) bool { return t.sum(r, set) >= n }) {
			continue
		}
		least = min(least, set.Count())
		if s.usable(set) && all(need, func(r corev1.ResourceName, n uint64) bool {
			return t.free(s, r, set)+s.reusable(pod, name, r, set) >= n
		}) {
			hints = append(hints, topology.Hint{Nodes: set})
		}
	}
	for i := range hints {
		hints[i].Preferred = hints[i].Nodes.Count() == least
	}
	return hints
}

func all(need amounts, ok func(corev1.ResourceName, uint64) bool) bool {
	for name, n := range need {
		if !ok(name, n) {
			return false
		}
	}
	return true
}

// best is the preferred hint with the fewest nodes, else any such.
func best(hints []topology.Hint) (topology.Hint, bool) {
	if len(hints) == 0 {
		return topology.Hint{}, false
	}
	out := hints[0]
	for _, h := range hints[1:] {
		if h.Preferred != out.Preferred && h.Preferred || h.Preferred == out.Preferred && h.Nodes.Narrower(out.Nodes) {
			out = h
		}
	}
	return out, true
}

// choose finds the nodes for a container: those of the hint that all resources agree on, with others if these have not enough.
func (t table) choose(s state, pod *corev1.Pod, c *corev1.Container, need amounts, near topology.Hint) (topology.Nodes, error) {
	hints, chosen := t.hints(s, pod, c.Name, need), near
	if near.Nodes == 0 {
		found, ok := best(hints)
		switch {
		case !ok:
			return 0, errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
		case near.Preferred && !found.Preferred:
			return 0, errors.New("[memorymanager] failed to find the default preferred hint")
		}
		chosen = found
	}
	if !all(need, func(r corev1.ResourceName, n uint64) bool { return t.free(s, r, chosen.Nodes) >= n }) {
		within := slices.DeleteFunc(hints, func(h topology.Hint) bool { return h.Nodes&chosen.Nodes != chosen.Nodes })
		found, ok := best(within)
		switch {
		case !ok:
			return 0, errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
		case chosen.Preferred && !found.Preferred:
			return 0, errors.New("[memorymanager] failed to find the extended preferred hint")
		}
		chosen = found
	}
	if !s.usable(chosen.Nodes) {
		return 0, errors.New("[memorymanager] preferred hint violates NUMA node allocation")
	}
	return chosen.Nodes, nil
}

// allocate gives a container what it needs. What init containers leave is counted as its own then, and not as theirs.
func (t table) allocate(s state, pod *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	need := wanted(pod, c)
	if len(need) == 0 || s.own[pod.UID][c.Name] != nil {
		return nil
	}
	set, err := t.choose(s, pod, c, need, near)
	if err != nil {
		return err
	}
	var blocks []Block
	for _, name := range slices.Sorted(maps.Keys(need)) {
		again := need[name]
		for b := range s.left(pod, c.Name, name, set) {
			n := min(again, b.Size)
			b.Size, again = b.Size-n, again-n
		}
		blocks = append(blocks, Block{Nodes: set.IDs(), Type: name, Size: need[name]})
	}
	if s.own[pod.UID] == nil {
		s.own[pod.UID] = map[string][]Block{}
	}
	s.own[pod.UID][c.Name] = blocks
	return nil
}

// validate says why a state cannot be that of this machine.
func (t table) validate(s state) error {
	for uid, containers := range s.own {
		for name, blocks := range containers {
			for _, b := range blocks {
				for _, id := range b.Nodes {
					if t[id] == nil {
						return fmt.Errorf("[memorymanager] (pod: %s, container: %s) the memory assignment uses the NUMA that does not exist", uid, name)
					}
					if _, is := t[id][b.Type]; !is {
						return fmt.Errorf("[memorymanager] (pod: %s, container: %s) the memory assignment uses memory resource that does not exist", uid, name)
					}
				}
				set, used := topology.NodesOf(b.Nodes...), uint64(0)
				for other := range s.blocks {
					if other.Type == b.Type && topology.NodesOf(other.Nodes...)&set != 0 {
						used += other.Size
					}
				}
				if !s.usable(set) || used > t.sum(b.Type, set) {
					return errors.New("[memorymanager] the expected machine state is different from the real one")
				}
			}
		}
	}
	return nil
}

// newTable is what the nodes have but for what is reserved of it.
func newTable(nodes []topology.Node, reserved []Reservation) (table, error) {
	out := table{}
	for _, n := range nodes {
		out[n.ID] = map[corev1.ResourceName]uint64{corev1.ResourceMemory: n.Memory}
		for size, pages := range n.HugePages {
			out[n.ID][hugePages(size)] = size * pages
			out[n.ID][corev1.ResourceMemory] -= min(out[n.ID][corev1.ResourceMemory], size*pages)
		}
	}
	for _, r := range reserved {
		for name, q := range r.Limits {
			have, is := out[r.Node][name]
			if !is || uint64(q.Value()) > have {
				return nil, fmt.Errorf("NUMA node %d has not the %s of %s that are reserved", r.Node, q.String(), name)
			}
			out[r.Node][name] = have - uint64(q.Value())
		}
	}
	return out, nil
}

// hugePages is the resource that stands for huge pages of a size in bytes.
func hugePages(size uint64) corev1.ResourceName {
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + resource.NewQuantity(int64(size), resource.BinarySI).String())
}

// Reservation is what of a NUMA node is not for pods.
type Reservation struct {
	Node   int
	Limits corev1.ResourceList
}

// checkReserved compares what is reserved of the nodes with what of the machine is: it has to be the same.
func checkReserved(nodes []topology.Node, reserved []Reservation, total resource.Quantity) error {
	sums := map[corev1.ResourceName]*resource.Quantity{corev1.ResourceMemory: {}}
	for _, r := range reserved {
		if !slices.ContainsFunc(nodes, func(n topology.Node) bool { return n.ID == r.Node }) {
			return fmt.Errorf("the reserved memory configuration references a NUMA node %d that does not exist on this machine", r.Node)
		}
		for name, q := range r.Limits {
			if sums[name] == nil {
				sums[name] = &resource.Quantity{}
			}
			sums[name].Add(q)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		want := resource.Quantity{}
		if name == corev1.ResourceMemory {
			want = total
		}
		if !sums[name].Equal(want) {
			return fmt.Errorf("the total amount %q of type %q is not equal to the value %q determined by Node Allocatable feature", sums[name], name, &want)
		}
	}
	if total.Sign() <= 0 {
		return errors.New("[memorymanager] you should specify the system reserved memory")
	}
	return nil
}
