// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// restarting is a world and a pod of it with an init container, a sidecar and two others, of which c ends with 42 when end is
// closed, and with it all.
func restarting(t *testing.T) (w *world, end chan struct{}) {
	t.Helper()
	end = make(chan struct{})
	var ended atomic.Bool
	w = newWorld(t, fake.Config{Program: func(c container.ContainerConfig) fake.Program {
		switch c.Name {
		case "init":
			return func(context.Context, fake.Process) int { return 0 }
		case "c":
			return func(ctx context.Context, _ fake.Process) int {
				if ended.Load() {
					<-ctx.Done()
					return 137
				}
				select {
				case <-end:
					ended.Store(true)
					return 42
				case <-ctx.Done():
					return 137
				}
			}
		}
		return nil
	}})
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "img"}, {Name: "side", Image: "img", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		c := &p.Spec.Containers[0]
		c.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "img"})
	}))
	return w, end
}

func condition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

// restartedOnce says whether all containers of a pod have been started a second time, and none a third.
func restartedOnce(p *corev1.Pod) bool {
	if p == nil || !ready(p) {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses),
		func(s corev1.ContainerStatus) bool {
			return s.RestartCount != 1 || s.LastTerminationState.Terminated == nil
		})
}

func TestRestartAllContainers(t *testing.T) {
	w, end := restarting(t)
	w.start()
	before := w.await("ready", "a", ready)
	if c := condition(before, corev1.AllContainersRestarting); c == nil || c.Status != corev1.ConditionFalse {
		t.Errorf("condition before: %+v", c)
	}
	sandbox := w.runtime.FindSandbox("uid-a").ID
	release := w.runtime.Hang("StopContainer", "")
	close(end)
	p := w.await("restarting", "a", func(p *corev1.Pod) bool {
		c := condition(p, corev1.AllContainersRestarting)
		return c != nil && c.Status == corev1.ConditionTrue
	})
	if c := condition(p, corev1.AllContainersRestarting); c.Reason != "RestartAllContainersStarted" || c.Message != "container exited with restart policy rule" {
		t.Errorf("condition %+v", c)
	}
	if c := condition(p, corev1.PodReady); c == nil || c.Status != corev1.ConditionFalse || p.Status.Phase != corev1.PodRunning {
		t.Errorf("while all restart: phase %s, ready %+v", p.Status.Phase, c)
	}
	release()
	p = w.await("restarted", "a", restartedOnce)
	if c := condition(p, corev1.AllContainersRestarting); c == nil || c.Status != corev1.ConditionFalse {
		t.Errorf("condition after: %+v", c)
	}
	if c := condition(p, corev1.PodInitialized); c == nil || c.Status != corev1.ConditionTrue {
		t.Errorf("initialized: %+v", c)
	}
	if w.runtime.FindSandbox("uid-a").ID != sandbox || p.Status.PodIP != before.Status.PodIP {
		t.Error("the pod has another sandbox or address")
	}
	want := []string{"StartContainer init", "StartContainer side", "StartContainer c", "StartContainer d"}
	if got := order(w.runtime.Calls("StartContainer")); !slices.Equal(got, slices.Concat(want, want)) {
		t.Errorf("started %v", got)
	}
	for _, s := range p.Status.ContainerStatuses {
		want := map[string]string{"c": "Error", "d": "RestartingAllContainers"}[s.Name]
		if got := s.LastTerminationState.Terminated.Reason; got != want {
			t.Errorf("%s has ended with %s, want %s", s.Name, got, want)
		}
	}
}

// A kubelet that is killed while it ends what runs, or while it starts it again, is followed by one that goes on there.
func TestRestartAllContainers_Killed(t *testing.T) {
	for _, op := range []string{"StopContainer", "CreateContainer", "StartContainer"} {
		t.Run(op, func(t *testing.T) {
			w, end := restarting(t)
			stop := w.start()
			w.await("ready", "a", ready)
			n := len(w.runtime.Calls(op))
			release := w.runtime.Hang(op, "")
			close(end)
			for deadline := time.Now().Add(20 * time.Second); len(w.runtime.Calls(op)) == n; <-time.After(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("no %s", op)
				}
			}
			stop()
			release()
			w.start()
			w.await("restarted", "a", restartedOnce)
		})
	}
}
