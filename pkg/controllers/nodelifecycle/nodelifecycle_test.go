// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodelifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/node/topology"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
	"minik8s.io/minik8s/pkg/machinetest"
)

var (
	now      = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	patience = patienceOf(setup.DefaultSettings())
	pace     = paceOf(setup.DefaultSettings())
)

func node(name string, ready corev1.ConditionStatus, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.NewTime(now.Add(-time.Minute))},
		}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func render(list []corev1.Taint) []string {
	var got []string
	for _, t := range list {
		got = append(got, t.Key+":"+string(t.Effect))
	}
	return got
}

func podOn(node, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// silentNode is a node that has fallen silent, with a pod on it.
func silentNode() controllertest.Case {
	return controllertest.Case{
		Objects: []client.Object{node("dead", corev1.ConditionTrue), node("live", corev1.ConditionTrue), podOn("dead", "p")},
		Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "dead"}},
		New: func(c client.Client) reconcile.Reconciler {
			clock := clocktesting.NewFakeClock(now)
			r := &Reconciler{Client: c, Live: controllertest.Live(c), Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
			// The process has heard of the node, and then nothing more.
			return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				if len(r.heartbeats) == 0 {
					if result, err := r.Reconcile(ctx, req); err != nil || result.RequeueAfter == 0 {
						return result, err
					}
					clock.Step(patience.Monitor)
				}
				clock.Step(lookAgain) // a turn that was used in vain is followed by another one
				return r.Reconcile(ctx, req)
			})
		},
		Want: func(ctx context.Context, c client.Client) error {
			var n corev1.Node
			if err := c.Get(ctx, types.NamespacedName{Name: "dead"}, &n); err != nil {
				return err
			}
			want := []string{corev1.TaintNodeUnreachable + ":NoSchedule", corev1.TaintNodeUnreachable + ":NoExecute"}
			if diff := gocmp.Diff(want, render(n.Spec.Taints)); diff != "" {
				return fmt.Errorf("taints (-want +got):\n%s", diff)
			}
			if c := condition(&n, corev1.NodeReady); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
				return fmt.Errorf("Ready is %+v", c)
			}
			if c := condition(&n, corev1.NodeMemoryPressure); c == nil || c.Reason != "NodeStatusNeverUpdated" {
				return fmt.Errorf("MemoryPressure is %+v", c)
			}
			var p corev1.Pod
			if err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "p"}, &p); err != nil {
				return err
			}
			if p.Status.Conditions[0].Status != corev1.ConditionFalse {
				return fmt.Errorf("the pod still is ready")
			}
			return nil
		},
	}
}

func TestReconciler_SilentNode(t *testing.T) {
	controllertest.Run(t, silentNode())
}

// There may be ten thousand pods, and a hundred nodes that are silent at once.
func TestReconciler_SilentNode_LooksAtItsOwnPods(t *testing.T) {
	var elsewhere []client.Object
	for i := range 20 {
		elsewhere = append(elsewhere, podOn("live", fmt.Sprintf("elsewhere-%d", i)))
	}
	controllertest.Bystanders(t, silentNode(), elsewhere...)
}

