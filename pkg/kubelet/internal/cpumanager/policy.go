// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// policy is "static". It decides, and keeps nothing.
type policy struct {
	machine *topology.Machine
	options Options
	// reserved are never any container's own; reservedCores are all CPUs of their cores.
	reserved, reservedCores cpuset.CPUSet
}

func newPolicy(cfg Config) (*policy, error) {
	p := &policy{machine: cfg.Machine, options: cfg.Options, reserved: cfg.ReservedCPUs}
	if cfg.Options.AlignBySocket {
		if cfg.SingleNode {
			return nil, errors.New("Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option") //nolint:staticcheck // upstream's words
		}
		if all := p.machine.Set(); len(p.machine.IDs(topology.Socket, all)) > len(p.machine.IDs(topology.NUMA, all)) {
			return nil, errors.New("Align by socket is not compatible with hardware where number of sockets are more than number of NUMA") //nolint:staticcheck // upstream's words
		}
	}
	if cfg.Reserved.IsZero() {
		return nil, errNoReservation
	}
	count := int((cfg.Reserved.MilliValue() + 999) / 1000)
	if p.reserved.IsEmpty() {
		p.reserved, _ = choose(p.machine, p.machine.Set(), count, p.options) // too many: the sizes differ
	}
	if p.reserved.Size() != count || !p.reserved.IsSubsetOf(p.machine.Set()) {
		return nil, fmt.Errorf("unable to reserve the required amount of CPUs (size of %s did not equal %d, or the machine has not all of them: %s)",
			p.reserved, count, p.machine.Set())
	}
	p.reservedCores = p.machine.In(topology.Core, p.machine.IDs(topology.Core, p.reserved)...)
	return p, nil
}

// usable are the CPUs that any container may run on.
func (p *policy) usable() cpuset.CPUSet {
	if p.options.StrictReservation {
		return p.machine.Set().Difference(p.reserved)
	}
	return p.machine.Set()
}

// validate says why a state cannot have come about on this machine, with these settings.
func (p *policy) validate(s state) error {
	if p.options.StrictReservation {
		if both := p.reserved.Intersection(s.shared); !both.IsEmpty() {
			return fmt.Errorf("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", both, s.shared)
		}
	} else if !p.reserved.IsSubsetOf(s.shared) {
		return fmt.Errorf("not all reserved cpus: %q are present in defaultCpuSet: %q", p.reserved, s.shared)
	}
	known := s.shared
	for uid, containers := range s.own {
		for name, own := range containers {
			if !own.Intersection(s.shared).IsEmpty() {
				return fmt.Errorf("pod: %s, container: %s cpuset: %q overlaps with default cpuset %q", uid, name, own, s.shared)
			}
			known = known.Union(own)
		}
	}
	if all := p.usable(); !known.Equals(all) {
		return fmt.Errorf("current set of available CPUs %q doesn't match with CPUs in state %q", all, known)
	}
	return nil
}

// wanted is how many CPUs of its own a container gets. Pods that have resources themselves get none, as upstream without the
// feature PodLevelResourceManagers.
func wanted(pod *corev1.Pod, c *corev1.Container) int {
	if qos.Of(pod) != corev1.PodQOSGuaranteed || resourcehelper.IsPodLevelResourcesSet(pod) {
		return 0
	}
	q := c.Resources.Requests[corev1.ResourceCPU]
	if q.Value()*1000 != q.MilliValue() {
		return 0
	}
	return int(q.Value())
}

// podWanted is how many all containers of a pod need at a time.
func podWanted(pod *corev1.Pod) int {
	sidecars, starting, running := 0, 0, 0
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podspec.IsSidecar(c) {
			sidecars += wanted(pod, c)
		} else {
			starting = max(starting, sidecars+wanted(pod, c))
		}
	}
	for i := range pod.Spec.Containers {
		running += wanted(pod, &pod.Spec.Containers[i])
	}
	return max(starting, running+sidecars)
}

// containers are those that may have CPUs, in the order in which they start.
func containers(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	return out
}

// reusable are the CPUs of a pod's init containers that have ended when a container starts.
func (s *state) reusable(pod *corev1.Pod, name string) cpuset.CPUSet {
	free := cpuset.New()
	for i, c := range containers(pod) {
		own, has := s.own[pod.UID][c.Name]
		switch {
		case c.Name == name:
			return free
		case !has:
		case i < len(pod.Spec.InitContainers) && !podspec.IsSidecar(c):
			free = free.Union(own)
		default:
			free = free.Difference(own)
		}
	}
	return free
}

