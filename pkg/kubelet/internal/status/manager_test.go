// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
	testingclock "k8s.io/utils/clock/testing"
)

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func get(t *testing.T, c *clientfake.Clientset) *corev1.Pod {
	t.Helper()
	p, err := c.CoreV1().Pods("ns").Get(context.Background(), "p", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func startManager(t *testing.T, c *clientfake.Clientset) *Manager {
	t.Helper()
	m := NewManager(c, nil, func(types.UID) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = m.Start(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return m
}

func TestManagerReportsAndDeletes(t *testing.T) {
	live := pod(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: "foreign", Status: corev1.ConditionTrue}}
	}, "a")
	c := clientfake.NewClientset(live)
	failures := 2
	c.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failures > 0 {
			failures--
			return true, nil, errors.New("server away")
		}
		return false, nil, nil
	})
	m := startManager(t, c)
	stale := live.DeepCopy()
	stale.Status.Conditions = nil // the watch is behind
	m.Set(stale, corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}})
	await(t, "reported", func() bool { return get(t, c).Status.Phase == corev1.PodRunning })
	if got := get(t, c).Status.Conditions; len(got) != 2 {
		t.Errorf("conditions %v: the foreign one is to stay", got)
	}
	if b := m.Base(live); b.Phase != corev1.PodRunning || len(b.Conditions) != 2 {
		t.Errorf("base %+v", b)
	}

	// Nothing is sent twice.
	c.ClearActions()
	st, _ := m.Get("u")
	m.Set(live, st)
	m.Set(live, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "R"})
	await(t, "failed", func() bool { return get(t, c).Status.Phase == corev1.PodFailed })
	if n := len(c.Actions()); n > 8 {
		t.Errorf("%d requests", n)
	}
	m.Set(live, corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"})
	await(t, "updated", func() bool { return get(t, c).Status.PodIP == "10.0.0.1" })
	if got := get(t, c).Status; got.Phase != corev1.PodFailed || got.Reason != "R" {
		t.Errorf("a terminal pod became %s %s", got.Phase, got.Reason)
	}
	m.Delete(live)
	await(t, "deleted", func() bool { return get(t, c) == nil })
}

// How long a status took is told once it is known to the API server, from the first change that was not, and not of a pod that is gone.
func TestManager_Delivered(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{true, false} {
		clock, live := testingclock.NewFakeClock(time.Unix(1700000000, 0)), pod(func(p *corev1.Pod) { p.ResourceVersion = "1" }, "a")
		c := clientfake.NewClientset()
		if there {
			c = clientfake.NewClientset(live)
		}
		m := NewManager(c, nil, func(types.UID) {})
		m.repairs = flowcontrol.NewFakeBackOff(firstRepair, lastRepair, clock)
		var took []time.Duration
		m.Delivered = func(d time.Duration) { took = append(took, d) }
		deliver := func(phase corev1.PodPhase, wait time.Duration) {
			m.Set(live, corev1.PodStatus{Phase: phase})
			clock.Step(wait)
			m.Set(live, corev1.PodStatus{Phase: phase, PodIP: "192.0.2.1"})
			clock.Step(wait)
			if err := m.sync(t.Context(), live.UID); err != nil {
				t.Fatal(err)
			}
		}
		deliver(corev1.PodPending, time.Second)
		clock.Step(time.Hour)
		deliver(corev1.PodRunning, time.Minute)
		want := []time.Duration{2 * time.Second, 2 * time.Minute}
		if !there {
			want = nil
		}
		if diff := cmp.Diff(want, took); diff != "" {
			t.Errorf("there %t (-want +got):\n%s", there, diff)
		}
	}
}

func TestManagerSparesAnotherPodOfThatName(t *testing.T) {
	other := pod(nil, "a")
	other.UID = "other"
	c := clientfake.NewClientset(other)
	m := startManager(t, c)
	m.Set(pod(nil, "a"), corev1.PodStatus{Phase: corev1.PodRunning})
	await(t, "given up", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.pods["u"].reported == m.pods["u"].version
	})
	if got := get(t, c); got.Status.Phase != "" {
		t.Errorf("status of another pod was set to %s", got.Status.Phase)
	}
	for _, a := range c.Actions() {
		if a.GetVerb() == "patch" {
			t.Errorf("patched: %v", a)
		}
	}
}