// Clocks are set by hours, forward and back: a node that renews its lease stays Ready, and one that does not is found out.
func TestReconciler_ClockIsSet(t *testing.T) {
	began := time.Now()
	n := node("n", corev1.ConditionTrue)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"}}
	c := controllertest.NewClientBuilder().WithObjects(n, lease).WithStatusSubresource(&corev1.Node{}).Build()
	clock := clocktesting.NewFakeClock(began)
	r := &Reconciler{Client: c, Live: controllertest.Live(c), Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
	passed := time.Duration(0)
	pass := func(set time.Duration, renewed bool, want corev1.ConditionStatus) {
		t.Helper()
		// More than the grace, in steps of a renewal each.
		for range 8 {
			passed += 10 * time.Second
			clock.SetTime(machinetest.ClockSet(began.Add(passed), set))
			if renewed {
				lease.Spec.RenewTime = &metav1.MicroTime{Time: clock.Now().Round(0)}
				if err := c.Update(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n"}}); err != nil {
				t.Fatal(err)
			}
		}
		var now corev1.Node
		if err := c.Get(t.Context(), types.NamespacedName{Name: "n"}, &now); err != nil {
			t.Fatal(err)
		}
		if got := condition(&now, corev1.NodeReady); got.Status != want || (len(now.Spec.Taints) > 0) != (want != corev1.ConditionTrue) {
			t.Errorf("set by %s, renewed %v: %+v, taints %v", set, renewed, got, now.Spec.Taints)
		}
	}
	pass(0, true, corev1.ConditionTrue)
	pass(2*time.Hour, true, corev1.ConditionTrue)
	pass(-3*time.Hour, true, corev1.ConditionTrue)
	pass(3*time.Hour, false, corev1.ConditionUnknown)
}

// A watch of leases may stand still while all kubelets renew theirs.
func TestReconciler_LeaseBehind(t *testing.T) {
	lease := func(renewals int) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n", ResourceVersion: strconv.Itoa(100 + renewals)},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(time.Duration(renewals) * 10 * time.Second)}},
		}
	}
	tests := []struct {
		name         string
		cached, live []client.Object
		fails        error
		want         corev1.ConditionStatus
	}{
		{name: "renewed", cached: []client.Object{lease(0)}, live: []client.Object{lease(1)}, want: corev1.ConditionTrue},
		{name: "new", live: []client.Object{lease(0)}, want: corev1.ConditionTrue},
		{name: "cannot be read", cached: []client.Object{lease(0)}, fails: errors.New("no answer"), want: corev1.ConditionTrue},
		{name: "not renewed", cached: []client.Object{lease(0)}, live: []client.Object{lease(0)}, want: corev1.ConditionUnknown},
		{name: "deleted", cached: []client.Object{lease(0)}, want: corev1.ConditionUnknown},
		{name: "never was", want: corev1.ConditionUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			live := interceptor.NewClient(controllertest.NewClientBuilder().WithObjects(tt.live...).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					asked++
					return cmp.Or(tt.fails, c.Get(ctx, key, obj, opts...))
				},
			})
			c := controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).
				WithObjects(node("n", corev1.ConditionTrue), node("other", corev1.ConditionTrue)).WithObjects(tt.cached...).Build()
			clock := clocktesting.NewFakeClock(now)
			r := &Reconciler{Client: c, Live: live, Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
			key := types.NamespacedName{Name: "n"}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil || asked != 0 {
				t.Fatalf("while the lease is good: %v, asked %d times", err, asked)
			}
			for range 3 {
				clock.Step(patience.Monitor)
				result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
				if !errors.Is(err, tt.fails) || (err == nil && result.RequeueAfter == 0) {
					t.Fatalf("got %v and %v, want %v", result, err, tt.fails)
				}
			}
			var got corev1.Node
			if err := c.Get(t.Context(), key, &got); err != nil {
				t.Fatal(err)
			}
			if readiness(&got) != tt.want || len(got.Spec.Taints) > 0 != (tt.want == corev1.ConditionUnknown) {
				t.Errorf("Ready is %s, want %s, taints %v", readiness(&got), tt.want, render(got.Spec.Taints))
			}
			if tt.want == corev1.ConditionUnknown && asked != 1 {
				t.Errorf("asked %d times for one mark", asked)
			}
		})
	}
}

// The pass after one that found the cache to be behind waits for it.
func TestReconciler_LeaseBehind_Waits(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n", ResourceVersion: "101"}}
	c := controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).WithObjects(node("n", corev1.ConditionTrue)).Build()
	live := controllertest.NewClientBuilder().WithObjects(lease).Build()
	clock := clocktesting.NewFakeClock(now)
	passes := 0
	inner := &Reconciler{Client: ownwrites.NewClient(c, nil), Live: live, Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
	cache := &leases{version: "100"}
	r := ownwrites.NewBarrier(cache, live).PerRequest(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		passes++
		return inner.Reconcile(ctx, req)
	}))
	for i, step := range []struct {
		version string
		begun   int
	}{{"100", 1}, {"100", 2}, {"100", 2}, {"101", 3}} {
		cache.version = step.version
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n"}}); err != nil {
			t.Fatal(err)
		}
		if passes != step.begun {
			t.Errorf("after request %d, with the cache at %s, %d passes have begun, want %d", i, step.version, passes, step.begun)
		}
		clock.Step(patience.Monitor)
	}
}

// leases is a cache that has nothing but leases, and none of them.
type leases struct{ version string }

func (l *leases) Of(gvk schema.GroupVersionKind) [][]ownwrites.Store {
	if gvk.Kind != "Lease" {
		return nil
	}
	return [][]ownwrites.Store{{l}}
}

