// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package framework is the vocabulary of the scheduler: the extension points a
// plugin may implement, the plain data it decides on (pods, nodes, a snapshot of
// the cluster) and the runtime that calls plugins in order. Touch it when a
// plugin needs a new extension point or a new fact about a node.
package framework

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
)

// Scores a plugin hands out, after normalisation, lie in [MinNodeScore, MaxNodeScore].
const (
	MinNodeScore int64 = 0
	MaxNodeScore int64 = 100
)

// Plugin is a named part of a profile. The name is what users see in a
// KubeSchedulerConfiguration and in logs.
type Plugin interface {
	Name() string
}

// PreEnqueuePlugin decides whether a pod may enter the active queue at all.
type PreEnqueuePlugin interface {
	Plugin
	PreEnqueue(ctx context.Context, pod *PodInfo) *Status
}

// PreFilterPlugin computes, once per cycle, what its Filter needs. It may narrow
// the nodes to a set (nil means all) and may return Skip when its Filter cannot
// reject this pod.
type PreFilterPlugin interface {
	Plugin
	PreFilter(ctx context.Context, state *CycleState, pod *PodInfo, snapshot *Snapshot) (sets.Set[string], *Status)
}

// PodDeltaPlugin is a PreFilterPlugin that can adjust its state when a pod is
// added to or removed from a node hypothetically: preemption and nominated pods
// are evaluated that way. It may modify state, which is a private clone.
type PodDeltaPlugin interface {
	Plugin
	AddPod(ctx context.Context, state *CycleState, pod, added *PodInfo, node *NodeInfo) *Status
	RemovePod(ctx context.Context, state *CycleState, pod, removed *PodInfo, node *NodeInfo) *Status
}

// FilterPlugin says whether a pod can run on a node. It is called concurrently
// for several nodes and must not modify state, pod or node.
type FilterPlugin interface {
	Plugin
	Filter(ctx context.Context, state *CycleState, pod *PodInfo, node *NodeInfo) *Status
}

// PostFilterPlugin runs when no node passed the filters. A successful status
// means that the pod is likely to fit on the nominated node soon.
type PostFilterPlugin interface {
	Plugin
	PostFilter(ctx context.Context, state *CycleState, pod *PodInfo, statuses *NodeStatuses) (*Nomination, *Status)
}

// PreScorePlugin prepares state for Score; Skip leaves the plugin's Score out.
type PreScorePlugin interface {
	Plugin
	PreScore(ctx context.Context, state *CycleState, pod *PodInfo, nodes []*NodeInfo) *Status
}

// ScorePlugin ranks a node that passed the filters. It is called concurrently
// for several nodes and must not modify state, pod or node.
type ScorePlugin interface {
	Plugin
	Score(ctx context.Context, state *CycleState, pod *PodInfo, node *NodeInfo) (int64, *Status)
}

// NormalizePlugin is a ScorePlugin whose raw scores need scaling into
// [MinNodeScore, MaxNodeScore] once all of them are known.
type NormalizePlugin interface {
	ScorePlugin
	NormalizeScore(ctx context.Context, state *CycleState, pod *PodInfo, scores []NodeScore) *Status
}

// ReservePlugin takes something for the pod before it is bound. Unreserve gives
// it back, is idempotent and cannot fail.
type ReservePlugin interface {
	Plugin
	Reserve(ctx context.Context, state *CycleState, pod *PodInfo, node string) *Status
	Unreserve(ctx context.Context, state *CycleState, pod *PodInfo, node string)
}

// PreBindPlugin does slow work that must end before the pod is bound. It runs
// outside of the scheduling cycle.
type PreBindPlugin interface {
	Plugin
	PreBind(ctx context.Context, state *CycleState, pod *PodInfo, node string) *Status
}

// RequeuePlugin declares the cluster events that may make a pod it rejected
// schedulable. A plugin without it is retried upon every event.
type RequeuePlugin interface {
	Plugin
	Requeue() []Requeue
}

// NodeScore is one plugin's, or the total, score of a node.
type NodeScore struct {
	Name  string
	Score int64
}

// Nomination is what a PostFilterPlugin wishes for status.nominatedNodeName.
// An empty Node clears it; a nil *Nomination leaves it as it is.
type Nomination struct {
	Node string
}

// Handle is what the scheduler offers to its plugins. A factory must ask
// Informers for every informer it needs, so that the caller starts them.
type Handle interface {
	Client() kubernetes.Interface
	Informers() informers.SharedInformerFactory
	Recorder() events.EventRecorder
	// Snapshot returns the state the running cycle decides on.
	Snapshot() *Snapshot
	// Nominated lists the pods that wait for room on a node.
	Nominated(node string) []*PodInfo
	// Profile returns the plugins in order. It is nil while factories run.
	Profile() *Profile
}

// Factory builds a plugin of a profile.
type Factory func(h Handle) (Plugin, error)

// Entry is a line of the list of plugins. Weight multiplies the plugin's scores;
// zero means one.
type Entry struct {
	Name   string
	New    Factory
	Weight int64
}
