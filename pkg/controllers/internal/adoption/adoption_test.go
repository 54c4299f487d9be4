// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/index"
)

var selector = labels.SelectorFromSet(labels.Set{"app": "web"})

func owner(deleted bool) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "rs"}}
	if deleted {
		rs.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
		rs.Finalizers = []string{"test/stay"}
	}
	return rs
}

func pod(matches bool, controller types.UID, deleted bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	if matches {
		p.Labels = map[string]string{"app": "web"}
	}
	if controller != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: controller, Controller: new(true)}}
	}
	if deleted {
		p.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
	}
	return p
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name  string
		owner *appsv1.ReplicaSet
		pod   *corev1.Pod
		want  Decision
	}{
		{name: "own", owner: owner(false), pod: pod(true, "rs", false), want: Keep},
		{name: "own, being deleted", owner: owner(false), pod: pod(true, "rs", true), want: Keep},
		{name: "own of a deleted owner", owner: owner(true), pod: pod(true, "rs", false), want: Keep},
		{name: "own, relabeled", owner: owner(false), pod: pod(false, "rs", false), want: Release},
		{name: "relabeled, deleted owner", owner: owner(true), pod: pod(false, "rs", false), want: Ignore},
		{name: "someone else's", owner: owner(false), pod: pod(true, "other", false), want: Ignore},
		{name: "orphan", owner: owner(false), pod: pod(true, "", false), want: Adopt},
		{name: "orphan being deleted", owner: owner(false), pod: pod(true, "", true), want: Ignore},
		{name: "orphan, deleted owner", owner: owner(true), pod: pod(true, "", false), want: Ignore},
		{name: "stranger", owner: owner(false), pod: pod(false, "", false), want: Ignore},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Decide(tt.owner, tt.pod, selector); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAll_StaleOwner(t *testing.T) {
	replaced := owner(false)
	replaced.UID = "newer"
	for name, live := range map[string]*appsv1.ReplicaSet{"deleted": owner(true), "replaced": replaced} {
		t.Run(name, func(t *testing.T) {
			orphan := pod(true, "", false)
			c := fake.NewClientBuilder().WithObjects(live, orphan).Build()
			o := Owner{Object: owner(false), Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Selector: selector, Client: c, Live: c}
			if claimed, err := All(t.Context(), o, []*corev1.Pod{orphan}); err == nil || len(claimed) != 0 {
				t.Errorf("claimed %v, error %v", claimed, err)
			}
		})
	}
}

func TestAll_Accepts(t *testing.T) {
	own, orphan := pod(true, "rs", false), pod(true, "", false)
	own.Name, orphan.Name = "own", "orphan"
	c := fake.NewClientBuilder().WithObjects(owner(false), own, orphan).Build()
	o := Owner{Object: owner(false), Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Selector: selector, Client: c, Live: c}
	o.Accepts = func(metav1.Object) bool { return false }
	claimed, err := All(t.Context(), o, []*corev1.Pod{own, orphan})
	if err != nil || len(claimed) != 0 {
		t.Errorf("claimed %v, error %v", claimed, err)
	}
	for _, p := range []*corev1.Pod{own, orphan} {
		got := &corev1.Pod{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), got); err != nil || len(got.OwnerReferences) != 0 {
			t.Errorf("%s has the owners %v, error %v", p.Name, got.OwnerReferences, err)
		}
	}
}

// wakes returns what an event enqueues, sorted; a predicate that stops it enqueues nothing. Without after the object is gone, without
// before it is new.
func wakes(t *testing.T, kind schema.GroupVersionKind, before, after *corev1.Pod) []string {
	t.Helper()
	adopting := func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: "adopter-of-" + obj.GetName()}}}
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	waking, concerning := Waking(kind, adopting), Concerning(kind)
	switch {
	case before == nil:
		if e := (event.CreateEvent{Object: after}); concerning.Create(e) {
			waking.Create(t.Context(), e, q)
		}
	case after == nil:
		if e := (event.DeleteEvent{Object: before}); concerning.Delete(e) {
			waking.Delete(t.Context(), e, q)
		}
	default:
		if e := (event.UpdateEvent{ObjectOld: before, ObjectNew: after}); concerning.Update(e) {
			waking.Update(t.Context(), e, q)
		}
	}
	var woken []string
	for q.Len() > 0 {
		request, _ := q.Get()
		woken = append(woken, request.String())
	}
	slices.Sort(woken)
	return woken
}

