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

// A clock that jumps by hours, back and ahead, restarts and evicts nothing; the node stays Ready, also for longer than it may be
// silent, and new pods are, too.
func TestClock(t *testing.T) {
	m := up(t)
	others, err := m.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.create(probed("steady"))
	before := m.await("Ready", "steady", running)
	since := m.readySince()
	// The first one is to a time before the cluster was started, and back.
	for n, jump := range []string{"-2 hours", "+4 hours", "-2 hours"} {
		if out, err := exec.Command("date", "--set", jump).CombinedOutput(); err != nil {
			t.Fatalf("date --set %s: %v: %s", jump, err, out)
		}
		jumped := time.Now()
		name := fmt.Sprint("jumped-", n)
		m.create(probed(name))
		m.await("Ready", name, running)
		m.eventually("a lease that is renewed, for longer than a node may be silent", func(ctx context.Context) error {
			lease, err := m.client.CoordinationV1().Leases("kube-node-lease").Get(ctx, "minik8s-vm", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if renewed := lease.Spec.RenewTime.Time; time.Since(renewed).Abs() > 40*time.Second || renewed.Sub(jumped.Round(0)) < time.Minute {
				return fmt.Errorf("it is of %s", renewed)
			}
			return nil
		})
		if now := m.readySince(); !now.Equal(since) {
			t.Errorf("date --set %s: the node is Ready since %s, and was since %s", jump, now, since)
		}
		if s, err := m.Status(t.Context()); err != nil || !s.Ready {
			t.Errorf("date --set %s: %+v, %v", jump, s, err)
		}
	}
	after := m.await("Ready still", "steady", running)
	if was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]; is.ContainerID != was.ContainerID || is.RestartCount != was.RestartCount {
		t.Errorf("its container was %s, and is %s", was.String(), is.String())
	}
	for _, name := range []string{"steady", "jumped-0", "jumped-1", "jumped-2"} {
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

// readySince is when the node became Ready.
func (m machine) readySince() time.Time {
	m.Helper()
	node, err := m.client.CoreV1().Nodes().Get(m.Context(), "minik8s-vm", metav1.GetOptions{})
	if err != nil {
		m.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	m.Fatalf("it is not Ready: %v", node.Status.Conditions)
	return time.Time{}
}

// probed is a pod whose probes begin a while after its start.
func probed(name string) *corev1.Pod {
	p := webPod(name)
	get := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: get, InitialDelaySeconds: 5, PeriodSeconds: 2, TimeoutSeconds: 20}
	p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: get, InitialDelaySeconds: 5, PeriodSeconds: 2, TimeoutSeconds: 20}
	return p
}
