// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package roundrobin takes nodes in turn, in the order of their names. The turn is
// after the node that the profile chose last, whether or not that is still there, and
// it is kept in the API, so that it goes on where it stopped when a scheduler was
// killed. Touch it when turns are taken or kept in another way.
package roundrobin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/policies/internal/ranking"
)

// Name of the plugin.
const Name = "RoundRobin"

// RoundRobin is the plugin.
type RoundRobin struct {
	store store
	// writing has one place: who is in it writes, and the others wait.
	writing chan struct{}

	mu sync.Mutex // guards what follows
	// last is the node that had the last turn, once that is known.
	last  string
	known bool
	// turns counts the turns of this process. Up to kept they need not be written.
	turns, kept int64
}

var (
	_ fwk.PreScorePlugin = (*RoundRobin)(nil)
	_ fwk.ScorePlugin    = (*RoundRobin)(nil)
	_ fwk.ReservePlugin  = (*RoundRobin)(nil)
	_ fwk.PreBindPlugin  = (*RoundRobin)(nil)
)

// New returns the plugin.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	profile := cmp.Or(h.ProfileName(), corev1.DefaultSchedulerName)
	if problems := validation.IsConfigMapKey(profile); len(problems) > 0 || len(fieldManager(profile)) > maxFieldManager {
		return nil, fmt.Errorf("the round of %q cannot be kept: the name is not one of at most %d letters, digits, '-', '_' and '.'", profile, maxFieldManager-len(fieldManager("")))
	}
	return &RoundRobin{store: store{h.ClientSet(), profile}, writing: make(chan struct{}, 1)}, nil
}

// Name returns the plugin's name.
func (*RoundRobin) Name() string { return Name }

// PreScore finds out once whose turn was last. Without that nothing is decided: the
// pod is tried again.
func (r *RoundRobin) PreScore(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	r.mu.Lock()
	known := r.known
	r.mu.Unlock()
	if known {
		return nil
	}
	last, err := r.store.read(ctx)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("finding out which node had the last turn: %w", err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		r.last, r.known = last, true
	}
	return nil
}

// Score leaves it to NormalizeScore, which sees all nodes.
func (*RoundRobin) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (r *RoundRobin) ScoreExtensions() fwk.ScoreExtensions { return r }

// NormalizeScore ranks the nodes by how many turns they are away.
func (r *RoundRobin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[a].Name, scores[b].Name) })
	first := slices.IndexFunc(order, func(i int) bool { return scores[i].Name > last })
	for place, i := range order {
		scores[i].Score = int64((place - max(first, 0) + len(order)) % len(order))
	}
	ranking.Lowest(scores)
	return nil
}

// turn is the number of a pod's turn.
type turn int64

// Clone implements fwk.StateData.
func (t turn) Clone() fwk.StateData { return t }

// Reserve gives the node its turn, also where it was the only one.
func (r *RoundRobin) Reserve(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node string) *fwk.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.known = node, true
	r.turns++
	state.Write(Name, turn(r.turns))
	return nil
}

// Unreserve takes no turn back: pods that came later have had theirs by then, and
// this one gets another.
func (*RoundRobin) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// PreBindPreFlight implements fwk.PreBindPlugin.
func (*RoundRobin) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind sees that the turn is kept before the pod is bound: a scheduler that is
// killed in between skips a node, and repeats none. A turn that cannot be kept is no
// reason to keep a pod waiting.
func (r *RoundRobin) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	data, err := state.Read(Name)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reading the number of the turn: %w", err))
	}
	if err := r.keep(ctx, int64(data.(turn))); err != nil {
		klog.FromContext(ctx).Error(err, "Keeping whose turn it is failed; after a restart the round may go on elsewhere", "pod", klog.KObj(pod))
	}
	return nil
}

// keep returns when the turn or a later one has been written, or could not be: who
// comes while somebody writes waits, and the next of them writes for all.
func (r *RoundRobin) keep(ctx context.Context, mine int64) error {
	select {
	case r.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.writing }()
	r.mu.Lock()
	last, newest, done := r.last, r.turns, r.kept >= mine
	r.mu.Unlock()
	if done {
		return nil
	}
	err := r.store.write(ctx, last)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = newest // also after a failure: an API that hangs is not waited for by one pod after the other
	return err
}
