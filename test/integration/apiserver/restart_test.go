// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"minik8s.io/minik8s/test/integration/framework"
)

func TestServer_DataSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	first := framework.Start(t, framework.Options{Dir: dir})
	const ns = "default"
	made, err := first.Client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := first.Client.CoreV1().Services(ns).Create(t.Context(), serviceOf("s", "NodePort", "", 0), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, err := first.Client.CoreV1().Services(ns).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := framework.Start(t, framework.Options{Dir: dir})
	maps := second.Client.CoreV1().ConfigMaps(ns)
	got, err := maps.Get(t.Context(), "m", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("after the restart (-want +got):\n%s", diff)
	}
	again, err := second.Client.CoreV1().Services(ns).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || again.UID != kubernetes.UID || again.Spec.ClusterIP != kubernetes.Spec.ClusterIP {
		t.Errorf("the kubernetes service was made anew: %v", err)
	}
	// Versions go on where they were: what was listed before can be compared and watched.
	list, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("listing not older than before the restart gives %+v, %v", list, err)
	}
	w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Await(t, w, "what came after the restart", func(_ watch.EventType, m *corev1.ConfigMap) bool { return m.Name == "later" })
	// What was allocated stays so.
	for name, other := range map[string]*corev1.Service{
		"address": serviceOf("address", "ClusterIP", service.Spec.ClusterIP, 0), "port": serviceOf("port", "NodePort", "", service.Spec.Ports[0].NodePort),
	} {
		if _, err := second.Client.CoreV1().Services(ns).Create(t.Context(), other, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("taking the %s of an older service answers %v", name, err)
		}
	}
}
