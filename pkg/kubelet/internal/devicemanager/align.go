// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicemanager

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// Provider takes part in the decision about which NUMA nodes a pod's resources come from (see topologymanager.Provider). Devices are
// held for a container then, without asking plugins, which may take long; Life has these allocate them later, and what a plugin
// prefers counts among the devices that are as close.
type Provider struct{ *Manager }

// Hints implements topologymanager.Provider.
func (p Provider) Hints(pod *corev1.Pod, c *corev1.Container) map[corev1.ResourceName][]topology.Hint {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[corev1.ResourceName][]topology.Hint{}
	for res, need := range p.state.wanted(pod, c) {
		var own []string
		if a := p.state.pods[pod.UID][c.Name][res]; a != nil {
			own = a.Devices
		}
		out[corev1.ResourceName(res)] = p.state.hints(res, own, p.state.reusable(pod, c.Name, res), need, p.cfg.NUMANodes)
	}
	return out
}

// PodHints implements topologymanager.Provider.
func (p Provider) PodHints(pod *corev1.Pod) map[corev1.ResourceName][]topology.Hint {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := &corev1.Container{Resources: corev1.ResourceRequirements{
		Limits: resourcehelper.PodLimits(podspec.Unclaimed(pod), resourcehelper.PodResourcesOptions{ExcludeOverhead: true}),
	}}
	out := map[corev1.ResourceName][]topology.Hint{}
	for res, need := range p.state.wanted(pod, all) {
		var own []string
		for _, containers := range p.state.pods[pod.UID] {
			if a := containers[res]; a != nil {
				own = append(own, a.Devices...)
			}
		}
		slices.Sort(own)
		out[corev1.ResourceName(res)] = p.state.hints(res, slices.Compact(own), nil, need, p.cfg.NUMANodes)
	}
	return out
}

// Allocate implements topologymanager.Provider.
func (p Provider) Allocate(pod *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := p.state.wanted(pod, c)
	for _, res := range slices.Sorted(maps.Keys(wanted)) {
		if p.state.pods[pod.UID][c.Name][res] != nil {
			continue // Life finds out whether these are as many
		}
		reuse, free, err := p.state.offer(res, p.state.reusable(pod, c.Name, res), nil, wanted[res])
		if err != nil {
			return err
		}
		reuse, free = p.state.resources[res].align(reuse, free, wanted[res], near.Nodes)
		p.state.keep(pod.UID, c.Name, res, &allocation{Devices: choose(reuse, free, nil, wanted[res]), near: near.Nodes})
	}
	return nil
}

// Retain implements topologymanager.Provider. What has been allocated by then is freed by Life.
func (p Provider) Retain(present func(types.UID) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid := range p.state.pods {
		if !present(uid) {
			p.state.drop(uid)
		}
	}
}

// Release implements topologymanager.Provider, likewise.
func (p Provider) Release(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.drop(pod)
}

// drop gives up what is only held for a pod.
func (s *state) drop(pod types.UID) {
	for _, own := range s.pods[pod] {
		maps.DeleteFunc(own, func(_ string, a *allocation) bool { return a.Response == nil })
	}
}

// Save implements topologymanager.Provider. What is only held is not written: Life writes what it has allocated.
func (Provider) Save() error { return nil }

// near are the NUMA nodes that a device is close to, none if it does not say.
func (d *devices) near(id string) topology.Nodes {
	var s topology.Nodes
	for _, n := range d.known[id].GetTopology().GetNodes() {
		s |= topology.NodesOf(int(n.GetID()))
	}
	return s
}

// says reports whether the devices tell at all what they are close to.
func (d *devices) says() bool {
	for id := range d.known {
		if len(d.known[id].GetTopology().GetNodes()) > 0 {
			return true
		}
	}
	return false
}

// align divides an offer into devices that have to be taken and such as may be. Of those close to the nodes, all have to be if
// these are not enough, and no others may be if they are.
func (d *devices) align(reuse, free []string, need int, nodes topology.Nodes) (must, may []string) {
	if nodes == 0 || !d.says() || len(reuse) >= need {
		return reuse, free
	}
	var aligned, others, silent []string
	for _, id := range free {
		switch near := d.near(id); {
		case near&nodes != 0:
			aligned = append(aligned, id)
		case near != 0:
			others = append(others, id)
		default:
			silent = append(silent, id)
		}
	}
	if need-len(reuse) < len(aligned) {
		return reuse, aligned
	}
	return slices.Concat(reuse, aligned), slices.Concat(others, silent)
}

// hints are the sets of NUMA nodes that have enough devices of a resource. own are those that the asker has already.
func (s *state) hints(res string, own, reusable []string, need int, machine []int) []topology.Hint {
	d := s.resources[res]
	if !d.says() {
		return nil
	}
	if len(own) > 0 {
		if len(own) != need {
			return []topology.Hint{}
		}
		return d.hints(own, nil, need, machine)
	}
	used := s.used(res)
	var free []string
	for id := range d.known {
		if d.healthy(id) && !used[id] {
			free = append(free, id)
		}
	}
	return d.hints(free, reusable, need, machine)
}

func (d *devices) hints(free, reuse []string, need int, machine []int) []topology.Hint {
	var nodes []int // that have devices: what has none changes nothing, and sets of many nodes are very many
	for _, n := range machine {
		if slices.ContainsFunc(slices.Collect(maps.Keys(d.known)), func(id string) bool { return d.near(id).Has(n) }) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		nodes = machine
	}
	count := func(ids []string, s topology.Nodes) (n int) {
		for _, id := range ids {
			if d.near(id)&s != 0 {
				n++
			}
		}
		return n
	}
	all := slices.Collect(maps.Keys(d.known))
	bound := slices.DeleteFunc(slices.Clone(reuse), func(id string) bool { return d.near(id) == 0 })
	return topology.Hints(nodes,
		func(s topology.Nodes) bool { return count(all, s) >= need },
		func(s topology.Nodes) bool {
			return count(bound, s) == len(bound) && len(bound)+count(free, s) >= need
		})
}

// withhold makes what plugins have allocated to a pod only held for it: it is allocated once more.
func (s *state) withhold(pod types.UID) {
	for _, own := range s.pods[pod] {
		for _, a := range own {
			a.Response = nil
		}
	}
}
