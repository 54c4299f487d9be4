// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package usage prefers nodes by what is measured of them, which metrics.k8s.io
// tells. Nobody asks for figures but for a pod: one that comes when they are older
// than a few seconds is held back before the queue until there are new ones, while
// others are scheduled.
//
// A node uses what its machine uses beside pods, and what its own pods use. Several
// nodes may be on one machine, of which each tells all that the machine uses. A pod
// without figures counts as what it requests, or as what upstream's scheduler takes a
// pod for that requests nothing: so those that were placed since the nodes were
// measured are not forgotten. The share of what the node has for pods is compared.
//
// Touch this package when other figures are to count.
package usage

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/policies/internal/ranking"
)

// Plugin prefers the node that uses the smallest share of a resource.
type Plugin struct {
	name     string
	resource corev1.ResourceName
	source   *source
}

var (
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
)

// New returns a plugin of a name for CPU or memory.
func New(ctx context.Context, name string, resource corev1.ResourceName, h fwk.Handle) (*Plugin, error) {
	s, err := newSource(ctx, h)
	if err != nil {
		return nil, err
	}
	return &Plugin{name: name, resource: resource, source: s}, nil
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return p.name }

// Close waits for what the plugin has begun.
func (p *Plugin) Close() error {
	p.source.close()
	return nil
}

// PreEnqueue holds a pod back until figures are new, or cannot be had.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if p.source.await(pod) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for figures of what nodes use")
}

// EventsToRegister has none: the source itself lets a pod go.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }

// PreScore takes the figures that all nodes are compared by.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	state.Write(fwk.StateKey(p.name), p.source.latest())
	return nil
}

// unknown is more than any share: a node without figures comes last, and of several
// that with the fewest pods first.
const unknown = 1 << 40

// Score is the node's share in millionths.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(fwk.StateKey(p.name))
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if share, ok := data.(*figures).share(node, p.resource); ok {
		return min(int64(share*1e6), unknown-1), nil
	}
	return unknown + int64(len(node.GetPods())), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore implements fwk.ScoreExtensions.
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	ranking.Lowest(scores)
	return nil
}
