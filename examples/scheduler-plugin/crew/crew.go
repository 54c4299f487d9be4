// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package crew is a scheduler plugin as one would write it for any Kubernetes: it knows the published interfaces only. Pods with
// the label example.minik8s.io/crew=NAME are a crew, which starts when all of it has room, and each of which gets a number.
// Touch it to show another thing that plugins do; it is at every point at which a pod passes but those for ties and failures.
package crew

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// What pods say, and are told.
const (
	Name           = "Crew"
	Label          = "example.minik8s.io/crew"
	SizeAnnotation = "example.minik8s.io/crew-size"
	RankAnnotation = "example.minik8s.io/crew-rank"

	stateKey fwk.StateKey = Name
)

// Args are the plugin's arguments in the configuration.
type Args struct {
	// PerNode is how many of a crew a node takes. Default 2.
	PerNode int `json:"perNode"`
	// WaitSeconds is how long a member waits for the rest, with its room taken. Default 30.
	WaitSeconds int `json:"waitSeconds"`
}

// Crew is the plugin.
type Crew struct {
	handle fwk.Handle
	args   Args

	mu    sync.Mutex
	ranks map[string]map[types.UID]int // guarded by mu; by crew, of members that have a node or are about to
}

var (
	_ fwk.PreFilterPlugin   = (*Crew)(nil)
	_ fwk.FilterPlugin      = (*Crew)(nil)
	_ fwk.PreScorePlugin    = (*Crew)(nil)
	_ fwk.ScorePlugin       = (*Crew)(nil)
	_ fwk.ReservePlugin     = (*Crew)(nil)
	_ fwk.PermitPlugin      = (*Crew)(nil)
	_ fwk.PreBindPlugin     = (*Crew)(nil)
	_ fwk.PostBindPlugin    = (*Crew)(nil)
	_ fwk.EnqueueExtensions = (*Crew)(nil)
)

// New returns the plugin. Arguments of plugins from outside come as they are written.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args := Args{PerNode: 2, WaitSeconds: 30}
	if raw, ok := obj.(*runtime.Unknown); ok {
		if err := json.Unmarshal(raw.Raw, &args); err != nil {
			return nil, fmt.Errorf("reading arguments of %s: %w", Name, err)
		}
	}
	if args.PerNode < 1 || args.WaitSeconds < 1 {
		return nil, fmt.Errorf("arguments of %s: perNode and waitSeconds must be positive", Name)
	}
	return &Crew{handle: h, args: args, ranks: map[string]map[types.UID]int{}}, nil
}

// Name returns the plugin's name.
func (*Crew) Name() string { return Name }

// of names a pod's crew, empty for none.
func of(pod *corev1.Pod) string {
	if name := pod.Labels[Label]; name != "" {
		return pod.Namespace + "/" + name
	}
	return ""
}

// member is what a cycle knows of its pod.
type member struct {
	crew string
	size int
}

// Clone returns m itself, which never changes.
func (m member) Clone() fwk.StateData { return m }

func read(state fwk.CycleState) (member, bool) {
	data, err := state.Read(stateKey)
	if err != nil {
		return member{}, false // the pod is in no crew
	}
	m, ok := data.(member)
	return m, ok
}

// PreFilter reads what the pod says of its crew, and leaves pods without a crew alone.
func (*Crew) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	name := of(pod)
	if name == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	size, err := strconv.Atoi(pod.Annotations[SizeAnnotation])
	if err != nil || size < 1 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("annotation %s must say how many pods the crew has", SizeAnnotation))
	}
	state.Write(stateKey, member{name, size})
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin: what counts is asked of the node.
func (*Crew) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// on counts the members of a crew on a node, those included that are about to be bound.
func on(crew string, node fwk.NodeInfo) (n int) {
	for _, p := range node.GetPods() {
		if of(p.GetPod()) == crew {
			n++
		}
	}
	return n
}

