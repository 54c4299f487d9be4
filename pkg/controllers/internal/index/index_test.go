// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Whatever selects an object is found by it, once; what cannot is hardly looked at.
func TestMaySelect(t *testing.T) {
	budget := func(name string, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}
	}
	match := func(labels map[string]string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: labels}
	}
	builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
	for _, i := range All() {
		builder = builder.WithIndex(i.Object, i.Field, i.Values)
	}
	elsewhere := budget("elsewhere", match(map[string]string{"app": "web"}))
	elsewhere.Namespace = "other"
	c := builder.WithObjects(
		budget("one-label", match(map[string]string{"app": "web"})),
		budget("two-labels", match(map[string]string{"app": "web", "tier": "front"})),
		budget("first-label-differs", match(map[string]string{"app": "db", "tier": "front"})),
		budget("second-label-differs", match(map[string]string{"app": "web", "tier": "back"})),
		budget("other-value", match(map[string]string{"tier": "back"})),
		budget("other-label", match(map[string]string{"x": "y"})),
		budget("prefixed", match(map[string]string{"example.com/role": "a=b"})),
		budget("all", &metav1.LabelSelector{}),
		budget("expression", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpDoesNotExist}}}),
		budget("none", nil),
		elsewhere,
	).Build()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "web", "tier": "front", "example.com/role": "a=b"}}}
	var found []string
	for _, option := range MaySelect(pod) {
		var list policyv1.PodDisruptionBudgetList
		if err := c.List(t.Context(), &list, option); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			found = append(found, list.Items[i].Name)
		}
	}
	slices.Sort(found)
	// One that the first of its labels leads to, though another one differs, is left to who asks.
	want := []string{"all", "expression", "one-label", "prefixed", "second-label-differs", "two-labels"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestControlledBy(t *testing.T) {
	builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
	for _, i := range All() {
		builder = builder.WithIndex(i.Object, i.Field, i.Values)
	}
	owner := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "u"}}
	own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "own"}}
	own.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ReplicationController"))}
	c := builder.WithObjects(own, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "orphan"}}).Build()
	for name, option := range map[string]client.ListOption{"own": ControlledBy("ns", "u"), "orphan": Orphans("ns")} {
		var list corev1.PodList
		if err := c.List(t.Context(), &list, option); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Name != name {
			t.Errorf("found %v, want %s", list.Items, name)
		}
	}
}

func TestAll_NoFieldTwice(t *testing.T) {
	seen := map[string]bool{}
	for _, i := range All() {
		gvk, err := clientForKind(i.Object)
		if err != nil {
			t.Fatal(err)
		}
		if key := gvk + " " + i.Field; seen[key] {
			t.Errorf("%s is indexed twice, which the cache refuses", key)
		} else {
			seen[key] = true
		}
	}
}

func clientForKind(obj client.Object) (string, error) {
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return "", err
	}
	return kinds[0].String(), nil
}