func (l *leases) GetByKey(string) (any, bool, error) { return nil, false, nil }

func (l *leases) LastStoreSyncResourceVersion() string { return l.version }

func TestReconciler_Labels(t *testing.T) {
	const newOS, newArch, oldOS, oldArch = "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"
	tests := []struct {
		name       string
		have, want map[string]string
	}{
		{name: "none"},
		{name: "missing", have: map[string]string{newOS: "linux", newArch: "arm64"}, want: map[string]string{newOS: "linux", newArch: "arm64", oldOS: "linux", oldArch: "arm64"}},
		{name: "another", have: map[string]string{newOS: "linux", oldOS: "windows"}, want: map[string]string{newOS: "linux", oldOS: "linux"}},
		{name: "only the older ones", have: map[string]string{oldOS: "linux", "a": "b"}, want: map[string]string{oldOS: "linux", "a": "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).
				WithObjects(node("n", corev1.ConditionTrue, func(n *corev1.Node) { n.Labels = tt.have })).Build()
			r := &Reconciler{Client: c, Live: c, Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakeClock(now), Patience: patience, Pace: pace}
			key := types.NamespacedName{Name: "n"}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			var got corev1.Node
			if err := c.Get(t.Context(), key, &got); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that has never said whether it is ready is let be for as long as it renews its lease.
func TestReconciler_NeverReported(t *testing.T) {
	silent := func(age time.Duration) *corev1.Node {
		return node("n", "", func(n *corev1.Node) {
			n.CreationTimestamp, n.Status.Conditions = metav1.NewTime(now.Add(-age)), nil
		})
	}
	for _, tt := range []struct {
		name   string
		age    time.Duration
		leased bool
		renews bool
		after  time.Duration
		want   bool // it is said that nothing is known of it
	}{
		{name: "new", after: patience.Startup - time.Second},
		{name: "too late", after: patience.Startup, want: true},
		{name: "old", age: time.Hour, want: true},
		{name: "old, with a lease", age: time.Hour, leased: true, after: patience.Startup - time.Second},
		{name: "old, with a lease that ends", age: time.Hour, leased: true, after: patience.Startup, want: true},
		{name: "old, renews its lease", age: time.Hour, leased: true, renews: true, after: time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).WithObjects(silent(tt.age), node("other", corev1.ConditionTrue)).Build()
			clock := clocktesting.NewFakeClock(now)
			r := &Reconciler{Client: c, Live: c, Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"}}
			if tt.leased {
				lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
				if err := c.Create(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
			}
			key := types.NamespacedName{Name: "n"}
			for _, step := range []time.Duration{0, tt.after} {
				clock.SetTime(now.Add(step))
				if tt.renews {
					lease.Spec.RenewTime = &metav1.MicroTime{Time: clock.Now()}
					if err := c.Update(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			var got corev1.Node
			if err := c.Get(t.Context(), key, &got); err != nil {
				t.Fatal(err)
			}
			ready := condition(&got, corev1.NodeReady)
			if (ready != nil) != tt.want || ready != nil && ready.Reason != "NodeStatusNeverUpdated" {
				t.Errorf("Ready is %+v", ready)
			}
		})
	}
}

// Who describes a node sees when this process has met it, and events of a node that is gone name it all the same.
func TestReconciler_Events(t *testing.T) {
	c := controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).WithObjects(node("n", corev1.ConditionTrue)).Build()
	events := &subjects{}
	r := &Reconciler{Client: c, Live: c, Events: events, Clock: clocktesting.NewFakeClock(now), Patience: patience, Pace: pace}
	pass := func() {
		t.Helper()
		for range 2 {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass()
	if err := c.Delete(t.Context(), node("n", corev1.ConditionTrue)); err != nil {
		t.Fatal(err)
	}
	pass()
	anew := node("n", corev1.ConditionTrue)
	anew.UID = "anew"
	if err := c.Create(t.Context(), anew); err != nil {
		t.Fatal(err)
	}
	pass()
	want := []string{
		"Node n (n): Normal RegisteredNode: Node n event: Registered Node n in Controller",
		"Node n (n): Normal RemovingNode: Node n event: Removing Node n from Controller",
		"Node n (anew): Normal RegisteredNode: Node n event: Registered Node n in Controller",
	}
	if diff := gocmp.Diff(want, events.told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// subjects notes events together with what they are about.
type subjects struct {
	record.FakeRecorder
	told []string
}

func (s *subjects) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	ref, ok := object.(*corev1.ObjectReference)
	if !ok {
		ref = &corev1.ObjectReference{}
	}
	s.told = append(s.told, fmt.Sprintf("%s %s (%s): %s %s: %s", ref.Kind, ref.Name, ref.UID, kind, reason, fmt.Sprintf(format, args...)))
}

// A pod whose status cannot be written, say because the webhook that is asked is this very pod, keeps neither the other pods in
// service nor the node untainted.
func TestReconciler_PodThatCannotBeMarked(t *testing.T) {
	refuses := true
	c := interceptor.NewClient(controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}, &corev1.Pod{}).
		WithObjects(node("dead", corev1.ConditionUnknown), node("live", corev1.ConditionTrue), podOn("dead", "a"), podOn("dead", "b")).Build(),
		interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			if refuses && obj.GetName() == "a" {
				return errors.New("refused")
			}
			return c.SubResource(sub).Update(ctx, obj, opts...)
		}})
	clock := clocktesting.NewFakeClock(now)
	r := &Reconciler{Client: c, Live: c, Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
	pass := func() (result reconcile.Result, ready, taints []string) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "dead"}})
		if err != nil {
			t.Fatalf("%v: the node's turn would come late", err)
		}
		var n corev1.Node
		if err := c.Get(t.Context(), types.NamespacedName{Name: "dead"}, &n); err != nil {
			t.Fatal(err)
		}
		var list corev1.PodList
		if err := c.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if pods.IsReady(&list.Items[i]) {
				ready = append(ready, list.Items[i].Name)
			}
		}
		clock.Step(lookAgain)
		return result, ready, render(n.Spec.Taints)
	}
	pass()
	result, ready, taints := pass()
	if diff := gocmp.Diff([]string{"a"}, ready); diff != "" {
		t.Errorf("ready pods (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{corev1.TaintNodeUnreachable + ":NoSchedule", corev1.TaintNodeUnreachable + ":NoExecute"}, taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > monitorPeriod {
		t.Errorf("the pod is tried again after %v", result.RequeueAfter)
	}
	refuses = false
	if _, ready, _ := pass(); len(ready) != 0 {
		t.Errorf("%v are ready", ready)
	}
}

func TestTaints(t *testing.T) {
	old := metav1.NewTime(now.Add(-time.Hour))
	with := func(list ...corev1.Taint) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = list }
	}
	tests := []struct {
		name  string
		node  *corev1.Node
		evict bool
		want  []string
	}{
		{name: "healthy", node: node("n", corev1.ConditionTrue)},
		{name: "foreign taints stay", node: node("n", corev1.ConditionTrue, with(corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute})), want: []string{"x:NoExecute"}},
		{name: "recovered", node: node("n", corev1.ConditionTrue, with(corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}))},
		{name: "not ready", node: node("n", corev1.ConditionFalse), evict: true, want: []string{corev1.TaintNodeNotReady + ":NoSchedule", corev1.TaintNodeNotReady + ":NoExecute"}},
		{name: "not ready, no eviction", node: node("n", corev1.ConditionFalse), want: []string{corev1.TaintNodeNotReady + ":NoSchedule"}},
		{name: "cordoned", node: node("n", corev1.ConditionTrue, func(n *corev1.Node) { n.Spec.Unschedulable = true }), want: []string{corev1.TaintNodeUnschedulable + ":NoSchedule"}},
		{name: "pressure", node: node("n", corev1.ConditionTrue, func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
		}), want: []string{corev1.TaintNodeDiskPressure + ":NoSchedule"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := gocmp.Diff(tt.want, render(taints(tt.node, tt.evict, now))); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
	kept := taints(node("n", corev1.ConditionFalse, with(corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TimeAdded: &old})), true, now)
	if !kept[0].TimeAdded.Equal(&old) {
		t.Errorf("the time of a taint that stays moved to %v", kept[0].TimeAdded)
	}
}

