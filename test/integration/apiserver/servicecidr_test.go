// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServiceCIDR looks at what a new cluster has, and takes an address of a range that is added later.
func TestServiceCIDR(t *testing.T) {
	ctx, cidrs := t.Context(), cluster.Client.NetworkingV1().ServiceCIDRs()
	first, err := cidrs.Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Spec.CIDRs) != 1 || first.Spec.CIDRs[0] != "10.96.0.0/16" || !meta.IsStatusConditionTrue(first.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
		t.Errorf("the default ServiceCIDR is %+v, %+v", first.Spec, first.Status)
	}
	kubernetes, err := cluster.Client.NetworkingV1().IPAddresses().Get(ctx, "10.96.0.1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "kubernetes"}); *kubernetes.Spec.ParentRef != want {
		t.Errorf("parent of 10.96.0.1 is %+v", kubernetes.Spec.ParentRef)
	}

	second := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/24"}}}
	if _, err := cidrs.Create(ctx, second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "second-range"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.97.0.7", Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := cluster.Client.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if err := cluster.Client.CoreV1().Services("default").Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := cidrs.Delete(ctx, "second", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestRuntimeClassOfPods is upstream's conformance test of the same subject in short.
func TestRuntimeClassOfPods(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "no-such-class"},
		Spec:       corev1.PodSpec{RuntimeClassName: new("no-such-class"), Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	_, err := cluster.Client.CoreV1().Pods(cluster.Namespace(t)).Create(t.Context(), pod, metav1.CreateOptions{})
	const want = `pods "no-such-class" is forbidden: pod rejected: RuntimeClass "no-such-class" not found`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
