// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package source decides which pods this node runs: it takes them from where pods come from, asks whether the node has room for
// them, and gives them to their workers. Touch it to take pods from elsewhere, or when one waits for what is not its own.
package source

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

// fetchPatience bounds the look at the Node in the API server that a refusal takes.
const fetchPatience = 5 * time.Second

// Source is where pods come from. It tells which pods to look at, and has the newest form of each.
type Source interface {
	// Start calls changed with each pod that came, changed or went, from now until ctx ends. It returns at once.
	Start(ctx context.Context, changed func(types.UID)) error
	// Synced says whether all that was there at the start is known.
	Synced() bool
	// Pod returns a pod, nil if the source does not have it. Callers do not change it.
	Pod(uid types.UID) *corev1.Pod
	// Pods returns all it has.
	Pods() []*corev1.Pod
}

// Workers are the pods that this node has; see podworker.Workers.
type Workers interface {
	Update(pod *corev1.Pod)
	Remove(pod *corev1.Pod)
	Pod(uid types.UID) *corev1.Pod
	Stage(uid types.UID) (podworker.Stage, bool)
}

// Node judges pods. Its methods do not block, but for Fetch.
type Node interface {
	// Current is this node as last seen, nil if it was not seen yet.
	Current() *corev1.Node
	// Fetch asks the API server for it, nil if that does not tell.
	Fetch(ctx context.Context) *corev1.Node
	// Admit says whether node takes a pod that is new to it; false if it has been refused, which is then reported.
	Admit(ctx context.Context, pod *corev1.Pod, node *corev1.Node, final bool) bool
	// Gone is told of pods that a source no longer has and that this node never took, or has refused.
	Gone(uid types.UID)
}

// Config is what an Intake is made from; all fields are required.
type Config struct {
	Sources []Source
	Workers Workers
	Node    Node
	Clock   clock.Clock
}

// Intake takes pods in the order in which they came, one at a time, because that decides who finds room. It waits for nothing
// and nobody: what takes time is done beside it, or by the workers.
type Intake struct {
	cfg   Config
	queue workqueue.TypedInterface[types.UID]

	// refused are the pods that were not taken. Only the goroutine of Run uses it.
	refused map[types.UID]bool
	fetches sync.WaitGroup
	begun   chan struct{}

	mu sync.Mutex // guards the fields below
	// leftovers are on the node and of no pod, fetched the looks at the Node that were taken for a pod.
	leftovers map[types.UID]*corev1.Pod
	fetched   map[types.UID]fetch
	// waiting are the pods that the next look is for; fetching says that one is under way.
	waiting  []types.UID
	fetching bool
}

// fetch is a look at the Node in the API server.
type fetch struct {
	done bool
	node *corev1.Node // nil if the API server has not told
}

// New returns an Intake.
func New(cfg Config) *Intake {
	return &Intake{
		cfg: cfg, queue: workqueue.NewTyped[types.UID](), begun: make(chan struct{}),
		refused: map[types.UID]bool{}, leftovers: map[types.UID]*corev1.Pod{}, fetched: map[types.UID]fetch{},
	}
}

// Run takes pods until ctx ends. kept are those that an earlier process has run: they are run as they were, if the sources do
// not tell within patience, and are ended when these tell that they are gone. running are the pods that the node has something of.
func (i *Intake) Run(ctx context.Context, kept []*corev1.Pod, running func(types.UID) bool, patience time.Duration) error {
	defer i.fetches.Wait()
	defer i.queue.ShutDown()
	for _, s := range i.cfg.Sources {
		if err := s.Start(ctx, i.queue.Add); err != nil {
			return err
		}
	}
	early, cancel := context.WithTimeout(ctx, patience)
	inTime := cache.WaitForCacheSync(early.Done(), i.synced)
	cancel()
	if !inTime && ctx.Err() == nil {
		klog.FromContext(ctx).Info("API server does not answer, running the pods of the checkpoints", "pods", len(kept))
		for _, p := range kept {
			i.cfg.Workers.Update(p)
		}
		cache.WaitForCacheSync(ctx.Done(), i.synced)
	}
	if ctx.Err() != nil {
		return nil
	}
	i.begin(ctx, kept, running)
	close(i.begun)
	context.AfterFunc(ctx, i.queue.ShutDown)
	for {
		uid, shutdown := i.queue.Get()
		if shutdown {
			return nil
		}
		i.take(ctx, uid, false)
		i.queue.Done(uid)
	}
}

func (i *Intake) synced() bool {
	return !slices.ContainsFunc(i.cfg.Sources, func(s Source) bool { return !s.Synced() })
}

