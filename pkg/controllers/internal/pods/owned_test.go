// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestCandidates(t *testing.T) {
	pod := func(namespace, name, app string, owner types.UID) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Labels: map[string]string{"app": app}}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: owner, Controller: new(owner != "guest")}}
		}
		return p
	}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithIndex(&corev1.Pod{}, ControllerField, ControllerOf).WithObjects(
		pod("ns", "own", "web", "set"), pod("ns", "relabeled", "other", "set"), pod("ns", "of-another", "web", "set2"),
		pod("ns", "orphan", "web", ""), pod("ns", "other-orphan", "other", ""), pod("ns", "owner-is-no-controller", "web", "guest"),
		pod("elsewhere", "orphan-elsewhere", "web", ""), pod("elsewhere", "own-elsewhere", "web", "set"),
	).Build()
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "set"}}
	found, err := Candidates(t.Context(), c, owner, labels.SelectorFromSet(labels.Set{"app": "web"}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range found {
		got = append(got, p.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"orphan", "own", "owner-is-no-controller", "relabeled"}, got); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
}
