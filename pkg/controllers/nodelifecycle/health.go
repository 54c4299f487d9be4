// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodelifecycle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Patience is how long nodes may be silent.
type Patience struct {
	// Startup is how long a new node may take to report for the first time, Monitor how long one may be silent that has reported.
	Startup, Monitor time.Duration
}

// patienceOf returns what the settings say.
func patienceOf(s setup.Settings) Patience {
	return Patience{Startup: s.NodeStartupGracePeriod.Duration, Monitor: s.NodeMonitorGracePeriod.Duration}
}

// monitored are the conditions that mean nothing while the kubelet is silent.
var monitored = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// taintOf says which taint a condition of a certain status comes with.
var taintOf = map[corev1.NodeConditionType]map[corev1.ConditionStatus]string{
	corev1.NodeReady: {
		corev1.ConditionFalse:   corev1.TaintNodeNotReady,
		corev1.ConditionUnknown: corev1.TaintNodeUnreachable,
	},
	corev1.NodeMemoryPressure:     {corev1.ConditionTrue: corev1.TaintNodeMemoryPressure},
	corev1.NodeDiskPressure:       {corev1.ConditionTrue: corev1.TaintNodeDiskPressure},
	corev1.NodeNetworkUnavailable: {corev1.ConditionTrue: corev1.TaintNodeNetworkUnavailable},
	corev1.NodePIDPressure:        {corev1.ConditionTrue: corev1.TaintNodePIDPressure},
}

// ours are the keys of the taints that this controller sets and removes.
var ours = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable, corev1.TaintNodeNetworkUnavailable,
	corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure,
}

// condition returns the condition of the given type, nil when the node has none.
func condition(node *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == t {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// readiness is the status of the Ready condition; a node without one counts as not heard of.
func readiness(node *corev1.Node) corev1.ConditionStatus {
	if c := condition(node, corev1.NodeReady); c != nil {
		return c.Status
	}
	return corev1.ConditionUnknown
}

// deadline is when a node last heard of at the given time counts as silent. One that has not said yet whether it is ready has more time,
// as long as it renews its lease.
func (p Patience) deadline(node *corev1.Node, heard time.Time) time.Time {
	if condition(node, corev1.NodeReady) == nil {
		return heard.Add(p.Startup)
	}
	return heard.Add(p.Monitor)
}

// unknown returns the conditions of a node that is silent: what it said is not known to be true any more.
func unknown(node *corev1.Node, now time.Time) []corev1.NodeCondition {
	conditions := slices.Clone(node.Status.Conditions)
	for _, t := range monitored {
		i := slices.IndexFunc(conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
		switch {
		case i < 0:
			conditions = append(conditions, corev1.NodeCondition{
				Type:               t,
				Status:             corev1.ConditionUnknown,
				Reason:             "NodeStatusNeverUpdated",
				Message:            "Kubelet never posted node status.",
				LastHeartbeatTime:  node.CreationTimestamp,
				LastTransitionTime: metav1.NewTime(now),
			})
		case conditions[i].Status != corev1.ConditionUnknown:
			conditions[i].Status = corev1.ConditionUnknown
			conditions[i].Reason = "NodeStatusUnknown"
			conditions[i].Message = "Kubelet stopped posting node status."
			conditions[i].LastTransitionTime = metav1.NewTime(now)
		}
	}
	return conditions
}

// taints returns the taints that the node should have: foreign ones, those of its conditions, and, when evict allows it,
// the NoExecute taint of a node that is not ready. Taints that stay keep the time they were added at.
func taints(node *corev1.Node, evict bool, now time.Time) []corev1.Taint {
	var wanted []corev1.Taint
	for _, c := range node.Status.Conditions {
		if key := taintOf[c.Type][c.Status]; key != "" {
			wanted = append(wanted, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	if node.Spec.Unschedulable {
		wanted = append(wanted, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if key := evictionTaint(node); key != "" && evict {
		wanted = append(wanted, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	var result []corev1.Taint
	for _, taint := range node.Spec.Taints {
		i := slices.IndexFunc(wanted, func(w corev1.Taint) bool { return w.MatchTaint(&taint) })
		if i >= 0 || !isOurs(taint) {
			result = append(result, taint)
		}
		if i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	for _, taint := range wanted {
		added := metav1.NewTime(now)
		taint.TimeAdded = &added
		result = append(result, taint)
	}
	return result
}

// evictionTaint is the key of the NoExecute taint that goes with the node's Ready condition.
func evictionTaint(node *corev1.Node) string {
	c := condition(node, corev1.NodeReady)
	if c == nil {
		return ""
	}
	return taintOf[corev1.NodeReady][c.Status]
}

// isOurs reports whether this controller manages a taint.
func isOurs(taint corev1.Taint) bool {
	if taint.Effect == corev1.TaintEffectNoExecute {
		return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
	}
	return taint.Effect == corev1.TaintEffectNoSchedule && slices.Contains(ours, taint.Key)
}

// relabelled returns the labels with those that once told of a node's system and architecture: programs still select by them, and
// not everybody who registers a node gives it both.
func relabelled(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	for stable, beta := range map[string]string{corev1.LabelOSStable: kubeletapis.LabelOS, corev1.LabelArchStable: kubeletapis.LabelArch} {
		if value, ok := labels[stable]; ok {
			labels[beta] = value
		}
	}
	return labels
}
