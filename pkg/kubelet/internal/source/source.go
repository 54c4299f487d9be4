// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package source decides which pods this node runs: it takes them from where pods come from, asks whether the node has room for
// them, and gives them to their workers. Touch it to take pods from elsewhere, or when one waits for what is not its own.
package source

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// fetchPatience bounds the look at the Node in the API server that a refusal takes.
const fetchPatience = 5 * time.Second

// Source is where pods come from. It tells which pods to look at, and has the newest form of each.
type Source interface {
	// Name is how staticpod.Source calls it.
	Name() string
	// Start calls changed with each pod that came, changed or went, from now until ctx ends. It returns at once.
	Start(ctx context.Context, changed func(types.UID)) error
	// Wait returns when all that Start began has ended, which it does after ctx.
	Wait()
	// Synced says whether all that was there at the start is known.
	Synced() bool
	// Pod returns a pod, nil if the source does not have it. Callers do not change it.
	Pod(uid types.UID) *corev1.Pod
	// Renewed says, once, that a pod which the source has was gone for a moment: it is to run anew.
	Renewed(uid types.UID) bool
	// Pods returns all it has.
	Pods() []*corev1.Pod
}

// Workers are the pods that this node has; see podworker.Workers.
type Workers interface {
	Update(pod *corev1.Pod)
	Remove(pod *corev1.Pod)
	Pod(uid types.UID) *corev1.Pod
	Pods() []*corev1.Pod
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
	// Allot says what is to run of a pod that runs as have: the pod, or, while the node has no room for what it has been resized
	// to, the pod with the resources of have; then it waits. trigger is why that is looked at.
	Allot(ctx context.Context, pod, have *corev1.Pod, trigger string) (run *corev1.Pod, waits bool)
	// Gone is told of pods that a source no longer has and that this node never took, or has refused.
	Gone(uid types.UID)
}

// Why a resize is looked at, in upstream's words.
const (
	podUpdated    = "pod_updated"
	podsAdded     = "pods_added"
	podsRemoved   = "pods_removed"
	podTerminated = "pod_terminated"
	podResized    = "pod_resized"
	// Periodic is for no cause in the pods.
	Periodic = "periodic_retry"
)

// Mirrors show static pods in the API. Look is told the name of each that came, changed, or has left; it does not block.
type Mirrors interface {
	Look(name types.NamespacedName)
}

// Counts are told of pods that come in unusual ways. Their methods do not block.
type Counts interface {
	// Orphaned: the engine has had something of a pod that nobody knows.
	Orphaned()
	// Restarted: a pod that has left runs again.
	Restarted(static bool)
	// Seen: a worker is about to get a pod that a source has first told of at that time.
	Seen(uid types.UID, at time.Time)
}

// Config is what an Intake is made from; all fields are required.
type Config struct {
	Sources []Source
	Workers Workers
	Node    Node
	Mirrors Mirrors
	Counts  Counts
	Clock   clock.Clock
}

// item is what the queue has to be done: a pod that is to be looked at, or a source that has told of all its pods.
type item struct {
	uid    types.UID
	source string
}

// Intake takes pods in the order in which they came, one at a time, because that decides who finds room. It waits for nothing
// and nobody: what takes time is done beside it, or by the workers.
type Intake struct {
	cfg   Config
	queue workqueue.TypedInterface[item]

	// Only the goroutine of Run uses these. had are the pods as the checkpoints have them, until they are taken. refused are the pods that were not taken. known are the sources that have told of all
	// their pods; until one has, its pods are left as they are. kept and running are those of Run.
	had     map[types.UID]*corev1.Pod
	refused map[types.UID]*corev1.Pod
	known   map[string]bool
	kept    []*corev1.Pod
	running func(types.UID) bool

	beside sync.WaitGroup
	begun  chan struct{}

	mu sync.Mutex // guards the fields below
	// leftovers are on the node and of no pod, fetched the looks at the Node that were taken for a pod.
	leftovers map[types.UID]*corev1.Pod
	// behind are the static pods that wait for another one of their name to leave.
	behind  map[types.NamespacedName]types.UID
	fetched map[types.UID]fetch
	// seen are the pods that no worker has yet, by when a source first told of them.
	seen map[types.UID]time.Time
	// left are the pods that have left since they were last looked at, which they are at once.
	left map[types.UID]bool
	// deferred are the pods that wait for room for what they have been resized to, by since when; triggers is why they are looked at next.
	deferred map[types.UID]time.Time
	triggers map[types.UID]string
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
		cfg: cfg, queue: workqueue.NewTyped[item](), begun: make(chan struct{}),
		had: map[types.UID]*corev1.Pod{}, refused: map[types.UID]*corev1.Pod{}, known: map[string]bool{}, deferred: map[types.UID]time.Time{}, triggers: map[types.UID]string{},
		leftovers: map[types.UID]*corev1.Pod{}, behind: map[types.NamespacedName]types.UID{}, fetched: map[types.UID]fetch{}, left: map[types.UID]bool{}, seen: map[types.UID]time.Time{},
	}
}

