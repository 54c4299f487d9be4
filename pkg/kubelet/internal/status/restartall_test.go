// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
)

// What is told of a pod of which a container has ended so that all are started again.
func TestGenerate_RestartAll(t *testing.T) {
	restarts := func(p *corev1.Pod) {
		never(p)
		c := &p.Spec.Containers[0]
		c.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}}
	}
	again := func(c *container.Container) *container.Container {
		c.Attempt, c.Labels = 1, snapshot.RunLabels(1)
		return c
	}
	const waiting = "waiting RestartingAllContainers, "
	for _, test := range []struct {
		name    string
		engine  []*container.Container
		stopped bool
		phase   corev1.PodPhase
		restart string // the condition
		states  []string
	}{
		{name: "it has ended", engine: []*container.Container{down("a", 0, 42), up("b")}, phase: corev1.PodRunning, restart: "True RestartAllContainersStarted",
			states: []string{waiting + "last Error 42", "running, last none"}},
		{name: "all have", engine: []*container.Container{down("a", 0, 42), down("b", 0, 0)}, phase: corev1.PodRunning, restart: "True RestartAllContainersStarted",
			states: []string{waiting + "last Error 42", waiting + "last RestartingAllContainers 137"}},
		{name: "one runs again", engine: []*container.Container{again(up("a")), down("a", 0, 42), down("b", 0, 0)}, phase: corev1.PodRunning, restart: "False ",
			states: []string{"running, last Error 42", waiting + "last RestartingAllContainers 137"}},
		{name: "all do", engine: []*container.Container{again(up("a")), down("a", 0, 42), again(up("b")), down("b", 0, 1)}, phase: corev1.PodRunning, restart: "False ",
			states: []string{"running, last Error 42", "running, last RestartingAllContainers 137"}},
		{name: "the pod is stopped before", engine: []*container.Container{down("a", 0, 42), down("b", 0, 0)}, stopped: true, phase: corev1.PodFailed, restart: "False PodFailed",
			states: []string{"Error 42, last none", "Completed 0, last none"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := snapshot.New(snapshot.Parts{Pod: pod(restarts, "a", "b"), Observed: engine(test.engine...), Now: now})
			st := Generate(Input{Look: p, RuntimeName: "fake", Finished: test.stopped, Stopped: test.stopped})
			end := func(s corev1.ContainerState) string {
				if s.Terminated == nil {
					return "none"
				}
				return fmt.Sprintf("%s %d", s.Terminated.Reason, s.Terminated.ExitCode)
			}
			var states []string
			for _, s := range st.ContainerStatuses {
				state := end(s.State)
				switch {
				case s.State.Running != nil:
					state = "running"
				case s.State.Waiting != nil:
					state = "waiting " + s.State.Waiting.Reason
				}
				states = append(states, state+", last "+end(s.LastTerminationState))
			}
			if diff := cmp.Diff(test.states, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			i := condition(st.Conditions, corev1.AllContainersRestarting)
			if i < 0 || string(st.Conditions[i].Status)+" "+st.Conditions[i].Reason != test.restart || st.Phase != test.phase {
				t.Errorf("phase %s, conditions %+v", st.Phase, st.Conditions)
			}
		})
	}
	if st := Generate(Input{Look: snapshot.New(snapshot.Parts{Pod: pod(nil, "a"), Observed: engine(up("a")), Now: now})}); condition(st.Conditions, corev1.AllContainersRestarting) >= 0 {
		t.Error("a pod without such a rule has the condition")
	}
}
