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
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/plugins/tainttoleration"
)

// constraint is a parsed TopologySpreadConstraint with its defaults filled in.
type constraint struct {
	maxSkew       int
	minDomains    int
	topologyKey   string
	selector      labels.Selector
	self          int // 1 if the pod of the constraint is selected itself
	honorAffinity bool
	honorTaints   bool
}

// parse returns the constraints of a pod with the wanted action.
func parse(pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	return parseList(pod, pod.Spec.TopologySpreadConstraints, action, nil)
}

// parseList parses a list of constraints for a pod. A selector that is given
// stands for that of each constraint.
func parseList(pod *corev1.Pod, list []corev1.TopologySpreadConstraint, action corev1.UnsatisfiableConstraintAction, common labels.Selector) ([]constraint, error) {
	var out []constraint
	for i := range list {
		in := &list[i]
		if in.WhenUnsatisfiable != action {
			continue
		}
		selector := common
		if selector == nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(in.LabelSelector); err != nil {
				return nil, fmt.Errorf("parsing label selector of topology spread constraint: %w", err)
			}
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
		if selector.Matches(labels.Set(pod.Labels)) {
			c.self = 1
		}
		out = append(out, c)
	}
	return out, nil
}

// selects tells whether a pod counts if its node does, and it is not going.
func (c *constraint) selects(pod *corev1.Pod, namespace string) bool {
	return !c.selector.Empty() && pod.Namespace == namespace && c.selector.Matches(labels.Set(pod.Labels))
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

// count counts the pods that are selected and not going.
func (c *constraint) count(pods []fwk.PodInfo, namespace string) int {
	n := 0
	for _, p := range pods {
		if pod := p.GetPod(); pod.DeletionTimestamp == nil && c.selects(pod, namespace) {
			n++
		}
	}
	return n
}