// look has a pod looked at.
func (i *Intake) look(uid types.UID) {
	i.mu.Lock()
	if _, is := i.seen[uid]; !is {
		i.seen[uid] = i.cfg.Clock.Now()
	}
	i.mu.Unlock()
	i.queue.Add(item{uid: uid})
}

// Run takes pods until ctx ends. kept are those that an earlier process has run: they are run as they were, if their source does
// not tell within patience, and are ended when it tells that they are gone. running are the pods that the node has something of.
func (i *Intake) Run(ctx context.Context, kept []*corev1.Pod, running func(types.UID) bool, patience time.Duration) error {
	defer i.beside.Wait()
	defer i.queue.ShutDown()
	i.kept, i.running = kept, running
	for _, p := range kept {
		i.had[p.UID] = p
	}
	for _, s := range i.cfg.Sources {
		if err := s.Start(ctx, i.look); err != nil {
			return err
		}
		i.beside.Go(s.Wait)
	}
	late := i.await(ctx, patience)
	if ctx.Err() != nil {
		return nil
	}
	i.begin(ctx, slices.DeleteFunc(slices.Clone(i.cfg.Sources), func(s Source) bool { return slices.Contains(late, s) }))
	for _, s := range late {
		i.keep(ctx, s)
	}
	context.AfterFunc(ctx, i.queue.ShutDown)
	for {
		it, shutdown := i.queue.Get()
		switch {
		case shutdown:
			return nil
		case it.source != "":
			i.begin(ctx, slices.DeleteFunc(slices.Clone(i.cfg.Sources), func(s Source) bool { return s.Name() != it.source }))
		default:
			i.take(ctx, it.uid, false)
		}
		i.queue.Done(it)
	}
}

// await waits for all sources to tell of their pods, and returns those that have not within patience.
func (i *Intake) await(ctx context.Context, patience time.Duration) (late []Source) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cache.WaitForCacheSync(ctx.Done(), func() bool { return !slices.ContainsFunc(i.cfg.Sources, silent) })
	for _, s := range i.cfg.Sources {
		if silent(s) {
			late = append(late, s)
		}
	}
	return late
}

func silent(s Source) bool { return !s.Synced() }

// keep runs what an earlier process has run of a source that does not tell, until it does.
func (i *Intake) keep(ctx context.Context, s Source) {
	klog.FromContext(ctx).Info("A source of pods does not answer, running those of the checkpoints", "source", s.Name())
	for _, p := range i.kept {
		if staticpod.Source(p) == s.Name() {
			i.cfg.Workers.Update(p)
		}
	}
	i.beside.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), s.Synced) {
			i.queue.Add(item{source: s.Name()})
		}
	})
}

