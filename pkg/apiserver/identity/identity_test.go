// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestDescribe(t *testing.T) {
	l := &coordinationv1.Lease{}
	if err := describe(l, "192.0.2.1:6443"); err != nil {
		t.Fatal(err)
	}
	if l.Labels[Label] != "kube-apiserver" || l.Labels[corev1.LabelHostname] == "" {
		t.Errorf("labels are %v", l.Labels)
	}
	if got := l.Annotations[corev1.AnnotationPeerAdvertiseAddress]; got != "192.0.2.1:6443" {
		t.Errorf("the address is %q", got)
	}
}

func TestCollect(t *testing.T) {
	now := time.Now()
	named := func(name, of string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem, Labels: map[string]string{Label: of}},
			Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(60)), RenewTime: &metav1.MicroTime{Time: renewed}},
		}
	}
	silent := named("silent", server, now)
	silent.Spec.RenewTime = nil
	client := fake.NewClientset(
		named("alive", server, now.Add(-50*time.Second)),
		named("gone", server, now.Add(-70*time.Second)),
		named("other", "somebody", now.Add(-70*time.Second)),
		silent,
	)
	api := client.CoordinationV1().Leases(metav1.NamespaceSystem)
	if err := collect(t.Context(), api, now); err != nil {
		t.Fatal(err)
	}
	left, err := api.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range left.Items {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	if want := []string{"alive", "other"}; !slices.Equal(names, want) {
		t.Errorf("%v are left, want %v", names, want)
	}
}
