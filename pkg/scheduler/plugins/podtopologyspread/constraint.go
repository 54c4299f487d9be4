// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtopologyspread

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	nodeaffinityhelper "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/plugins/tainttoleration"
)

// constraint is a parsed TopologySpreadConstraint with its defaults filled in.
type constraint struct {
	maxSkew       int
	minDomains    int
	topologyKey   string
	selector      labels.Selector
	honorAffinity bool
	honorTaints   bool
}

// parse returns the constraints of a pod with the wanted action.
func parse(pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var out []constraint
	for i := range pod.Spec.TopologySpreadConstraints {
		in := &pod.Spec.TopologySpreadConstraints[i]
		if in.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(in.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing label selector of topology spread constraint: %w", err)
		}
		// KEP-3243: pods are told apart by the incoming pod's values of these keys.
		for _, key := range in.MatchLabelKeys {
			value, ok := pod.Labels[key]
			if !ok {
				continue
			}
			r, err := labels.NewRequirement(key, selection.In, []string{value})
			if err != nil {
				return nil, fmt.Errorf("parsing matchLabelKeys of topology spread constraint: %w", err)
			}
			selector = selector.Add(*r)
		}
		c := constraint{maxSkew: int(in.MaxSkew), minDomains: 1, topologyKey: in.TopologyKey, selector: selector, honorAffinity: true}
		if in.MinDomains != nil {
			c.minDomains = int(*in.MinDomains)
		}
		if in.NodeAffinityPolicy != nil {
			c.honorAffinity = *in.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
		}
		if in.NodeTaintsPolicy != nil {
			c.honorTaints = *in.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		}
		out = append(out, c)
	}
	return out, nil
}

// includes tells whether a node's pods count (KEP-3094).
func (c *constraint) includes(ctx context.Context, pod *corev1.Pod, affinity nodeaffinityhelper.RequiredNodeAffinity, node *corev1.Node) bool {
	if c.honorAffinity {
		if match, _ := affinity.Match(node); !match {
			return false
		}
	}
	return !c.honorTaints || tainttoleration.Tolerates(ctx, pod, node)
}

// hasKeys tells whether a node is in a domain of every constraint.
func hasKeys(node *corev1.Node, constraints []constraint) bool {
	for i := range constraints {
		if _, ok := node.Labels[constraints[i].topologyKey]; !ok {
			return false
		}
	}
	return true
}

// count counts the pods of a namespace that match; those that are going do not.
func count(pods []*framework.PodInfo, selector labels.Selector, namespace string) int {
	if selector.Empty() {
		return 0
	}
	n := 0
	for _, p := range pods {
		if p.Pod.DeletionTimestamp == nil && p.Pod.Namespace == namespace && selector.Matches(labels.Set(p.Pod.Labels)) {
			n++
		}
	}
	return n
}
