// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// world is a source, the workers, and the node with its API server, which may be old, slow or away.
type world struct {
	mu      sync.Mutex
	synced  bool
	pods    map[types.UID]*corev1.Pod
	changed func(types.UID)

	workers map[types.UID]*corev1.Pod
	log     []string

	room, freshRoom int // for how many pods there is room, as last seen and as the API server has it
	unseen, away    bool
	slow            time.Duration

	more    []Source // beside the world itself
	lingers bool     // pods stay in workers until they leave
	full    bool     // pods that have been resized wait

	triggers []string                // with which Allot was called
	seen     map[types.UID]time.Time // of which pods was told
}

// tell says that a pod of another source has changed, leave that a pod's worker has ended.
func (w *world) tell(uid types.UID) { w.changed(uid) }

func (w *world) leave(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.workers, uid)
}

// otherSource is a source that tells by way of the world.
type otherSource struct {
	other
	world *world
}

func (o otherSource) Start(context.Context, func(types.UID)) error { return nil }

func (w *world) note(text string, uid types.UID) { w.log = append(w.log, text+" "+string(uid)) }

func (w *world) Start(_ context.Context, changed func(types.UID)) error {
	w.changed = changed
	return nil
}

func (w *world) Name() string             { return staticpod.API }
func (w *world) Renewed(_ types.UID) bool { return false }
func (w *world) Wait()                    {}

func (w *world) Synced() bool { return w.locked(func() bool { return w.synced }) }

func (w *world) locked(f func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f()
}

func (w *world) Pods() []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*corev1.Pod
	for _, p := range w.pods {
		out = append(out, p)
	}
	return out
}

// sourceOf and workersOf are the world as these see it: both have a method Pod.
type (
	sourceOf  struct{ *world }
	workersOf struct{ *world }
)

func (s sourceOf) Pod(uid types.UID) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

func (w workersOf) Pod(uid types.UID) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.workers[uid]
}

func (w workersOf) Pods() []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.workers))
}

func (w workersOf) Stage(uid types.UID) (podworker.Stage, bool) {
	return podworker.Syncing, w.Pod(uid) != nil
}

func (w workersOf) Update(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := "run"
	if p.DeletionTimestamp != nil {
		text = "stop"
	}
	w.note(text, p.UID)
	w.workers[p.UID] = p
}

func (w workersOf) Remove(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("remove", p.UID)
	if !w.lingers {
		delete(w.workers, p.UID)
	}
}

func (w *world) node(room int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Generation: int64(room)}}
}

func (w *world) Current() *corev1.Node {
	if w.unseen {
		return nil
	}
	return w.node(w.room)
}

func (w *world) Fetch(ctx context.Context) *corev1.Node {
	select {
	case <-time.After(w.slow):
	case <-ctx.Done():
		return nil
	}
	if w.away {
		return nil
	}
	return w.node(w.freshRoom)
}

func (w *world) Admit(_ context.Context, p *corev1.Pod, n *corev1.Node, final bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.workers) < int(n.Generation) {
		return true
	}
	if final {
		w.note("refuse", p.UID)
	}
	return false
}

func (w *world) Orphaned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, "count an orphan")
}

func (w *world) Restarted(static bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("count a restart, static %v", static))
}

func (w *world) Look(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, "show "+name.Name)
}

func (w *world) Seen(uid types.UID, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[types.UID]time.Time{}
	}
	w.seen[uid] = at
}

// Allot keeps the label of the pod that runs while w.full is set.
func (w *world) Allot(_ context.Context, pod, have *corev1.Pod, trigger string) (*corev1.Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.triggers = append(w.triggers, string(pod.UID)+" "+trigger)
	if !w.full || pod.Labels["size"] == have.Labels["size"] {
		return pod, false
	}
	pod = pod.DeepCopy()
	pod.Labels = have.Labels
	return pod, true
}

func (w *world) Gone(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("gone", uid)
}

// set changes what the source has and tells of it; a nil pod is one that is gone.
func (w *world) set(uid types.UID, p *corev1.Pod) {
	w.mu.Lock()
	if w.pods[uid] = p; p == nil {
		delete(w.pods, uid)
	}
	w.mu.Unlock()
	w.changed(uid)
}

// settle waits for everything to come to rest and returns what was done since the last call.
func (w *world) settle() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.log
	w.log = nil
	return out
}

func pod(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid)}}
}