// begin takes all pods there are, those that run already first and then by age; and ends those of the checkpoints that no source
// has any more.
func (i *Intake) begin(ctx context.Context, kept []*corev1.Pod, running func(types.UID) bool) {
	var pods []*corev1.Pod
	for _, s := range i.cfg.Sources {
		pods = append(pods, s.Pods()...)
	}
	rank := func(p *corev1.Pod) int {
		if running(p.UID) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	for _, p := range pods {
		i.take(ctx, p.UID, running(p.UID))
	}
	for _, p := range kept {
		if i.find(p.UID) == nil {
			i.end(p)
		}
	}
}

func (i *Intake) find(uid types.UID) *corev1.Pod {
	for _, s := range i.cfg.Sources {
		if p := s.Pod(uid); p != nil {
			return p
		}
	}
	return nil
}

// take brings one pod to its worker, or its worker to an end.
func (i *Intake) take(ctx context.Context, uid types.UID, running bool) {
	pod := i.find(uid)
	_, known := i.cfg.Workers.Stage(uid)
	i.mu.Lock()
	leftover := i.leftovers[uid]
	delete(i.leftovers, uid)
	i.mu.Unlock()
	switch {
	case pod == nil && known:
		i.forget(uid)
		i.end(i.cfg.Workers.Pod(uid))
	case pod == nil && leftover != nil:
		klog.FromContext(ctx).Info("Ending orphaned pod", "pod", klog.KObj(leftover), "uid", uid)
		i.end(leftover)
	case pod == nil:
		i.forget(uid)
		i.cfg.Node.Gone(uid)
	case known || running || pod.DeletionTimestamp != nil || podspec.IsTerminal(pod) || i.admit(ctx, pod):
		i.cfg.Workers.Update(pod)
	}
}

// admit asks whether the node takes a pod. Who is refused by the node as it was last seen is judged again by what the API server
// says, because the watch may lag behind a change that made the scheduler choose the node.
func (i *Intake) admit(ctx context.Context, pod *corev1.Pod) bool {
	if i.refused[pod.UID] {
		return false // its status is on the way
	}
	i.mu.Lock()
	f, asked := i.fetched[pod.UID]
	i.mu.Unlock()
	if asked && !f.done {
		return false
	}
	node := f.node
	if node == nil {
		node = i.cfg.Node.Current()
	}
	switch {
	case node == nil && asked:
		// Without its node it cannot be judged; it was bound, so it runs.
	case node == nil:
		i.fetch(ctx, pod.UID)
		return false
	case i.cfg.Node.Admit(ctx, pod, node, asked):
	case asked:
		i.refused[pod.UID] = true
		return false
	default:
		i.fetch(ctx, pod.UID)
		return false
	}
	i.forget(pod.UID)
	return true
}

// fetch has the pod looked at again when the API server has told of the node, or has not in time. One look at a time serves all
// that wait for it, in the order in which they came.
func (i *Intake) fetch(ctx context.Context, uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetched[uid] = fetch{}
	i.waiting = append(i.waiting, uid)
	if !i.fetching {
		i.fetching = true
		i.fetches.Go(func() { i.fetchAll(ctx) })
	}
}

func (i *Intake) fetchAll(ctx context.Context) {
	for {
		i.mu.Lock()
		batch := i.waiting
		i.waiting = nil
		i.fetching = len(batch) > 0
		i.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		fctx, cancel := context.WithTimeout(ctx, fetchPatience)
		node := i.cfg.Node.Fetch(fctx)
		cancel()
		for _, uid := range batch {
			i.mu.Lock()
			i.fetched[uid] = fetch{done: true, node: node}
			i.mu.Unlock()
			i.queue.Add(uid)
		}
	}
}

func (i *Intake) forget(uid types.UID) {
	delete(i.refused, uid)
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.fetched, uid)
}

// end stops a pod that no source has. That it is going is part of it, so that a kubelet that is killed meanwhile does not start
// it again.
func (i *Intake) end(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	if pod.DeletionTimestamp == nil {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: i.cfg.Clock.Now()}
	}
	i.cfg.Workers.Update(pod)
	i.cfg.Workers.Remove(pod)
}

// Begun is closed when all pods that were there at the start have been taken.
func (i *Intake) Begun() <-chan struct{} { return i.begun }

// Leftover ends what is on the node of a pod that no source has and no worker knows.
func (i *Intake) Leftover(pod *corev1.Pod) {
	i.mu.Lock()
	i.leftovers[pod.UID] = pod
	i.mu.Unlock()
	i.queue.Add(pod.UID)
}
