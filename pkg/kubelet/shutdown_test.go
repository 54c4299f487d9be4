// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/nodeshutdown"
)

// Before the machine goes down its pods end, critical ones last, and no others are taken.
func TestNodeShutdown(t *testing.T) {
	w := newWorld(t, interrupted)
	w.logind = nodeshutdown.NewFake(time.Minute)
	w.settings = configuration.Default()
	w.settings.ClusterDomain = "cluster.local"
	w.settings.ShutdownGracePeriod.Duration, w.settings.ShutdownGracePeriodCriticalPods.Duration = 30*time.Second, 10*time.Second
	stop := w.start()
	w.create(newPod("critical", func(p *corev1.Pod) { p.Spec.Priority = new(int32(2000000000)) }))
	w.create(newPod("a", nil))
	w.await("ready", "critical", ready)
	w.await("ready", "a", ready)
	for w.logind.Locks() == 0 {
		<-time.After(time.Millisecond)
	}
	release := w.runtime.Hang("StopContainer", w.runtime.Find("uid-a", "c").ID)
	w.logind.Shutdown(true)
	w.awaitNode(func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && c.Message == "node is shutting down"
		})
	})
	w.create(newPod("late", nil))
	if p := w.await("refused", "late", phase(corev1.PodFailed)); p.Status.Reason != "NodeShutdown" || p.Status.Message != "Pod was rejected: Pod was rejected as the node is shutting down." {
		t.Errorf("reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	if c := w.runtime.Find("uid-critical", "c"); c.State != container.StateRunning || w.logind.Locks() != 1 {
		t.Errorf("before the other has ended the critical pod is %s, and %d hold the shutdown up", c.State, w.logind.Locks())
	}
	release()
	for _, name := range []string{"a", "critical"} {
		p := w.await("ended", name, phase(corev1.PodFailed))
		c := disruption(p)
		if p.Status.Reason != "Terminated" || p.Status.Message != "Pod was terminated in response to imminent node shutdown." || c == nil || c.Reason != "TerminationByKubelet" {
			t.Errorf("%s: reason %q, message %q, condition %+v", name, p.Status.Reason, p.Status.Message, c)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); w.logind.Locks() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the shutdown does not go on")
		}
	}

	// The time is told after the next boot, too.
	told := func() (start, end float64) {
		t.Helper()
		return series(t, w.kubelet.metrics.Gatherer(), "kubelet_graceful_shutdown_start_time_seconds")[0],
			series(t, w.kubelet.metrics.Gatherer(), "kubelet_graceful_shutdown_end_time_seconds")[0]
	}
	start, end := told()
	if now := float64(time.Now().Unix() + 1); start < now-60 || end < start || end > now {
		t.Errorf("a shutdown from %v to %v is told", start, end)
	}
	stop()
	w.logind = nodeshutdown.NewFake(time.Minute)
	w.start()
	w.awaitNode(func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	if a, b := told(); a != start || b != end {
		t.Errorf("after a restart %v to %v, not %v to %v", a, b, start, end)
	}
}