// start runs an Intake of the world until the test ends.
func (w *world) start(t *testing.T, kept []*corev1.Pod, running ...types.UID) *Intake {
	t.Helper()
	if w.pods == nil {
		w.pods = map[types.UID]*corev1.Pod{}
	}
	w.workers = map[types.UID]*corev1.Pod{}
	i := New(Config{Sources: append([]Source{sourceOf{w}}, w.more...), Workers: workersOf{w}, Node: w, Mirrors: w, Counts: w, Clock: clock.RealClock{}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- i.Run(ctx, kept, func(uid types.UID) bool { return slices.Contains(running, uid) }, 3*time.Second)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return i
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true, room: 2, freshRoom: 2}
		i := w.start(t, nil)
		<-time.After(time.Second)
		w.set("a", pod("a"))
		expect(t, "a new pod", w.settle(), "run a")
		w.set("a", pod("a"))
		expect(t, "a change", w.settle(), "run a")
		w.set("b", pod("b"))
		w.set("c", pod("c"))
		expect(t, "one too many", w.settle(), "run b", "refuse c")
		w.set("c", pod("c"))
		expect(t, "the status of the refusal", w.settle())
		w.set("a", nil)
		expect(t, "one goes", w.settle(), "stop a", "remove a")
		w.set("c", nil)
		expect(t, "the refused one goes", w.settle(), "gone c")
		going := pod("d")
		going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		w.set("e", pod("e"))
		w.set("d", going)
		expect(t, "one that was never here and is going needs no room", w.settle(), "run e", "stop d")
		i.Leftover(pod("old"))
		i.Leftover(pod("b"))
		expect(t, "leftovers, one of which is a pod's", w.settle(), "stop old", "remove old", "run b")
		orphan := pod("orphan")
		orphan.Namespace = "ns"
		i.Leftover(orphan)
		expect(t, "one of which the engine has something", w.settle(), "count an orphan", "stop orphan", "remove orphan")
	})
}

// TestAdmit checks that a refusal by an old view of the node is put right, and that nobody waits for the API server meanwhile.
func TestAdmit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world *world
		want  []string
	}{
		{"room that was not seen yet", &world{room: 0, freshRoom: 3, slow: time.Second}, []string{"run a", "run b"}},
		{"no room", &world{slow: time.Second}, []string{"refuse a", "refuse b"}},
		{"the API server is away", &world{away: true, freshRoom: 2}, []string{"refuse a", "refuse b"}},
		{"the API server hangs", &world{slow: time.Hour, freshRoom: 2}, []string{"refuse a", "refuse b"}},
		{"no node is known", &world{unseen: true, away: true}, []string{"run a", "run b"}},
		{"the node is fetched", &world{unseen: true, freshRoom: 1}, []string{"run a", "refuse b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := tc.world
				w.synced = true
				w.start(t, nil)
				<-time.After(time.Second)
				w.set("a", pod("a"))
				<-time.After(time.Millisecond)
				w.set("b", pod("b"))
				going := pod("z")
				going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				w.set("z", going)
				<-time.After(time.Millisecond)
				first := w.settle()
				if !slices.Contains(first, "stop z") {
					t.Errorf("another pod waits: %v", first)
				}
				w.set("a", pod("a")) // a change meanwhile asks no second time
				<-time.After(2*fetchPatience + time.Second)
				var all []string // each once, for a change of a pod that runs is passed on
				for _, s := range append(first, w.settle()...) {
					if s != "stop z" && !slices.Contains(all, s) {
						all = append(all, s)
					}
				}
				expect(t, "all in all", all, tc.want...)
			})
		})
	}
}

// TestAllot: a pod that has been resized runs as before until there is room for it, also for a new process.
func TestAllot(t *testing.T) {
	sized := func(uid types.UID, size string) *corev1.Pod {
		p := pod(uid)
		p.Labels = map[string]string{"size": size}
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true, room: 2, freshRoom: 2, full: true, pods: map[types.UID]*corev1.Pod{"a": sized("a", "2")}}
		i := w.start(t, []*corev1.Pod{sized("a", "1")}, "a")
		is := func(when, size string) {
			t.Helper()
			if got := (workersOf{w}).Pod("a").Labels["size"]; got != size {
				t.Errorf("%s a has size %s, want %s", when, got, size)
			}
		}
		is("at the start", "1")
		w.set("b", pod("b"))
		w.set("a", sized("a", "3"))
		expect(t, "resized again", w.settle(), "run a", "run b", "run a")
		is("resized again", "1")
		i.Retry(Periodic)
		expect(t, "looked at anew", w.settle(), "run a")
		is("looked at anew", "1")
		w.locked(func() bool { w.full = false; return true })
		w.set("b", nil)
		expect(t, "another goes", w.settle(), "stop b", "remove b", "run a")
		is("when another has gone", "3")
		i.Retry(Periodic)
		expect(t, "nothing waits any more", w.settle())
	})
}

// TestRetry_Order: who has the higher priority is looked at first, and of others who waits longer.
func TestRetry_Order(t *testing.T) {
	sized := func(uid types.UID, size string, priority int32) *corev1.Pod {
		p := pod(uid)
		p.Labels = map[string]string{"size": size}
		p.Spec.Priority = &priority
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true, room: 4, freshRoom: 4, full: true, pods: map[types.UID]*corev1.Pod{}}
		var kept []*corev1.Pod
		uids := []types.UID{"a", "b", "c"}
		for _, uid := range uids {
			w.pods[uid] = sized(uid, "1", 0)
			kept = append(kept, w.pods[uid])
		}
		i := w.start(t, kept, uids...)
		w.settle()
		for _, next := range []*corev1.Pod{sized("c", "2", 0), sized("a", "2", 0), sized("b", "2", 7)} {
			<-time.After(time.Second)
			w.set(next.UID, next)
			expect(t, "resized", w.settle(), "run "+string(next.UID))
		}
		for range 2 { // the second time all have been looked at again
			i.Retry(Periodic)
			expect(t, "looked at anew", w.settle(), "run b", "run c", "run a")
		}
	})
}

