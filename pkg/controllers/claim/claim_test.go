// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var selector = labels.SelectorFromSet(labels.Set{"app": "web"})

func owner(deleted bool) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "rs"}}
	if deleted {
		rs.DeletionTimestamp = ptr.To(metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
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
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: controller, Controller: ptr.To(true)}}
	}
	if deleted {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
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