// begin ends the pods of the checkpoints that their source, if there is one, has no more, and takes all that sources have: those
// that run already first, and then by age.
func (i *Intake) begin(ctx context.Context, sources []Source) {
	var pods []*corev1.Pod
	for _, s := range sources {
		i.known[s.Name()] = true
		pods = append(pods, s.Pods()...)
	}
	i.kept = slices.DeleteFunc(i.kept, func(p *corev1.Pod) bool {
		if !i.told(p) {
			return false
		}
		if i.find(p.UID) == nil {
			i.end(p)
		}
		return true
	})
	rank := func(p *corev1.Pod) int {
		if i.running(p.UID) {
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
		i.take(ctx, p.UID, i.running(p.UID))
	}
	if len(i.known) == len(i.cfg.Sources) {
		close(i.begun)
	}
}

// taking tells of a pod that its worker is about to get when a source first told of it.
func (i *Intake) taking(uid types.UID, seen time.Time) {
	i.mu.Lock()
	delete(i.seen, uid)
	i.mu.Unlock()
	if !seen.IsZero() {
		i.cfg.Counts.Seen(uid, seen)
	}
}

// told says whether it is known if a pod's source still has it.
func (i *Intake) told(pod *corev1.Pod) bool {
	return i.known[staticpod.Source(pod)] ||
		!slices.ContainsFunc(i.cfg.Sources, func(s Source) bool { return s.Name() == staticpod.Source(pod) })
}

func (i *Intake) find(uid types.UID) *corev1.Pod {
	for _, s := range i.cfg.Sources {
		if p := s.Pod(uid); p != nil && i.known[s.Name()] {
			return p
		}
	}
	return nil
}

// renewed says whether a pod was gone since it was last looked at.
func (i *Intake) renewed(pod *corev1.Pod) bool {
	return pod != nil && slices.ContainsFunc(i.cfg.Sources, func(s Source) bool {
		return s.Name() == staticpod.Source(pod) && s.Renewed(pod.UID)
	})
}

// take brings one pod to its worker, or its worker to an end.
func (i *Intake) take(ctx context.Context, uid types.UID, running bool) {
	pod := i.find(uid)
	renewed := i.renewed(pod) // whether or not it runs yet: it is told once
	_, known := i.cfg.Workers.Stage(uid)
	i.mu.Lock()
	leftover, left, seen := i.leftovers[uid], i.left[uid], i.seen[uid]
	delete(i.leftovers, uid)
	delete(i.left, uid)
	if known {
		delete(i.seen, uid)
	}
	i.mu.Unlock()
	switch {
	case known && renewed: // Left has it taken again
		i.forget(uid)
		i.end(i.cfg.Workers.Pod(uid))
		i.cfg.Workers.Update(pod)
	case pod == nil && known:
		if was := i.cfg.Workers.Pod(uid); was != nil && i.told(was) {
			i.forget(uid)
			i.end(was)
		}
	case pod == nil && leftover != nil:
		i.forget(uid)
		klog.FromContext(ctx).Info("Ending orphaned pod", "pod", klog.KObj(leftover), "uid", uid)
		if leftover.Namespace != "" { // else it has left files only
			i.cfg.Counts.Orphaned()
		}
		i.end(leftover)
	case pod == nil:
		if was := i.refused[uid]; was != nil {
			i.show(was)
		}
		i.forget(uid)
		i.cfg.Node.Gone(uid)
	case !known && i.queued(pod):
	case known || running || pod.DeletionTimestamp != nil || podspec.IsTerminal(pod) || i.admit(ctx, pod):
		run, less := i.allot(ctx, pod)
		if !known {
			i.taking(uid, seen)
		}
		i.cfg.Workers.Update(run)
		if left && !known {
			i.cfg.Counts.Restarted(staticpod.Is(pod))
		}
		if less {
			i.Retry(podResized)
		}
	}
	if pod != nil {
		i.show(pod)
	}
	switch {
	case pod == nil && known:
		i.Retry(podsRemoved)
	case pod != nil && podspec.IsTerminal(pod):
		i.Retry(podTerminated)
	}
}

// allot is what is to run of a pod. less: it leaves others more than before, of which some wait for that.
func (i *Intake) allot(ctx context.Context, pod *corev1.Pod) (run *corev1.Pod, less bool) {
	i.mu.Lock()
	trigger, others := cmp.Or(i.triggers[pod.UID], podUpdated), len(i.deferred) > 0
	delete(i.triggers, pod.UID)
	i.mu.Unlock()
	have := i.cfg.Workers.Pod(pod.UID)
	if have == nil {
		have, trigger = i.had[pod.UID], podsAdded
	}
	delete(i.had, pod.UID)
	waits := false
	if have != nil {
		pod, waits = i.cfg.Node.Allot(ctx, pod, have, trigger)
		less = others && fewer(pod, have)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	since, waited := i.deferred[pod.UID]
	if delete(i.deferred, pod.UID); waits {
		if !waited {
			since = i.cfg.Clock.Now()
		}
		i.deferred[pod.UID] = since
	}
	return pod, less
}

// fewer says whether a pod counts less than before in what the node has left, be it that what it was resized to has come about.
func fewer(pod, before *corev1.Pod) bool {
	options := resource.PodResourcesOptions{UseStatusResources: true}
	now, was := resource.PodRequests(pod, options), resource.PodRequests(before, options)
	return now.Cpu().Cmp(*was.Cpu()) < 0 || now.Memory().Cmp(*was.Memory()) < 0
}

// Retry has the pods looked at that wait for room, as when there may be more, in the order in which they get it. trigger is why.
func (i *Intake) Retry(trigger string) {
	i.mu.Lock()
	since := maps.Clone(i.deferred)
	for uid := range since {
		i.triggers[uid] = trigger
	}
	i.mu.Unlock()
	var waiting []*corev1.Pod
	for uid := range since {
		if p := i.cfg.Workers.Pod(uid); p != nil {
			waiting = append(waiting, p)
		}
	}
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int {
		return cmp.Or(allocation.Compare(a, b), since[a.UID].Compare(since[b.UID]))
	})
	for _, p := range waiting {
		i.look(p.UID)
	}
}

// admit asks whether the node takes a pod. Who is refused by the node as it was last seen is judged again by what the API server
// says, because the watch may lag behind a change that made the scheduler choose the node.
func (i *Intake) admit(ctx context.Context, pod *corev1.Pod) bool {
	if i.refused[pod.UID] != nil {
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
		i.refused[pod.UID] = pod
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
		i.beside.Go(func() { i.fetchAll(ctx) })
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
			i.look(uid)
		}
	}
}

func (i *Intake) forget(uid types.UID) {
	delete(i.refused, uid)
	delete(i.had, uid)
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.fetched, uid)
	delete(i.deferred, uid)
	delete(i.triggers, uid)
	delete(i.seen, uid)
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
	i.look(pod.UID)
}