// TestManagerSeen: only what was written after the report is a foreign hand's, and one that comes while the report is under way is
// seen at the next look.
func TestManagerSeen(t *testing.T) {
	m := NewManager(clientfake.NewClientset(), nil, func(types.UID) {})
	foreign := func(revision string) *corev1.Pod {
		return pod(func(p *corev1.Pod) { p.ResourceVersion, p.Status.Phase = revision, corev1.PodPending }, "a")
	}
	versions := func() (set, reported uint64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.pods["u"].version, m.pods["u"].reported
	}
	m.Set(foreign("9"), corev1.PodStatus{Phase: corev1.PodRunning})
	for _, step := range []struct {
		name string
		do   func()
		want [2]uint64
	}{
		{"the report is under way", func() { m.Seen(foreign("11")) }, [2]uint64{1, 0}},
		{"it is done", func() { m.reported("u", 1, "10") }, [2]uint64{1, 1}},
		{"from before it", func() { m.Seen(foreign("9")) }, [2]uint64{1, 1}},
		{"the next look", func() { m.Seen(foreign("11")) }, [2]uint64{2, 1}},
		{"the repair is under way", func() { m.Seen(foreign("12")) }, [2]uint64{2, 1}},
	} {
		step.do()
		if set, reported := versions(); set != step.want[0] || reported != step.want[1] {
			t.Errorf("%s: version %d, reported %d, want %v", step.name, set, reported, step.want)
		}
	}
}

// TestManagerSeen_Restored: what is older than the report is news as well when it has been so for longer than a watch lags behind.
func TestManagerSeen_Restored(t *testing.T) {
	t.Parallel()
	live := pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, "a")
	c := clientfake.NewClientset(live)
	m := NewManager(c, nil, func(types.UID) {})
	clock := testingclock.NewFakeClock(now)
	m.repairs = flowcontrol.NewFakeBackOff(0, 0, clock)
	m.Set(live, corev1.PodStatus{Phase: corev1.PodRunning})
	m.reported("u", 1, "100")
	older := live.DeepCopy()
	older.ResourceVersion = "50"
	waits := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.pods["u"].version > m.pods["u"].reported
	}
	clock.Step(lag - 1)
	if m.Seen(older); waits() {
		t.Error("what the watch is late with is taken for news")
	}
	clock.Step(1)
	if m.Seen(older); !waits() {
		t.Error("what was lost is not reported again")
	}
	m.reported("u", 2, "51")
	older.ResourceVersion = "60"
	if m.Seen(older); !waits() {
		t.Error("what was written after the report is not news")
	}
}

// TestManager_Hangs: a server that does not answer about one pod has its question put again, and holds up no other pod.
func TestManager_Hangs(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	m := NewManager(client, nil, func(types.UID) {})
	m.patience = 50 * time.Millisecond
	m.Set(pod(nil, "a"), corev1.PodStatus{Phase: corev1.PodRunning})
	if err := m.sync(t.Context(), "u"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	m.patience = time.Minute
	if err := m.sync(t.Context(), "u"); err != nil {
		t.Error(err)
	}
}

// TestManagerMirror: the status of a static pod goes to its mirror, as soon as there is one, and to no other object.
func TestManagerMirror(t *testing.T) {
	const source, hash = "kubernetes.io/config.source", "kubernetes.io/config.hash"
	static := pod(func(p *corev1.Pod) { p.Annotations = map[string]string{source: "file", hash: "u"} }, "a")
	mirror := func(uid types.UID, of string) *corev1.Pod {
		m := static.DeepCopy()
		m.UID, m.Annotations[corev1.MirrorPodAnnotationKey] = uid, of
		return m
	}
	c := clientfake.NewClientset(mirror("old", "another form"))
	var seen atomic.Pointer[corev1.Pod]
	m := NewManager(c, func(*corev1.Pod) *corev1.Pod { return seen.Load() }, func(types.UID) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = m.Start(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })

	running := corev1.PodStatus{Phase: corev1.PodRunning}
	m.Set(static, running)
	await(t, "looked at", func() bool { return len(c.Actions()) > 0 })
	again := func(next *corev1.Pod) {
		t.Helper()
		if err := c.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CoreV1().Pods("ns").Create(t.Context(), next, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		seen.Store(next)
		m.Seen(static)
	}
	for _, uid := range []types.UID{"m1", "m2"} {
		if got := get(t, c); got.UID == "old" && got.Status.Phase == corev1.PodRunning {
			t.Error("the mirror of another form got the status")
		}
		again(mirror(uid, "u"))
		await(t, "reported to "+string(uid), func() bool { p := get(t, c); return p.UID == uid && p.Status.Phase == corev1.PodRunning })
	}

	ended := mirror("m3", "u")
	ended.Status.Phase = corev1.PodFailed
	seen.Store(ended)
	if got := m.Base(static).Phase; got != corev1.PodRunning {
		t.Errorf("the end of a mirror is that of its pod: %s", got)
	}
	m.Forget(static.UID)
	if got := m.Base(static).Phase; got != static.Status.Phase {
		t.Errorf("the end of a mirror is that of its pod, of which nothing was said: %s", got)
	}
	m.Delete(static)
	m.Set(static, running)
	<-time.After(50 * time.Millisecond)
	if get(t, c) == nil {
		t.Error("the mirror was deleted, which is another's to do")
	}
}