func TestDecide(t *testing.T) {
	nodes := func(ready, notReady int) (list []*corev1.Node) {
		for range ready {
			list = append(list, node("r", corev1.ConditionTrue))
		}
		for range notReady {
			list = append(list, node("n", corev1.ConditionUnknown))
		}
		return list
	}
	without := func(list []*corev1.Node) []*corev1.Node {
		for _, n := range list {
			n.Labels = map[string]string{"node.kubernetes.io/exclude-disruption": ""}
		}
		return list
	}
	elsewhere := func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "elsewhere"} }
	abroad := node("a", corev1.ConditionTrue, elsewhere)
	type answer struct {
		evict, turn bool
		again       time.Duration
	}
	tests := []struct {
		name    string
		nodes   []*corev1.Node
		pace    Pace // pace, if it is none
		tainted bool
		last    time.Duration // before now; 0 is never
		want    answer
	}{
		{name: "one of two", nodes: nodes(1, 1), want: answer{true, true, lookAgain}},
		{name: "not its turn", nodes: nodes(1, 1), last: 4 * time.Second, want: answer{false, false, 6 * time.Second}},
		{name: "its turn again", nodes: nodes(1, 1), last: 10 * time.Second, want: answer{true, true, lookAgain}},
		{name: "tainted already", nodes: nodes(1, 1), tainted: true, last: 4 * time.Second, want: answer{true, false, lookAgain}},
		{name: "all", nodes: nodes(0, 3), want: answer{false, false, lookAgain}},
		{name: "all, tainted before", nodes: nodes(0, 3), tainted: true, want: answer{false, false, lookAgain}},
		{name: "all of the zone", nodes: append(nodes(0, 3), abroad), want: answer{true, true, lookAgain}},
		{name: "most of a small zone", nodes: nodes(1, 3), want: answer{false, false, lookAgain}},
		{name: "most of a small zone, tainted before", nodes: nodes(1, 3), tainted: true, want: answer{true, false, lookAgain}},
		{name: "most of a large zone", nodes: nodes(20, 40), want: answer{true, true, lookAgain}},
		{name: "most of a large zone, not its turn", nodes: nodes(20, 40), last: 60 * time.Second, want: answer{false, false, 40 * time.Second}},
		{name: "most of a small zone, but for those that do not count", nodes: append(nodes(1, 1), without(nodes(0, 2))...), want: answer{true, true, lookAgain}},
		{name: "all that count", nodes: append(nodes(0, 1), without(nodes(3, 0))...), want: answer{false, false, lookAgain}},
		{name: "none counts", nodes: without(nodes(0, 3)), want: answer{true, true, lookAgain}},
		{name: "a faster pace", nodes: nodes(1, 1), pace: Pace{Rate: 2}, last: 400 * time.Millisecond, want: answer{false, false, 100 * time.Millisecond}},
		{name: "none", nodes: nodes(1, 1), pace: Pace{Unhealthy: 1}, want: answer{false, false, lookAgain}},
		{name: "less than a node in all time", nodes: nodes(1, 1), pace: Pace{Rate: 1e-30}, last: time.Hour, want: answer{false, false, longest - time.Hour}},
		{name: "most of a zone that is large enough", nodes: nodes(1, 3), pace: Pace{DisruptedRate: 1, Unhealthy: 0.5, Large: 3}, last: time.Second, want: answer{true, true, lookAgain}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.pace == (Pace{}) {
				tt.pace = pace
			}
			last := time.Time{}
			if tt.last > 0 {
				last = now.Add(-tt.last)
			}
			evict, turn, again := tt.pace.decide(newSurvey(tt.nodes, now), topology.GetZoneKey(tt.nodes[0]), tt.tainted, last, now)
			if got := (answer{evict, turn, again}); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A node whose pods are being evicted goes on to be, though no more nodes of its zone may follow: upstream only stops adding.
func TestReconciler_KeepsEvictionTaintInDisruptedZone(t *testing.T) {
	tainted := node("dead-0", corev1.ConditionUnknown, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{
			{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
			{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		}
	})
	c := controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).WithObjects(tainted, node("live", corev1.ConditionTrue),
		node("dead-1", corev1.ConditionUnknown), node("dead-2", corev1.ConditionUnknown)).Build()
	r := &Reconciler{Client: c, Live: c, Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakeClock(now), Patience: patience, Pace: pace}
	for name, want := range map[string]int{"dead-0": 2, "dead-1": 1} {
		key := types.NamespacedName{Name: name}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		var got corev1.Node
		if err := c.Get(t.Context(), key, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Spec.Taints) != want {
			t.Errorf("%s has the taints %v, want %d", name, render(got.Spec.Taints), want)
		}
	}
}

// That all nodes are silent says that this process is cut off: what was tainted before is looked at again, though no event of it
// comes, and let go.
func TestReconciler_AllSilent(t *testing.T) {
	clock := clocktesting.NewFakeClock(now)
	c := controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).
		WithObjects(node("first", corev1.ConditionUnknown), node("second", corev1.ConditionTrue)).Build()
	r := &Reconciler{Client: c, Live: c, Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
	pass := func(name string) (corev1.Node, time.Duration) {
		t.Helper()
		key := types.NamespacedName{Name: name}
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		var got corev1.Node
		if err := c.Get(t.Context(), key, &got); err != nil {
			t.Fatal(err)
		}
		return got, result.RequeueAfter
	}
	pass("second")
	pass("first")
	clock.Step(monitorPeriod)
	first, again := pass("first")
	if len(first.Spec.Taints) != 2 || again == 0 {
		t.Fatalf("the first that fails has the taints %v and is looked at again after %v", render(first.Spec.Taints), again)
	}
	clock.Step(patience.Monitor)
	pass("second")
	clock.Step(monitorPeriod)
	if second, _ := pass("second"); len(second.Spec.Taints) != 1 {
		t.Errorf("the last that fails has the taints %v", render(second.Spec.Taints))
	}
	if first, _ := pass("first"); len(first.Spec.Taints) != 1 {
		t.Errorf("with all silent the first has the taints %v", render(first.Spec.Taints))
	}
}

// Nodes that fall silent at the same moment are judged together, though the cache does not show yet that the others have failed, nor
// that this one has.
func TestReconciler_AllSilentAtOnce(t *testing.T) {
	for _, names := range [][]string{{"only"}, {"a", "b", "c"}} {
		clock := clocktesting.NewFakeClock(now)
		builder := controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{})
		for _, name := range names {
			builder.WithObjects(node(name, corev1.ConditionTrue))
		}
		inner := builder.Build()
		// A list has what there was half a second ago.
		var before, current corev1.NodeList
		lagging := interceptor.NewClient(inner, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			nodes, ok := list.(*corev1.NodeList)
			if !ok {
				return c.List(ctx, list, opts...)
			}
			before.DeepCopyInto(nodes)
			return nil
		}})
		r := &Reconciler{Client: lagging, Live: inner, Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
		due := map[string]time.Time{}
		for range 4 * patience.Monitor / time.Second {
			before = current
			current = corev1.NodeList{}
			if err := inner.List(t.Context(), &current); err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if clock.Now().Before(due[name]) {
					continue
				}
				key := types.NamespacedName{Name: name}
				result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
				if err != nil {
					t.Fatal(err)
				}
				due[name] = clock.Now().Add(result.RequeueAfter)
				var got corev1.Node
				if err := inner.Get(t.Context(), key, &got); err != nil {
					t.Fatal(err)
				}
				if len(got.Spec.Taints) > 1 {
					t.Fatalf("of %v %s has the taints %v after %v", names, name, render(got.Spec.Taints), clock.Since(now))
				}
			}
			clock.Step(time.Second / 2)
		}
		for _, n := range current.Items {
			if diff := gocmp.Diff([]string{corev1.TaintNodeUnreachable + ":NoSchedule"}, render(n.Spec.Taints)); diff != "" {
				t.Errorf("taints of %s (-want +got):\n%s", n.Name, diff)
			}
		}
	}
}

// Waiting nodes wake at the same time; only one of them looks at all nodes.
func TestReconciler_WaitingNodesShareOneLook(t *testing.T) {
	var objects []client.Object
	for i := range 20 {
		objects = append(objects, node(fmt.Sprintf("dead-%d", i), corev1.ConditionUnknown))
	}
	listed := 0
	c := controllertest.Counting(controllertest.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).WithObjects(objects...).Build(), &listed)
	clock := clocktesting.NewFakeClock(now)
	r := &Reconciler{Client: c, Live: c, Events: &record.FakeRecorder{}, Clock: clock, Patience: patience, Pace: pace}
	for range 2 {
		for _, obj := range objects {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}); err != nil {
				t.Fatal(err)
			}
		}
		clock.Step(monitorPeriod)
	}
	if listed != len(objects) {
		t.Errorf("looked at %d nodes, there are %d", listed, len(objects))
	}
}