// Filter rejects nodes that have enough of the crew.
func (c *Crew) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if m, ok := read(state); ok && on(m.crew, node) >= c.args.PerNode {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had enough pods of the crew")
	}
	return nil
}

// PreScore leaves pods without a crew alone.
func (*Crew) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if _, ok := read(state); !ok {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score likes nodes where the crew is.
func (c *Crew) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	m, _ := read(state)
	return int64(on(m.crew, node)) * fwk.MaxScore / int64(c.args.PerNode), nil
}

// ScoreExtensions implements fwk.ScorePlugin: scores are as they shall be.
func (*Crew) ScoreExtensions() fwk.ScoreExtensions { return nil }

// Reserve gives the pod the lowest number that is free.
func (c *Crew) Reserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	m, ok := read(state)
	if !ok {
		return nil
	}
	nodes, err := c.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing nodes: %w", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ranks, taken := c.ranks[m.crew], map[types.UID]int{}, map[int]bool{}
	for _, node := range nodes {
		for _, p := range node.GetPods() {
			if of(p.GetPod()) != m.crew {
				continue
			}
			rank, known := before[p.GetPod().UID]
			if !known { // placed before this program was started
				if rank, err = strconv.Atoi(p.GetPod().Annotations[RankAnnotation]); err != nil {
					continue
				}
			}
			ranks[p.GetPod().UID], taken[rank] = rank, true
		}
	}
	rank := 0
	for taken[rank] {
		rank++
	}
	ranks[pod.UID] = rank
	c.ranks[m.crew] = ranks // without those that are gone
	return nil
}

// Unreserve takes the number back, and sends away those who wait for the pod: they take up room in vain.
func (c *Crew) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) {
	m, ok := read(state)
	if !ok {
		return
	}
	c.mu.Lock()
	delete(c.ranks[m.crew], pod.UID)
	c.mu.Unlock()
	c.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if of(w.GetPod()) == m.crew {
			w.Reject(Name, "another pod of the crew found no room")
		}
	})
}

// Permit holds pods until the last of the crew has its room.
func (c *Crew) Permit(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	m, ok := read(state)
	if !ok {
		return nil, 0
	}
	c.mu.Lock()
	complete := len(c.ranks[m.crew]) >= m.size
	c.mu.Unlock()
	if !complete {
		return fwk.NewStatus(fwk.Wait), time.Duration(c.args.WaitSeconds) * time.Second
	}
	c.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if of(w.GetPod()) == m.crew {
			w.Allow(Name)
		}
	})
	return nil, 0
}

// PreBindPreFlight says that numbers can be written while other plugins prepare the pod.
func (*Crew) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if _, ok := read(state); !ok {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

func (c *Crew) rank(crew string, pod types.UID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ranks[crew][pod]
}

// PreBind writes the pod's number into the pod, before it can start.
func (c *Crew) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	m, _ := read(state)
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:"%d"}}}`, pod.UID, RankAnnotation, c.rank(m.crew, pod.UID))
	_, err := c.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("writing the pod's number: %w", err))
	}
	return nil
}

// PostBind tells whoever looks at the pod.
func (c *Crew) PostBind(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	if m, ok := read(state); ok {
		c.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, "Joined", "Binding", "Number %d of %d on %s", c.rank(m.crew, pod.UID), m.size, node)
	}
}

// EventsToRegister says what can help a pod that was rejected: what it says itself, room on a node, or another pod of the crew
// that has found some.
func (*Crew) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	sameCrew := func(_ klog.Logger, pod *corev1.Pod, old, new any) (fwk.QueueingHint, error) {
		for _, obj := range []any{old, new} {
			if other, ok := obj.(*corev1.Pod); ok && of(other) == of(pod) {
				return fwk.Queue, nil
			}
		}
		return fwk.QueueSkip, nil
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add | fwk.Delete}, QueueingHintFn: sameCrew},
	}, nil
}