func TestWaking(t *testing.T) {
	kind := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	own, other, orphan := pod(true, "rs", false), pod(true, "x", false), pod(true, "", false)
	other.OwnerReferences[0].Kind = "Job"
	moved, sameName := pod(true, "rs2", false), pod(true, "rs", false)
	moved.OwnerReferences[0].Name = "web2"
	sameName.OwnerReferences[0].APIVersion = "example.com/v1"
	relabeled, otherStatus := pod(false, "", false), pod(true, "", false)
	otherStatus.Status.Phase = corev1.PodRunning
	for name, tt := range map[string]struct {
		before, after *corev1.Pod
		want          []string
	}{
		"own":                        {nil, own, []string{"ns/web"}},
		"own, gone":                  {own, nil, []string{"ns/web"}},
		"someone else's":             {nil, other, nil},
		"same kind, other group":     {nil, sameName, nil},
		"orphan":                     {nil, orphan, []string{"ns/adopter-of-p"}},
		"orphan, gone":               {orphan, nil, nil},
		"orphan with another status": {orphan, otherStatus, nil},
		"orphan with other labels":   {relabeled, orphan, []string{"ns/adopter-of-p"}},
		"changed":                    {own, own, []string{"ns/web"}},
		"released":                   {own, orphan, []string{"ns/adopter-of-p", "ns/web"}},
		"released by another":        {other, orphan, []string{"ns/adopter-of-p"}},
		"adopted":                    {orphan, own, []string{"ns/web"}},
		"adopted by another":         {orphan, other, nil},
		"moved":                      {own, moved, []string{"ns/web", "ns/web2"}},
		"changed, another's":         {other, other, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wakes(t, kind, tt.before, tt.after); !slices.Equal(got, tt.want) {
				t.Errorf("woke %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOrphans(t *testing.T) {
	own, orphan, relabeled, otherStatus := pod(true, "rs", false), pod(true, "", false), pod(false, "", false), pod(true, "", false)
	otherStatus.Status.Phase = corev1.PodRunning
	for name, tt := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"released":       {own, orphan, true},
		"adopted":        {orphan, own, false},
		"other labels":   {relabeled, orphan, true},
		"another status": {orphan, otherStatus, false},
		"owned":          {own, own, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Orphans().Update(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if !Orphans().Create(event.CreateEvent{Object: orphan}) || Orphans().Create(event.CreateEvent{Object: own}) || Orphans().Delete(event.DeleteEvent{Object: orphan}) {
		t.Error("new orphans are let through, new objects with an owner and those that are gone are not")
	}
}

// Of a thousand owners an orphan is compared with those that want one of its labels.
func TestSelecting(t *testing.T) {
	builder := fake.NewClientBuilder()
	for _, i := range index.All() {
		builder = builder.WithIndex(i.Object, i.Field, i.Values)
	}
	for _, app := range []string{"web", "db", "cache", "mail"} {
		rs := owner(false)
		rs.Name, rs.UID = app, types.UID(app)
		rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		builder = builder.WithObjects(rs)
	}
	everything := owner(false)
	everything.Name, everything.Spec.Selector = "everything", &metav1.LabelSelector{}
	asked := 0
	selecting := Selecting(builder.WithObjects(everything).Build(), func() client.ObjectList { return &appsv1.ReplicaSetList{} }, func(rs *appsv1.ReplicaSet) (labels.Selector, error) {
		asked++
		return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	})
	requests := selecting(t.Context(), pod(true, "", false))
	if len(requests) != 1 || requests[0].Name != "web" {
		t.Errorf("may be adopted by %v", requests)
	}
	if asked != 2 {
		t.Errorf("%d owners were asked for their selectors", asked)
	}
}