// allocate chooses the CPUs of a container. There are none if it has them or needs none.
func (p *policy) allocate(s state, pod *corev1.Pod, c *corev1.Container, near topology.Nodes) (cpuset.CPUSet, error) {
	n := wanted(pod, c)
	if _, has := s.own[pod.UID][c.Name]; has || n == 0 {
		return cpuset.New(), nil
	}
	if err := p.alignable(s, n); err != nil {
		return cpuset.New(), err
	}
	free := s.shared.Difference(p.reserved).Union(s.reusable(pod, c.Name))
	taken := cpuset.New()
	if near != 0 {
		aligned := free.Intersection(p.near(near))
		var err error
		if taken, err = choose(p.machine, aligned, min(n, aligned.Size()), p.options); err != nil {
			return cpuset.New(), err
		}
	}
	more, err := choose(p.machine, free.Difference(taken), n-taken.Size(), p.options)
	if err != nil {
		return cpuset.New(), err
	}
	return taken.Union(more), nil
}

// near are the CPUs of some nodes, or of the sockets that these are in.
func (p *policy) near(nodes topology.Nodes) cpuset.CPUSet {
	cpus := p.machine.In(topology.NUMA, nodes.IDs()...)
	if p.options.AlignBySocket {
		return p.machine.In(topology.Socket, p.machine.IDs(topology.Socket, cpus)...)
	}
	return cpus
}

// AlignmentError is why a container cannot have whole cores.
type AlignmentError struct{ message string }

func (e *AlignmentError) Error() string { return e.message }

// Reason is that of the pod's failure.
func (*AlignmentError) Reason() string { return "SMTAlignmentError" }

// alignable refuses what would share a core, if that is not wanted.
func (p *policy) alignable(s state, n int) error {
	if !p.options.FullPhysicalCPUsOnly {
		return nil
	}
	threads := p.machine.Per(topology.Core)
	if n%threads != 0 {
		return &AlignmentError{fmt.Sprintf("SMT Alignment Error: requested %d cpus not multiple cpus per core = %d", n, threads)}
	}
	if free := s.shared.Difference(p.reservedCores).Size(); n > free {
		return &AlignmentError{fmt.Sprintf(
			"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d", free, n, threads)}
	}
	return nil
}

func hint(list []topology.Hint) map[corev1.ResourceName][]topology.Hint {
	return map[corev1.ResourceName][]topology.Hint{corev1.ResourceCPU: list}
}

func (p *policy) hints(s state, pod *corev1.Pod, c *corev1.Container) map[corev1.ResourceName][]topology.Hint {
	n := wanted(pod, c)
	if n == 0 {
		return nil
	}
	if own, has := s.own[pod.UID][c.Name]; has {
		if own.Size() != n {
			return hint([]topology.Hint{})
		}
		return hint(p.hintsFor(own, cpuset.New(), n))
	}
	return hint(p.hintsFor(s.shared.Difference(p.reserved), s.reusable(pod, c.Name), n))
}

func (p *policy) podHints(s state, pod *corev1.Pod) map[corev1.ResourceName][]topology.Hint {
	n := podWanted(pod)
	if n == 0 {
		return nil
	}
	have := cpuset.New()
	for _, c := range containers(pod) {
		if own, has := s.own[pod.UID][c.Name]; has {
			if own.Size() != wanted(pod, c) {
				return hint([]topology.Hint{})
			}
			have = have.Union(own)
		}
	}
	if have.Size() == n {
		return hint(p.hintsFor(have, cpuset.New(), n))
	}
	return hint(p.hintsFor(s.shared.Difference(p.reserved), have, n))
}

// hintsFor are the nodes that have n CPUs among those that are free, with all that are to be used again.
func (p *policy) hintsFor(free, reuse cpuset.CPUSet, n int) []topology.Hint {
	nodes := p.machine.IDs(topology.NUMA, p.machine.Set())
	in := func(s topology.Nodes) cpuset.CPUSet { return p.machine.In(topology.NUMA, s.IDs()...) }
	hints := topology.Hints(nodes,
		func(s topology.Nodes) bool { return in(s).Size() >= n },
		func(s topology.Nodes) bool {
			cpus := in(s)
			return reuse.IsSubsetOf(cpus) && reuse.Size()+free.Intersection(cpus).Size() >= n
		})
	if p.options.AlignBySocket {
		p.preferSockets(hints, n)
	}
	return hints
}

// preferSockets has hints be preferred that need no more sockets than they have to.
func (p *policy) preferSockets(hints []topology.Hint, n int) {
	all := p.machine.Set()
	nodes := p.machine.IDs(topology.NUMA, all)
	perSocket := len(nodes) / len(p.machine.IDs(topology.Socket, all))
	if perSocket == 0 {
		return
	}
	least := len(nodes)
	for s := range topology.Subsets(nodes) {
		if s.Count() < least && p.machine.In(topology.NUMA, s.IDs()...).Size() >= n {
			least = s.Count()
		}
	}
	for i, h := range hints {
		sockets := p.machine.IDs(topology.Socket, p.machine.In(topology.NUMA, h.Nodes.IDs()...))
		hints[i].Preferred = h.Preferred || len(sockets) == ceil(least, perSocket)
	}
}
