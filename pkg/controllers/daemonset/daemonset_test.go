// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/controllers/internal/history"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "agent"}}
	agent   = map[string]string{"app": "agent"}
)

func daemonSet(change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent", UID: "ds-uid", Generation: 2},
		Spec: appsv1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: agent},
			RevisionHistoryLimit: new(int32(10)),
			UpdateStrategy:       appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: agent},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "new"}}},
			},
		},
	}
	for _, c := range change {
		c(ds)
	}
	return ds
}

func rolling(unavailable, surge intstr.IntOrString) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge},
		}
	}
}

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": "ssd"}}, Spec: corev1.NodeSpec{Taints: taints}}
}

// pod returns a ready pod on a node, with the given revision hash.
func pod(name, node, hash string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "agent", history.HashLabel: hash},
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(daemonSet(), kind)},
			CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: hash}}},
	}
	ready(p)
	for _, c := range change {
		c(p)
	}
	return p
}

func ready(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
}

func unready(p *corev1.Pod) { p.Status.Conditions = nil }

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Conditions = phase, nil }
}

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp = new(metav1.NewTime(now))
	p.Finalizers = []string{"test/stay"}
}

func young(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute)) }

// revision returns the revision of the DaemonSet with the given image.
func revision(t *testing.T, name string, number int64, image string) *appsv1.ControllerRevision {
	t.Helper()
	template := daemonSet().Spec.Template
	template.Spec.Containers = []corev1.Container{{Name: "c", Image: image}}
	data, err := history.Patch(&template)
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "agent", history.HashLabel: name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(daemonSet(), kind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

func reconciler(c client.Client, events record.EventRecorder) *Reconciler {
	return New(c, controllertest.Live(c), events, clocktesting.NewFakeClock(now))
}

// nodes is what scheduler and kubelets do: every pod runs on the node that it is pinned to, if there is one.
func nodes(ctx context.Context, c client.Client) error {
	var list corev1.PodList
	if err := c.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName != "" {
			continue
		}
		name, err := target(p)
		if err != nil {
			return err
		}
		if err := c.Get(ctx, types.NamespacedName{Name: name}, &corev1.Node{}); err != nil {
			continue
		}
		p.Spec.NodeName = name
		if err := c.Update(ctx, p); err != nil {
			return err
		}
		ready(p)
		if err := c.Status().Update(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func TestReconciler(t *testing.T) {
	one, none, half := intstr.FromInt32(1), intstr.FromInt32(0), intstr.FromString("50%")
	gpu := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	three := []client.Object{node("n1"), node("n2"), node("n3")}
	oldPods := []client.Object{pod("o1", "n1", "old"), pod("o2", "n2", "old"), pod("o3", "n3", "old")}
	with := func(ds *appsv1.DaemonSet, rest ...[]client.Object) []client.Object {
		return slices.Concat(append([][]client.Object{{ds}}, rest...)...)
	}
	tests := []struct {
		name    string
		objects []client.Object
		// want are the pods at the end, as "node image".
		want      []string
		revisions []string
		status    appsv1.DaemonSetStatus
	}{
		{
			name: "a pod per fit node", objects: with(daemonSet(), three, []client.Object{node("n4", gpu)}),
			want: []string{"n1 new", "n2 new", "n3 new"}, revisions: []string{"1 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, NumberReady: 3, NumberAvailable: 3, UpdatedNumberScheduled: 3},
		},
		{
			name: "on delete", objects: with(daemonSet(), three, oldPods, []client.Object{revision(t, "old", 1, "old")}),
			want: []string{"n1 old", "n2 old", "n3 old"}, revisions: []string{"1 old", "2 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, NumberReady: 3, NumberAvailable: 3},
		},
		{
			name: "rolling update", objects: with(daemonSet(rolling(one, none)), three, oldPods, []client.Object{revision(t, "old", 1, "old")}),
			want: []string{"n1 new", "n2 new", "n3 new"}, revisions: []string{"1 old", "2 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, NumberReady: 3, NumberAvailable: 3, UpdatedNumberScheduled: 3},
		},
		{
			name: "surge", objects: with(daemonSet(rolling(none, half)), three, oldPods, []client.Object{revision(t, "old", 1, "old")}),
			want: []string{"n1 new", "n2 new", "n3 new"}, revisions: []string{"1 old", "2 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, NumberReady: 3, NumberAvailable: 3, UpdatedNumberScheduled: 3},
		},
		{
			name: "rollback", objects: with(daemonSet(rolling(half, none)), three, []client.Object{
				pod("b1", "n1", "bad"), revision(t, "a", 1, "new"), revision(t, "bad", 2, "bad"),
			}),
			want: []string{"n1 new", "n2 new", "n3 new"}, revisions: []string{"2 bad", "3 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, NumberReady: 3, NumberAvailable: 3, UpdatedNumberScheduled: 3},
		},
		{
			name: "history limit", objects: with(daemonSet(func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = new(int32(1)) }), []client.Object{
				node("n1"), pod("o1", "n1", "a"), revision(t, "a", 1, "a"), revision(t, "b", 2, "b"), revision(t, "c", 3, "c"),
			}),
			want: []string{"n1 a"}, revisions: []string{"1 a", "4 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, NumberReady: 1, NumberAvailable: 1},
		},
		{
			name: "history limit, with a pod that has ended and stays", objects: with(daemonSet(func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = new(int32(1)) }), []client.Object{
				node("n1"), pod("n", "n1", "b"), pod("o", "n1", "a", phase(corev1.PodFailed), deleted), revision(t, "a", 1, "a"), revision(t, "b", 2, "b"),
			}),
			want: []string{"n1 a", "n1 b"}, revisions: []string{"1 a", "2 b", "3 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, NumberReady: 1, NumberAvailable: 1},
		},
		{
			name: "duplicate revisions", objects: with(daemonSet(), []client.Object{
				node("n1"), pod("p", "n1", "x"), revision(t, "x", 1, "new"), revision(t, "y", 2, "new"),
			}),
			want: []string{"n1 x"}, revisions: []string{"2 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, NumberReady: 1, NumberAvailable: 1, UpdatedNumberScheduled: 1},
		},
		{
			name: "not there any more", objects: with(daemonSet(), []client.Object{
				node("n1", gpu), node("n2", corev1.Taint{Key: "out", Effect: corev1.TaintEffectNoExecute}),
				pod("stays", "n1", "new"), pod("goes", "n2", "new"), pod("lost", "", "new", func(p *corev1.Pod) { p.Spec.Affinity = Pin(nil, "gone") }),
			}),
			want: []string{"n1 new"}, revisions: []string{"1 new"},
			status: appsv1.DaemonSetStatus{NumberMisscheduled: 1},
		},
		{
			name: "ended pods", objects: with(daemonSet(), []client.Object{
				node("n1"), node("n2"), pod("failed", "n1", "x", phase(corev1.PodFailed)), pod("done", "n2", "x", phase(corev1.PodSucceeded)),
			}),
			want: []string{"n1 new", "n2 new"}, revisions: []string{"1 new"},
			status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, NumberReady: 2, NumberAvailable: 2, UpdatedNumberScheduled: 2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: request,
				New:     func(c client.Client) reconcile.Reconciler { return reconciler(c, &record.FakeRecorder{}) },
				World:   nodes,
				Want: func(ctx context.Context, c client.Client) error {
					var list corev1.PodList
					if err := c.List(ctx, &list); err != nil {
						return err
					}
					var got []string
					for i := range list.Items {
						got = append(got, list.Items[i].Spec.NodeName+" "+list.Items[i].Spec.Containers[0].Image)
					}
					slices.Sort(got)
					if !slices.Equal(got, tt.want) {
						return fmt.Errorf("pods %v, want %v", got, tt.want)
					}
					var revisions appsv1.ControllerRevisionList
					if err := c.List(ctx, &revisions); err != nil {
						return err
					}
					got = nil
					for _, r := range revisions.Items {
						_, image, _ := strings.Cut(string(r.Data.Raw), `"image":"`)
						image, _, _ = strings.Cut(image, `"`)
						got = append(got, fmt.Sprintf("%d %s", r.Revision, image))
					}
					slices.Sort(got)
					if !slices.Equal(got, tt.revisions) {
						return fmt.Errorf("revisions %v, want %v", got, tt.revisions)
					}
					var ds appsv1.DaemonSet
					if err := c.Get(ctx, request.NamespacedName, &ds); err != nil {
						return err
					}
					tt.status.ObservedGeneration = 2
					if ds.Status.String() != tt.status.String() {
						return fmt.Errorf("status %v, want %v", ds.Status, tt.status)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Collision(t *testing.T) {
	ds := daemonSet()
	foreign := revision(t, "agent-"+pods.TemplateHash(&ds.Spec.Template, nil), 1, "foreign")
	foreign.OwnerReferences[0].UID = "other"
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{ds, node("n1"), foreign},
		Request: request,
		New:     func(c client.Client) reconcile.Reconciler { return reconciler(c, &record.FakeRecorder{}) },
		World:   nodes,
		Want: func(ctx context.Context, c client.Client) error {
			var got appsv1.DaemonSet
			if err := c.Get(ctx, request.NamespacedName, &got); err != nil {
				return err
			}
			if got.Status.CollisionCount == nil || *got.Status.CollisionCount != 1 || got.Status.UpdatedNumberScheduled != 1 {
				return fmt.Errorf("status %v", got.Status)
			}
			return nil
		},
	})
}

func TestReconcile_Events(t *testing.T) {
	tests := []struct {
		name    string
		objects []client.Object
		event   string
	}{
		{name: "selects everything", objects: []client.Object{daemonSet(func(ds *appsv1.DaemonSet) { ds.Spec.Selector = &metav1.LabelSelector{} })},
			event: "Warning SelectingAll This daemon set is selecting all pods. A non-empty selector is required."},
		{name: "create", objects: []client.Object{daemonSet(), node("n1")}, event: "Normal SuccessfulCreate Created pod: agent-"},
		{name: "failed", objects: []client.Object{daemonSet(), node("n1"), pod("a", "n1", "x", phase(corev1.PodFailed))},
			event: "Warning FailedDaemonPod Found failed daemon pod ns/a on node n1, will try to kill it"},
		{name: "succeeded", objects: []client.Object{daemonSet(), node("n1"), pod("a", "n1", "x", phase(corev1.PodSucceeded))},
			event: "Normal SucceededDaemonPod Found succeeded daemon pod ns/a on node n1, will try to delete it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			c := controllertest.NewClientBuilder().WithObjects(tt.objects...).WithStatusSubresource(&appsv1.DaemonSet{}).Build()
			if _, err := reconciler(c, events).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if got := <-events.Events; !strings.HasPrefix(got, tt.event) {
				t.Errorf("event %q, want %q", got, tt.event)
			}
		})
	}
}

// A pod that fails again and again is replaced more and more slowly.
func TestReconcile_FailedPodBacksOff(t *testing.T) {
	ctx := t.Context()
	c := controllertest.NewClientBuilder().WithObjects(daemonSet(), node("n1")).WithStatusSubresource(&appsv1.DaemonSet{}, &corev1.Pod{}).Build()
	clock := clocktesting.NewFakeClock(now)
	r := New(c, c, &record.FakeRecorder{}, clock)
	if _, err := r.Reconcile(ctx, request); err != nil { // the generation observed is part of what is remembered
		t.Fatal(err)
	}
	fail := func() types.UID {
		var list corev1.PodList
		if err := c.List(ctx, &list); err != nil || len(list.Items) != 1 {
			t.Fatalf("%d pods, error %v", len(list.Items), err)
		}
		p := &list.Items[0]
		p.Status.Phase = corev1.PodFailed
		if err := c.Status().Update(ctx, p); err != nil {
			t.Fatal(err)
		}
		return p.UID
	}
	for i, wait := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
		fail()
		if wait > 0 {
			result, err := r.Reconcile(ctx, request)
			if err != nil || result.RequeueAfter != wait {
				t.Fatalf("failure %d: result %v, error %v, want to wait %v", i, result, err, wait)
			}
			clock.Step(wait)
		}
		for range 2 { // one pass deletes, one creates
			if _, err := r.Reconcile(ctx, request); err != nil {
				t.Fatal(err)
			}
		}
	}
}
