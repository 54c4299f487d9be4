// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Node is what a node means to one DaemonSet.
type Node struct {
	Name string
	// ShouldRun says that the node gets a pod, ShouldKeep that it may keep the one it has: a taint of effect NoSchedule
	// keeps new pods away, but does not drive old ones out.
	ShouldRun, ShouldKeep bool
}

// Eligibility tells which nodes are fit for the pods of a DaemonSet.
type Eligibility struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

// NewEligibility reads the demands of the DaemonSet's template, with the tolerations that all daemon pods get.
func NewEligibility(ds *appsv1.DaemonSet) *Eligibility {
	spec := &ds.Spec.Template.Spec
	return &Eligibility{
		nodeName:    spec.NodeName,
		affinity:    nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
		tolerations: tolerations(spec),
	}
}

// Of says whether a pod should run on the node and whether one that is there should go on. Resources do not matter: a node
// without room for a daemon pod should have it nevertheless. An affinity that cannot be read fits no node.
func (e *Eligibility) Of(logger klog.Logger, node *corev1.Node) (run, keep bool) {
	if e.nodeName != "" && e.nodeName != node.Name {
		return false, false
	}
	if fits, err := e.affinity.Match(node); err != nil || !fits {
		return false, false
	}
	if !e.repelled(logger, node, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute) {
		return true, true
	}
	return false, !e.repelled(logger, node, corev1.TaintEffectNoExecute)
}

// repelled reports whether the node has a taint of one of the effects that is not tolerated.
func (e *Eligibility) repelled(logger klog.Logger, node *corev1.Node, effects ...corev1.TaintEffect) bool {
	_, found := corev1helpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, e.tolerations, func(t *corev1.Taint) bool {
		return slices.Contains(effects, t.Effect)
	}, true)
	return found
}

// sameToDaemons reports whether two states of a node differ in nothing that eligibility depends on.
func sameToDaemons(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}