// TestRetry_Trigger: whoever looks for room again says why, and that another pod leaves more is a reason.
func TestRetry_Trigger(t *testing.T) {
	sized := func(uid types.UID, size string) *corev1.Pod {
		p := pod(uid)
		p.Labels = map[string]string{"size": size}
		return p
	}
	uses := func(cpu string) *corev1.Pod { // what the spec asks for, what b has by its status
		p := pod("b")
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true, room: 4, freshRoom: 4, full: true, pods: map[types.UID]*corev1.Pod{"a": sized("a", "2"), "b": uses("3"), "c": pod("c")}}
		i := w.start(t, []*corev1.Pod{sized("a", "1"), uses("3"), pod("c")}, "a", "b", "c")
		const start = "at the start"
		triggers := func(what string, want ...string) {
			t.Helper()
			w.settle()
			w.mu.Lock()
			defer w.mu.Unlock()
			if what == start { // in any order
				slices.Sort(w.triggers)
			}
			if diff := cmp.Diff(want, w.triggers); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			w.triggers = nil
		}
		triggers(start, "a pods_added", "b pods_added", "c pods_added")
		w.set("a", sized("a", "3"))
		triggers("updated", "a pod_updated")
		i.Retry(Periodic)
		triggers("now and again", "a periodic_retry")
		w.set("b", uses("3"))
		triggers("another as before", "b pod_updated")
		w.set("b", uses("2"))
		triggers("another has less", "b pod_updated", "a pod_resized")
		ended := uses("2")
		ended.Status.Phase = corev1.PodSucceeded
		w.set("b", ended)
		triggers("another has ended", "b pod_updated", "a pod_terminated")
		w.set("c", nil)
		triggers("another goes", "a pods_removed")
	})
}

// TestSeen: that a pod was told of counts from the first time, however long it takes until it has a worker, which happens once.
func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true, room: 1, freshRoom: 1, slow: time.Second, pods: map[types.UID]*corev1.Pod{}}
		i := w.start(t, nil)
		seen := func(what string, want map[types.UID]time.Time) {
			t.Helper()
			w.settle()
			w.mu.Lock()
			defer w.mu.Unlock()
			if diff := cmp.Diff(want, w.seen); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			w.seen = nil
		}
		began := time.Now()
		w.set("a", pod("a"))
		seen("the first", map[types.UID]time.Time{"a": began})
		w.set("a", pod("a"))
		seen("once more", nil)
		w.locked(func() bool { w.freshRoom = 2; return true })
		began = time.Now()
		w.set("b", pod("b"))
		<-time.After(500 * time.Millisecond)
		w.set("b", pod("b"))
		<-time.After(time.Second)
		seen("when the node was asked", map[types.UID]time.Time{"b": began})
		w.set("c", pod("c"))
		<-time.After(2 * time.Second)
		seen("refused", nil)
		for _, uid := range []types.UID{"a", "b", "c"} {
			w.set(uid, nil)
		}
		w.settle()
		i.mu.Lock()
		defer i.mu.Unlock()
		if len(i.seen) > 0 {
			t.Errorf("%v are remembered", i.seen)
		}
	})
}

func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true, room: 2, freshRoom: 2, pods: map[types.UID]*corev1.Pod{}}
		for n, uid := range []types.UID{"young", "older", "oldest", "runs"} {
			w.pods[uid] = pod(uid)
			w.pods[uid].CreationTimestamp = metav1.NewTime(time.Unix(int64(100-n), 0))
		}
		w.pods["runs"].CreationTimestamp = metav1.NewTime(time.Unix(200, 0))
		w.start(t, []*corev1.Pod{pod("runs"), pod("went")}, "runs", "went")
		<-time.After(time.Second)
		expect(t, "begin", w.settle(), "stop went", "remove went", "run runs", "run oldest", "refuse older", "refuse young")
	})
}

// TestCheckpoints checks that the pods of before run while the API server does not tell, and that none is ended for that.
func TestCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{room: 10, freshRoom: 10, pods: map[types.UID]*corev1.Pod{"a": pod("a")}}
		w.start(t, []*corev1.Pod{pod("a"), pod("b")}, "a")
		<-time.After(2 * time.Second)
		expect(t, "in time yet", w.settle())
		<-time.After(time.Minute)
		expect(t, "no answer", w.settle(), "run a", "run b")
		w.locked(func() bool { w.synced = true; return true })
		<-time.After(time.Second)
		expect(t, "an answer", w.settle(), "stop b", "remove b", "run a")
	})
}
