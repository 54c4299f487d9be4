// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

//go:build vm

package vm

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A clock that jumps two hours ahead, and back, restarts nothing; the node stays Ready, and new pods are, too.
func TestClock(t *testing.T) {
	m := up(t)
	others, err := m.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.create(probed("steady"))
	before := m.await("Ready", "steady", running)
	for n, jump := range []string{"+2 hours", "-2 hours"} {
		if out, err := exec.Command("date", "--set", jump).CombinedOutput(); err != nil {
			t.Fatalf("date --set %s: %v: %s", jump, err, out)
		}
		name := fmt.Sprint("jumped-", n)
		m.create(probed(name))
		m.await("Ready", name, running)
		m.eventually("a node that says that it is Ready", func(ctx context.Context) error {
			lease, err := m.client.CoordinationV1().Leases("kube-node-lease").Get(ctx, "minik8s-vm", metav1.GetOptions{})
			if err == nil && time.Since(lease.Spec.RenewTime.Time).Abs() > 40*time.Second {
				err = fmt.Errorf("its lease is of %s", lease.Spec.RenewTime)
			}
			if err != nil {
				return err
			}
			node, err := m.client.CoreV1().Nodes().Get(ctx, "minik8s-vm", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("%v", node.Status.Conditions)
		})
	}
	after := m.await("Ready still", "steady", running)
	if was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]; is.ContainerID != was.ContainerID || is.RestartCount != was.RestartCount {
		t.Errorf("its container was %s, and is %s", was.String(), is.String())
	}
	for _, name := range []string{"steady", "jumped-0", "jumped-1"} {
		if err := m.client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	m.eventually("the pods gone", func(ctx context.Context) error {
		list, err := m.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != len(others.Items) {
			err = fmt.Errorf("%d pods", len(list.Items))
		}
		return err
	})
}

// probed is a pod whose probes begin a while after its start.
func probed(name string) *corev1.Pod {
	p := webPod(name)
	get := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: get, InitialDelaySeconds: 5, PeriodSeconds: 2, TimeoutSeconds: 20}
	p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: get, InitialDelaySeconds: 5, PeriodSeconds: 2, TimeoutSeconds: 20}
	return p
}
