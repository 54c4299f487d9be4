// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// use is an amount of CPU, in cores, and of memory, in bytes.
type use struct{ cpu, memory float64 }

func (u use) plus(v use) use  { return use{u.cpu + v.cpu, u.memory + v.memory} }
func (u use) minus(v use) use { return use{max(u.cpu-v.cpu, 0), max(u.memory-v.memory, 0)} }
func (u use) most(v use) use  { return use{max(u.cpu, v.cpu), max(u.memory, v.memory)} }

func (u use) of(resource corev1.ResourceName) float64 {
	if resource == corev1.ResourceCPU {
		return u.cpu
	}
	return u.memory
}

func used(list corev1.ResourceList) use {
	return use{list.Cpu().AsApproximateFloat64(), list.Memory().AsApproximateFloat64()}
}

// figures are what was measured at one time; nil if nothing is known. They are
// never changed.
type figures struct {
	// beside is what the machine of a node uses beside pods. A node that is not in it
	// is one that nothing is known of.
	beside map[string]use
	pods   map[types.NamespacedName]measured
}

type measured struct {
	use
	at time.Time
}

// Clone implements fwk.StateData.
func (f *figures) Clone() fwk.StateData { return f }

// known is what the API tells, besides what it measures.
type known interface {
	// machine is what nodes on the same machine have in common.
	machine(node string) (string, bool)
	// nodeOf is where a pod runs.
	nodeOf(pod types.NamespacedName) (string, bool)
}

// compute takes from what machines use what their pods do.
func compute(nodes []metricsv1beta1.NodeMetrics, pods []metricsv1beta1.PodMetrics, k known) *figures {
	f := &figures{beside: make(map[string]use, len(nodes)), pods: make(map[types.NamespacedName]measured, len(pods))}
	machines := map[string]use{}
	for i := range nodes {
		// Nodes of one machine are measured at different times; one figure is for all of them.
		if m, ok := k.machine(nodes[i].Name); ok {
			machines[m] = machines[m].most(used(nodes[i].Usage))
		}
	}
	ofPods := map[string]use{}
	for i := range pods {
		pod := measured{at: pods[i].Timestamp.Time}
		for _, c := range pods[i].Containers {
			pod.use = pod.plus(used(c.Usage))
		}
		name := types.NamespacedName{Namespace: pods[i].Namespace, Name: pods[i].Name}
		f.pods[name] = pod
		if node, ok := k.nodeOf(name); ok {
			if m, ok := k.machine(node); ok {
				ofPods[m] = ofPods[m].plus(pod.use)
			}
		}
	}
	for i := range nodes {
		if m, ok := k.machine(nodes[i].Name); ok {
			f.beside[nodes[i].Name] = machines[m].minus(ofPods[m])
		}
	}
	return f
}

// share is how much of what a node has for pods it uses.
func (f *figures) share(node fwk.NodeInfo, resource corev1.ResourceName) (float64, bool) {
	if f == nil {
		return 0, false
	}
	sum, ok := f.beside[node.Node().Name]
	all := node.GetAllocatable()
	has := use{float64(all.GetMilliCPU()) / 1000, float64(all.GetMemory())}.of(resource)
	if !ok || has == 0 {
		return 0, false
	}
	for _, p := range node.GetPods() {
		pod := p.GetPod()
		m, ok := f.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
		if !ok || m.at.Before(pod.CreationTimestamp.Time) { // those are of another pod that had the name
			r := p.CalculateResource()
			m.use = use{float64(r.Non0CPU) / 1000, float64(r.Non0Mem)}
		}
		sum = sum.plus(m.use)
	}
	return sum.of(resource) / has, true
}
