// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodedeclaredfeatures keeps a pod off nodes whose kubelet lacks a feature
// that the pod needs (KEP-5328). Which feature a pod needs is told by
// k8s.io/component-helpers; touch this package when something but a pod's spec
// decides on that.
package nodedeclaredfeatures

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	versionutil "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "NodeDeclaredFeatures"
	ErrReason = "node(s) didn't match Pod's required features"

	filterKey = "PreFilter" + Name
)

// NodeDeclaredFeatures is the plugin.
type NodeDeclaredFeatures struct {
	features *ndf.Framework
	// version is that of the scheduler: what all nodes of it have, no pod needs.
	version *versionutil.Version
}

var (
	_ fwk.PreFilterPlugin   = (*NodeDeclaredFeatures)(nil)
	_ fwk.FilterPlugin      = (*NodeDeclaredFeatures)(nil)
	_ fwk.EnqueueExtensions = (*NodeDeclaredFeatures)(nil)
)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	v, err := versionutil.Parse(version.Get().String())
	if err != nil {
		return nil, fmt.Errorf("reading the scheduler's version: %w", err)
	}
	return &NodeDeclaredFeatures{features: ndf.DefaultFramework, version: v}, nil
}

// Name returns the plugin's name.
func (*NodeDeclaredFeatures) Name() string { return Name }

// needs are the features that a pod cannot do without.
type needs struct{ ndf.FeatureSet }

// Clone returns n itself, which never changes.
func (n needs) Clone() fwk.StateData { return n }

func (d *NodeDeclaredFeatures) of(pod *corev1.Pod) (needs, error) {
	set, err := d.features.InferForPodScheduling(&ndf.PodInfo{Spec: &pod.Spec}, d.version)
	if err != nil {
		return needs{}, fmt.Errorf("finding out which features of nodes the pod needs: %w", err)
	}
	return needs{set}, nil
}

// PreFilter skips pods that need nothing special.
func (d *NodeDeclaredFeatures) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	n, err := d.of(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if n.IsEmpty() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(filterKey, n)
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*NodeDeclaredFeatures) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes that do not declare what the pod needs.
func (*NodeDeclaredFeatures) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	n, ok := framework.ReadState[needs](state, filterKey)
	if !ok {
		return nil
	}
	match, err := n.IsSubset(node.GetNodeDeclaredFeatures())
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("comparing the node's features: %w", err))
	}
	if !match {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReason)
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions: a node that declares something else, or a pod that needs something else.
func (d *NodeDeclaredFeatures) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeDeclaredFeature, framework.Hint(func(_ *corev1.Pod, old, new any) bool {
			before, after := framework.AsNode(old), framework.AsNode(new)
			return before == nil || after == nil || !slices.Equal(before.Status.DeclaredFeatures, after.Status.DeclaredFeatures)
		})),
		framework.Event(fwk.TargetPod, fwk.Update, framework.Hint(func(_ *corev1.Pod, old, new any) bool {
			before, after := framework.AsPod(old), framework.AsPod(new)
			if before == nil || after == nil {
				return true
			}
			was, err := d.of(before)
			if err != nil {
				return true
			}
			is, err := d.of(after)
			return err != nil || !is.Equal(was.FeatureSet)
		})),
	}, nil
}
