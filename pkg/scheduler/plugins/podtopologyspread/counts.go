// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtopologyspread

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	nodeaffinityhelper "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/internal/pernode"
)

// counted is the number of matching pods per domain of each constraint.
type counted []map[string]int

// totals are the matching pods of one constraint in all domains, followed from one cycle to the next.
type totals struct {
	memory *pernode.Memory[place]
	// nodes and pods count, by domain, those of nodes that count; a domain without such a node is in neither.
	nodes, pods map[string]int
}

// place is what a node contributes.
type place struct {
	counts bool // whether its pods do at all
	domain string
	pods   int
}

// changed follows the change of a node.
func (t *totals) changed(before, now place) {
	t.add(before, -1)
	t.add(now, 1)
}

func (t *totals) add(p place, by int) {
	if !p.counts {
		return
	}
	t.nodes[p.domain] += by
	t.pods[p.domain] += by * p.pods
	if t.nodes[p.domain] == 0 {
		delete(t.nodes, p.domain)
		delete(t.pods, p.domain)
	}
}

// maxTotals is of how many constraints totals are kept, each of which takes 40 bytes for a node.
const maxTotals = 64

// count counts the pods on nodes that match one of a pod's constraints, by domain. With strict, those on nodes that are in no
// domain of another constraint do not count. What it returns is the caller's.
func (p *PodTopologySpread) count(ctx context.Context, pod *corev1.Pod, constraints []constraint, i int, strict bool, nodes []fwk.NodeInfo) map[string]int {
	c, others := constraints[i], constraints[:0:0]
	if strict {
		others = constraints
	}
	key := c.identity(pod, others)
	known, ok := p.totals.Get(key)
	if !ok {
		affinity := nodeaffinityhelper.GetRequiredNodeAffinity(pod)
		t := &totals{nodes: map[string]int{}, pods: map[string]int{}}
		t.memory = pernode.New(func(n fwk.NodeInfo) place {
			node := n.Node()
			domain, ok := node.Labels[c.topologyKey]
			if !ok || !hasKeys(node, others) || !c.includes(ctx, pod, affinity, node) {
				return place{}
			}
			return place{counts: true, domain: domain, pods: c.count(n.GetPods(), pod.Namespace)}
		}, t.changed)
		p.totals.Add(key, t)
		known = t
	}
	t := known.(*totals)
	t.memory.Look(nodes)
	return maps.Clone(t.pods)
}

// identity is a text of all that the totals of a constraint depend on besides the nodes: pods for which it is the same share them.
func (c *constraint) identity(pod *corev1.Pod, others []constraint) string {
	var b strings.Builder
	// A selector that selects all, which is none here, has the same text as one that selects none.
	fmt.Fprintf(&b, "%s/%s in %q", pod.Namespace, c.selector, c.topologyKey)
	for i := range others {
		fmt.Fprintf(&b, ",%q", others[i].topologyKey)
	}
	if c.honorAffinity {
		fmt.Fprintf(&b, " on %s", labels.FormatLabels(pod.Spec.NodeSelector))
		if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			fmt.Fprintf(&b, " and %q", a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution) // whose values may be any text
		}
	}
	if c.honorTaints {
		b.WriteString(" tolerating")
		for i := range pod.Spec.Tolerations {
			fmt.Fprintf(&b, " %s", &pod.Spec.Tolerations[i])
		}
	}
	return b.String()
}
