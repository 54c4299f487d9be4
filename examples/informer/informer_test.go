// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func pod(name string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{}, {}}},
		Status:     corev1.PodStatus{Phase: phase, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{Ready: true, RestartCount: 1}, {RestartCount: 2}}},
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(pod("old", corev1.PodRunning))
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- watch(ctx, client, "ns", write)
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
	expect("ADDED ns/old phase=Running ready=1/2 restarts=3 node=n1 ip=10.0.0.1")
	expect("synced")

	pods := client.CoreV1().Pods("ns")
	if _, err := pods.Create(ctx, pod("new", corev1.PodPending), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("ADDED ns/new phase=Pending ready=1/2 restarts=3 node=n1 ip=10.0.0.1")
	unshown := pod("new", corev1.PodPending)
	unshown.Status.Message = "nobody sees this"
	for _, p := range []*corev1.Pod{unshown, pod("new", corev1.PodRunning)} {
		if _, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect("MODIFIED ns/new phase=Running ready=1/2 restarts=3 node=n1 ip=10.0.0.1")
	if err := pods.Delete(ctx, "new", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("DELETED ns/new phase=Running ready=1/2 restarts=3 node=n1 ip=10.0.0.1")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
