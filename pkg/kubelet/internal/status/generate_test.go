// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func pod(change func(*corev1.Pod), names ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Generation: 7}, Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}}
	for _, n := range names {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: n, Image: "i"})
	}
	if change != nil {
		change(p)
	}
	return p
}

func never(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }

func withInit(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.RestartPolicy = policy
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
	}
}

func withSidecar(p *corev1.Pod) {
	p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
}

func engine(cs ...*container.Container) *observed.Pod {
	for _, c := range cs {
		c.ID = c.Name + string(rune('0'+c.Attempt))
		c.CreatedAt = now.Add(-time.Hour)
		if c.State != container.StateCreated {
			c.StartedAt = now.Add(-time.Hour)
		}
	}
	return observed.New(container.Pod{}, []*container.Sandbox{{ID: "sb", State: container.StateRunning}}, cs)
}

func up(name string) *container.Container {
	return &container.Container{Name: name, State: container.StateRunning}
}

func down(name string, attempt uint32, code int) *container.Container {
	return &container.Container{Name: name, Attempt: attempt, State: container.StateExited, ExitCode: code, FinishedAt: now.Add(-time.Minute)}
}

// view is what a test looks at.
type view struct {
	Phase         corev1.PodPhase
	Reason        string
	Conditions    map[corev1.PodConditionType]string
	States        map[string]string
	RestartCounts map[string]int32
}

func look(st corev1.PodStatus) view {
	v := view{Phase: st.Phase, Reason: st.Reason, Conditions: map[corev1.PodConditionType]string{}, States: map[string]string{}}
	for _, c := range st.Conditions {
		text := string(c.Status)
		if c.Reason != "" {
			text += " " + c.Reason
		}
		if c.Message != "" {
			text += ": " + c.Message
		}
		if c.Type != corev1.PodScheduled {
			v.Conditions[c.Type] = text
		}
	}
	for _, cs := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		text := ""
		switch s := cs.State; {
		case s.Running != nil:
			text = "running"
		case s.Waiting != nil:
			text = "waiting " + s.Waiting.Reason
		case s.Terminated != nil:
			text = "terminated " + s.Terminated.Reason
			if s.Terminated.Message != "" {
				text += ": " + s.Terminated.Message
			}
		}
		if l := cs.LastTerminationState.Terminated; l != nil {
			text += ", was " + l.Reason
		}
		if cs.Ready {
			text += ", ready"
		}
		if cs.RestartCount > 0 {
			if v.RestartCounts == nil {
				v.RestartCounts = map[string]int32{}
			}
			v.RestartCounts[cs.Name] = cs.RestartCount
		}
		v.States[cs.Name] = text
	}
	return v
}

func four(sandbox, initialized, ready, containers string) map[corev1.PodConditionType]string {
	return map[corev1.PodConditionType]string{corev1.PodReadyToStartContainers: sandbox, corev1.PodInitialized: initialized, corev1.PodReady: ready, corev1.ContainersReady: containers}
}

func TestGenerate(t *testing.T) {
	const noSandbox, noAddress = "False PodSandboxNotReady: no pod sandbox exists", "False PodSandboxNotReady: pod sandbox has no IP address"
	const notReadyA = "False ContainersNotReady: containers with unready status: [a]"
	const lost = "terminated ContainerStatusUnknown: The container could not be located when the pod was terminated"
	const notReadySA = "False ContainersNotReady: containers with unready status: [s a]"
	tests := []struct {
		name  string
		parts snapshot.Parts
		in    Input // beside them
		want  view
	}{
		{name: "nothing yet", parts: snapshot.Parts{Pod: pod(nil, "a")}, want: view{Phase: corev1.PodPending,
			Conditions: four(noSandbox, "True", notReadyA, notReadyA), States: map[string]string{"a": "waiting ContainerCreating"}}},
		{name: "runs", parts: snapshot.Parts{Pod: pod(nil, "a"), Observed: engine(up("a")), PodIPs: []string{"10.0.0.1"}}, want: view{Phase: corev1.PodRunning,
			Conditions: four("True", "True", "True", "True"), States: map[string]string{"a": "running, ready"}}},
		{name: "not ready", parts: snapshot.Parts{Pod: pod(nil, "a", "b"), Observed: engine(up("a"), up("b")), PodIPs: []string{"10.0.0.1"}, Probes: map[string]snapshot.Probe{"a0": {Started: true}}},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", notReadyA, notReadyA), States: map[string]string{"a": "running", "b": "running, ready"}}},
		{name: "image cannot be pulled", parts: snapshot.Parts{Pod: pod(nil, "a"), Observed: engine(), Waiting: map[string]snapshot.Waiting{"a": {Reason: "ImagePullBackOff", Message: "m"}}},
			want: view{Phase: corev1.PodPending, Conditions: four(noAddress, "True", notReadyA, notReadyA), States: map[string]string{"a": "waiting ImagePullBackOff"}}},
		{name: "crash loop", parts: snapshot.Parts{Pod: pod(nil, "a"), Observed: engine(down("a", 2, 1)), PodIPs: []string{"10.0.0.1"}, Waiting: map[string]snapshot.Waiting{"a": {Reason: "CrashLoopBackOff", Message: "m"}}},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", notReadyA, notReadyA), States: map[string]string{"a": "waiting CrashLoopBackOff, was Error"}, RestartCounts: map[string]int32{"a": 2}}},
		{name: "restarted", parts: snapshot.Parts{Pod: pod(nil, "a"), PodIPs: []string{"10.0.0.1"}, Observed: engine(&container.Container{Name: "a", Attempt: 1, State: container.StateRunning}, &container.Container{Name: "a", State: container.StateExited, ExitCode: 137, OOMKilled: true})},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", "True", "True"), States: map[string]string{"a": "running, was OOMKilled, ready"}, RestartCounts: map[string]int32{"a": 1}}},
		{name: "oom that only the kernel tells of", parts: snapshot.Parts{Pod: pod(never, "a", "b"), Observed: engine(&container.Container{ID: "1", Name: "a", State: container.StateExited, ExitCode: 137}, &container.Container{ID: "2", Name: "b", State: container.StateExited, ExitCode: 1})},
			in:   Input{Finished: true, Stopped: true, OutOfMemory: func(string) bool { return true }},
			want: view{Phase: corev1.PodFailed, Conditions: four(noAddress, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"a": "terminated OOMKilled", "b": "terminated Error"}}},
		{name: "oom that was told before", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) {
			never(p)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ContainerID: "docker://a0"}}}}
		}, "a"), Observed: engine(down("a", 0, 137))}, in: Input{Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Conditions: four(noAddress, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"a": "terminated OOMKilled"}}},
		{name: "oom of a child only", parts: snapshot.Parts{Pod: pod(never, "a"), Observed: engine(&container.Container{Name: "a", State: container.StateExited, OOMKilled: true})}, in: Input{Finished: true, Stopped: true},
			want: view{Phase: corev1.PodSucceeded, Conditions: four(noAddress, "True PodCompleted", "False PodCompleted", "False PodCompleted"), States: map[string]string{"a": "terminated Completed"}}},
		{name: "message", parts: snapshot.Parts{Pod: pod(never, "a"), Observed: engine(down("a", 0, 2))}, in: Input{TerminationMessages: map[string]string{"a0": "bye"}, Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Conditions: four(noAddress, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"a": "terminated Error: bye"}}},
		{name: "ended but not stopped", parts: snapshot.Parts{Pod: pod(never, "a"), Observed: engine(down("a", 0, 0))}, in: Input{Finished: true},
			want: view{Phase: corev1.PodPending, Conditions: four(noAddress, "True", notReadyA, notReadyA), States: map[string]string{"a": "terminated Completed"}}},
		{name: "init waits", parts: snapshot.Parts{Pod: pod(withInit(corev1.RestartPolicyAlways), "a"), Observed: engine(), PodIPs: []string{"10.0.0.1"}},
			want: view{Phase: corev1.PodPending, Conditions: four("True", "False ContainersNotInitialized: containers with incomplete status: [init]", notReadyA, notReadyA), States: map[string]string{"init": "waiting PodInitializing", "a": "waiting PodInitializing"}}},
		{name: "init runs", parts: snapshot.Parts{Pod: pod(withInit(corev1.RestartPolicyAlways), "a"), Observed: engine(up("init")), PodIPs: []string{"10.0.0.1"}},
			want: view{Phase: corev1.PodPending, Conditions: four("True", "False ContainersNotInitialized: containers with incomplete status: [init]", notReadyA, notReadyA), States: map[string]string{"init": "running", "a": "waiting PodInitializing"}}},
		{name: "init done", parts: snapshot.Parts{Pod: pod(withInit(corev1.RestartPolicyAlways), "a"), Observed: engine(down("init", 0, 0)), PodIPs: []string{"10.0.0.1"}},
			want: view{Phase: corev1.PodPending, Conditions: four("True", "True", notReadyA, notReadyA), States: map[string]string{"init": "terminated Completed, ready", "a": "waiting PodInitializing"}}},
		{name: "init failed", parts: snapshot.Parts{Pod: pod(withInit(corev1.RestartPolicyNever), "a"), Observed: engine(down("init", 0, 1))}, in: Input{Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Conditions: four(noAddress, "False ContainersNotInitialized: containers with incomplete status: [init]", "False PodFailed", "False PodFailed"), States: map[string]string{"init": "terminated Error", "a": "waiting PodInitializing"}}},
		{name: "initialised in another sandbox", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) {
			withInit(corev1.RestartPolicyAlways)(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
		}, "a"), PodIPs: []string{"10.0.0.1"}, Observed: engine(up("init"))},
			want: view{Phase: corev1.PodPending, Conditions: four("True", "True", notReadyA, notReadyA), States: map[string]string{"init": "running", "a": "waiting PodInitializing"}}},
		{name: "deleted before it started", parts: snapshot.Parts{Pod: pod(nil, "a")}, in: Input{Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Conditions: four(noSandbox, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"a": "terminated ContainerStatusUnknown: The container could not be located when the pod was terminated"}}},
		{name: "deleted before it was initialised", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) {
			withInit(corev1.RestartPolicyAlways)(p)
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "next"})
		}, "a")}, in: Input{Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Conditions: four(noSandbox, "False ContainersNotInitialized: containers with incomplete status: [init next]", "False PodFailed", "False PodFailed"),
				States: map[string]string{"init": lost, "next": "waiting PodInitializing", "a": "waiting PodInitializing"}}},
		{name: "deleted while it was initialised anew", parts: snapshot.Parts{Pod: pod(withInit(corev1.RestartPolicyAlways), "a", "b"), Observed: engine(down("init", 0, 137), down("a", 0, 137))}, in: Input{Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Conditions: four(noAddress, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"init": "terminated Error", "a": "terminated Error", "b": lost}}},
		{name: "deadline", parts: snapshot.Parts{Pod: pod(nil, "a"), Observed: engine(down("a", 0, 0))}, in: Input{Failure: &Failure{Reason: "DeadlineExceeded", Message: "m", Final: true}, Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Conditions: four(noAddress, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"a": "terminated Completed"}}},
		{name: "evicted", parts: snapshot.Parts{Pod: pod(nil, "a", "b"), Observed: engine(down("a", 0, 0), down("b", 0, 143))}, in: Input{Failure: &Failure{Reason: "Evicted", Message: "m"}, Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Reason: "Evicted", Conditions: four(noAddress, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"a": "terminated Completed", "b": "terminated Error"}}},
		{name: "evicted, and all ended well", parts: snapshot.Parts{Pod: pod(nil, "a"), Observed: engine(down("a", 0, 0))}, in: Input{Failure: &Failure{Reason: "Evicted", Message: "m"}, Finished: true, Stopped: true},
			want: view{Phase: corev1.PodSucceeded, Conditions: four(noAddress, "True PodCompleted", "False PodCompleted", "False PodCompleted"), States: map[string]string{"a": "terminated Completed"}}},
		{name: "a static pod evicted, and all ended well", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }, "a"), Observed: engine(down("a", 0, 0))}, in: Input{Failure: &Failure{Reason: "Evicted", Message: "m"}, Finished: true, Stopped: true},
			want: view{Phase: corev1.PodFailed, Reason: "Evicted", Conditions: four(noAddress, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"a": "terminated Completed"}}},
		{name: "terminal stays", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed; p.Status.Reason = "Evicted" }, "a"), Observed: engine(up("a"))},
			want: view{Phase: corev1.PodFailed, Reason: "Evicted", Conditions: four(noAddress, "True", "False PodFailed", "False PodFailed"), States: map[string]string{"a": "running, ready"}}},
		{name: "a reason stays with its phase", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodRunning, "R" }, "a"), Observed: engine(up("a")), PodIPs: []string{"10.0.0.1"}},
			want: view{Phase: corev1.PodRunning, Reason: "R", Conditions: four("True", "True", "True", "True"), States: map[string]string{"a": "running, ready"}}},
		{name: "a reason goes with its phase", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodPending, "R" }, "a"), Observed: engine(up("a")), PodIPs: []string{"10.0.0.1"}},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", "True", "True"), States: map[string]string{"a": "running, ready"}}},
		{name: "could not start", parts: snapshot.Parts{Pod: pod(nil, "a"), PodIPs: []string{"10.0.0.1"}, Observed: engine(&container.Container{Name: "a", State: container.StateCreated, Message: "no such file", ExitCode: 127}), Waiting: map[string]snapshot.Waiting{"a": {Reason: "RunContainerError", Message: "no such file"}}},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", notReadyA, notReadyA), States: map[string]string{"a": "waiting RunContainerError, was StartError"}}},
		{name: "lost container", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", ContainerID: "docker://x", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, "a"), PodIPs: []string{"10.0.0.1"}, Observed: engine()},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", notReadyA, notReadyA), States: map[string]string{"a": "terminated ContainerStatusUnknown: The container could not be located when the pod was terminated"}, RestartCounts: map[string]int32{"a": 1}}},
		{name: "init container that somebody has removed before its end was told", parts: snapshot.Parts{Pod: pod(withInit(corev1.RestartPolicyAlways), "a"), Observed: engine(up("a")), PodIPs: []string{"10.0.0.1"}},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", "True", "True"), States: map[string]string{"a": "running, ready",
				"init": "terminated Completed: Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally, ready"}}},
		{name: "initialised anew in another sandbox", parts: snapshot.Parts{Pod: pod(withInit(corev1.RestartPolicyAlways), "a"), PodIPs: []string{"10.0.0.1"}, Observed: engine(up("init"), down("a", 0, 137))},
			want: view{Phase: corev1.PodPending, Conditions: four("True", "True", notReadyA, notReadyA), States: map[string]string{"init": "running", "a": "terminated Error"}}},
		{name: "sidecar starts anew in another sandbox", parts: snapshot.Parts{Pod: pod(withSidecar, "a"), PodIPs: []string{"10.0.0.1"}, Observed: engine(up("s"), down("a", 0, 137)),
			Probes: map[string]snapshot.Probe{"s0": {}}},
			want: view{Phase: corev1.PodPending, Conditions: four("True", "True", notReadySA, notReadySA), States: map[string]string{"s": "running", "a": "terminated Error"}}},
		{name: "sidecar starts anew beside the others", parts: snapshot.Parts{Pod: pod(withSidecar, "a"), PodIPs: []string{"10.0.0.1"},
			Observed: engine(up("s"), &container.Container{Name: "a", State: container.StateExited, ExitCode: 137, SandboxID: "sb"}), Probes: map[string]snapshot.Probe{"s0": {}}},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", notReadySA, notReadySA), States: map[string]string{"s": "running", "a": "terminated Error"}}},
		{name: "only sidecars run", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) { never(p); withSidecar(p) }, "a"), PodIPs: []string{"10.0.0.1"}, Observed: engine(up("s"), down("a", 0, 0))}, in: Input{Finished: true},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", notReadyA, notReadyA), States: map[string]string{"s": "running, ready", "a": "terminated Completed"}}},
		{name: "gates", parts: snapshot.Parts{Pod: pod(func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}, {ConditionType: "y"}}
			p.Status.Conditions = []corev1.PodCondition{{Type: "y", Status: corev1.ConditionFalse}}
		}, "a"), Observed: engine(up("a")), PodIPs: []string{"10.0.0.1"}}, want: view{Phase: corev1.PodRunning,
			Conditions: map[corev1.PodConditionType]string{corev1.PodReadyToStartContainers: "True", corev1.PodInitialized: "True", corev1.ContainersReady: "True", "y": "False",
				corev1.PodReady: `False ReadinessGatesNotReady: corresponding condition of pod readiness gate "x" does not exist., the status of pod readiness gate "y" is not "True", but False`},
			States: map[string]string{"a": "running, ready"}}},
		{name: "sidecar", parts: snapshot.Parts{Pod: pod(withSidecar, "a"), Observed: engine(up("s"), up("a")), PodIPs: []string{"10.0.0.1"}, Probes: map[string]snapshot.Probe{"s0": {Started: true, Ready: false}}},
			want: view{Phase: corev1.PodRunning, Conditions: four("True", "True", "False ContainersNotReady: containers with unready status: [s]", "False ContainersNotReady: containers with unready status: [s]"),
				States: map[string]string{"s": "running", "a": "running, ready"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.parts.Now = now
			tt.in.RuntimeName, tt.in.Look = "docker", snapshot.New(tt.parts)
			st := Generate(tt.in)
			if diff := cmp.Diff(tt.want, look(st)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// What was generated is a fixed point: with it as the API's status nothing changes.
			again := *tt.parts.Pod
			again.Status = st
			tt.parts.Pod, tt.parts.Now = &again, now.Add(time.Hour)
			tt.in.Look = snapshot.New(tt.parts)
			if diff := cmp.Diff(st, Generate(tt.in)); diff != "" {
				t.Errorf("second time (-first +second):\n%s", diff)
			}
		})
	}
}

// TestGenerate_Stopped: nothing is told of a pod that has ended as if it could go on.
func TestGenerate_Stopped(t *testing.T) {
	in := Input{
		Look:     snapshot.New(snapshot.Parts{Pod: pod(never, "a"), Observed: engine(down("a", 0, 0))}),
		Finished: true, Pending: &allocation.Pending{Reason: corev1.PodReasonDeferred, Message: "no room"}, Tight: "in use",
	}
	in.Look.Observed.Sandboxes[0].State, in.Look.Sandbox = container.StateExited, nil
	told := func() map[corev1.PodConditionType]string {
		all := look(Generate(in)).Conditions
		maps.DeleteFunc(all, func(kind corev1.PodConditionType, _ string) bool {
			return kind != corev1.PodReadyToStartContainers && kind != corev1.PodResizePending && kind != corev1.PodResizeInProgress
		})
		return all
	}
	want := map[corev1.PodConditionType]string{
		corev1.PodReadyToStartContainers: "False PodSandboxNotReady: pod sandbox is not ready",
		corev1.PodResizePending:          "True Deferred: no room", corev1.PodResizeInProgress: "True Error: in use",
	}
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Errorf("while it ends (-want +got):\n%s", diff)
	}
	in.Stopped = true
	delete(want, corev1.PodResizePending)
	delete(want, corev1.PodResizeInProgress)
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Errorf("when it has ended (-want +got):\n%s", diff)
	}
}

// TestGenerate_Resize: a resize that goes on is of the generation that has begun it, whatever waits behind it; and what becomes of one that
// waits is a turn.
func TestGenerate_Resize(t *testing.T) {
	p := pod(nil, "a")
	p.Generation = 3
	of := func(p *corev1.Pod, at time.Time, pending *allocation.Pending, tight string) (corev1.PodStatus, map[corev1.PodConditionType]corev1.PodCondition) {
		t.Helper()
		st := Generate(Input{Look: snapshot.New(snapshot.Parts{Pod: p, Observed: engine(up("a")), Now: at}), Pending: pending, Tight: tight, Begun: 2})
		found := map[corev1.PodConditionType]corev1.PodCondition{}
		for _, c := range st.Conditions {
			found[c.Type] = c
		}
		return st, found
	}
	deferred := &allocation.Pending{Reason: corev1.PodReasonDeferred, Message: "no room"}
	st, first := of(p, now, deferred, "in use")
	if w, g := first[corev1.PodResizePending], first[corev1.PodResizeInProgress]; w.ObservedGeneration != 3 || g.ObservedGeneration != 2 {
		t.Errorf("one waits of generation %d, want 3, and one goes on of %d, want 2", w.ObservedGeneration, g.ObservedGeneration)
	}
	for _, tc := range []struct {
		name    string
		pending *allocation.Pending
		turned  bool
	}{
		{"it waits for less", &allocation.Pending{Reason: corev1.PodReasonDeferred, Message: "little room"}, false},
		{"it will never be", &allocation.Pending{Reason: corev1.PodReasonInfeasible, Message: "no room"}, true},
	} {
		again := *p
		again.Status = st
		_, next := of(&again, now.Add(time.Hour), tc.pending, "in use still")
		if w := next[corev1.PodResizePending]; w.LastTransitionTime.Equal(new(first[corev1.PodResizePending].LastTransitionTime)) == tc.turned {
			t.Errorf("%s: turned at %v", tc.name, w.LastTransitionTime)
		}
		if g := next[corev1.PodResizeInProgress]; !g.LastTransitionTime.Equal(new(first[corev1.PodResizeInProgress].LastTransitionTime)) {
			t.Errorf("%s: the other turned at %v", tc.name, g.LastTransitionTime)
		}
	}
}

// TestGenerate_Order: containers are told of in the order of their names, init containers in that of the spec.
func TestGenerate_Order(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "y"}, {Name: "x"}}
		for _, name := range []string{"f", "e"} {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name}})
		}
	}, "web", "agent")
	st := Generate(Input{Look: snapshot.New(snapshot.Parts{Pod: p, Now: now})})
	var got []string
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses) {
		got = append(got, c.Name)
	}
	if diff := cmp.Diff([]string{"y", "x", "agent", "web", "e", "f"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGenerate_Disrupted: that the node's sake ended a pod is told when it has ended, in place of what others have announced.
func TestGenerate_Disrupted(t *testing.T) {
	announced := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}
	p := pod(func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{announced} }, "a")
	in := Input{Look: snapshot.New(snapshot.Parts{Pod: p, Observed: engine(down("a", 0, 143))}), Failure: &Failure{Reason: "Evicted", Message: "m", Disrupted: true}, Finished: true}
	find := func(st corev1.PodStatus) corev1.PodCondition {
		t.Helper()
		i := condition(st.Conditions, corev1.DisruptionTarget)
		if i < 0 {
			t.Fatalf("no condition in %+v", st.Conditions)
		}
		return st.Conditions[i]
	}
	if c := find(Generate(in)); c != announced {
		t.Errorf("while it ends: %+v", c)
	}
	in.Stopped = true
	st := Generate(in)
	if c := find(st); c.Reason != corev1.PodReasonTerminationByKubelet || c.Message != "m" || c.Status != corev1.ConditionTrue || st.Reason != "Evicted" {
		t.Errorf("when it has ended: %+v", st)
	}
	if c := find(merge(&p.Status, st)); c.Reason != corev1.PodReasonTerminationByKubelet {
		t.Errorf("reported: %+v", c)
	}
	if c := find(merge(&corev1.PodStatus{Conditions: []corev1.PodCondition{announced}}, corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Reason: "stale"}}})); c != announced {
		t.Errorf("the condition of others: %+v", c)
	}
}

func TestEnded(t *testing.T) {
	one := func(name string, end *corev1.ContainerStateTerminated) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, State: corev1.ContainerState{Terminated: end}}}
	}
	failed, done := &corev1.ContainerStateTerminated{ExitCode: 139}, &corev1.ContainerStateTerminated{}
	for name, tc := range map[string]struct {
		before, now corev1.PodStatus
		want        map[container.ContainerType]int32
	}{
		"runs":        {corev1.PodStatus{}, corev1.PodStatus{ContainerStatuses: one("c", nil)}, nil},
		"ends":        {corev1.PodStatus{ContainerStatuses: one("c", nil)}, corev1.PodStatus{ContainerStatuses: one("c", failed)}, map[container.ContainerType]int32{container.TypeRegular: 139}},
		"has ended":   {corev1.PodStatus{ContainerStatuses: one("c", failed)}, corev1.PodStatus{ContainerStatuses: one("c", failed)}, nil},
		"new, and it": {corev1.PodStatus{}, corev1.PodStatus{InitContainerStatuses: one("i", done)}, map[container.ContainerType]int32{container.TypeInit: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var got map[container.ContainerType]int32
			Ended(&tc.before, &tc.now, func(kind container.ContainerType, end *corev1.ContainerStateTerminated) {
				if got == nil {
					got = map[container.ContainerType]int32{}
				}
				got[kind] = end.ExitCode
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestGenerate_User: who a container was made for is told as long as its status is.
func TestGenerate_User(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	c := up("c")
	c.User = &container.User{UID: 1, GID: 2, Groups: []int64{2, 3}}
	want := &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1, GID: 2, SupplementalGroups: []int64{2, 3}}}
	pod.Status = Generate(Input{Look: snapshot.New(snapshot.Parts{Pod: pod, Observed: engine(c), Now: now})})
	if diff := cmp.Diff(want, pod.Status.ContainerStatuses[0].User); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pod.Status = Generate(Input{Look: snapshot.New(snapshot.Parts{Pod: pod, Observed: engine(), Now: now}), Stopped: true})
	if diff := cmp.Diff(want, pod.Status.ContainerStatuses[0].User); diff != "" {
		t.Errorf("without the container (-want +got):\n%s", diff)
	}
}

// TestGenerate_Resources: those of a container are told from when it is made on, and as long as its end is.
func TestGenerate_Resources(t *testing.T) {
	t.Parallel()
	const kill = corev1.Signal("SIGKILL")
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	made := corev1.ContainerStatus{Resources: &corev1.ResourceRequirements{Requests: cpu, Limits: cpu}, AllocatedResources: cpu, StopSignal: new(kill)}
	p := pod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = *made.Resources
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: new(kill)}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
	}, "a")
	ephemeral := corev1.ContainerStatus{Resources: &corev1.ResourceRequirements{}}
	for _, step := range []struct {
		name         string
		engine       []*container.Container
		a, ephemeral corev1.ContainerStatus
	}{
		{name: "not made yet"},
		{name: "made", engine: []*container.Container{{Name: "a", State: container.StateCreated}}, a: made},
		{name: "runs", engine: []*container.Container{up("a"), up("e")}, a: made, ephemeral: ephemeral},
		{name: "has ended", engine: []*container.Container{down("a", 0, 1), up("e")}, a: made, ephemeral: ephemeral},
		{name: "was removed", a: made, ephemeral: ephemeral},
	} {
		p = p.DeepCopy()
		p.Status = Generate(Input{Look: snapshot.New(snapshot.Parts{Pod: p, Observed: engine(step.engine...), Now: now})})
		for i, want := range []corev1.ContainerStatus{step.a, step.ephemeral} {
			got := slices.Concat(p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses)[i]
			got = corev1.ContainerStatus{Resources: got.Resources, AllocatedResources: got.AllocatedResources, StopSignal: got.StopSignal}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	}
}

// TestGenerate_Mounts: what was mounted stays told when the sandbox that says how is gone.
func TestGenerate_Mounts(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{
		{Name: "w", MountPath: "/w"}, {Name: "r", MountPath: "/r", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyIfPossible)},
	}}}}}
	for mode, can := range map[corev1.RecursiveReadOnlyMode]bool{corev1.RecursiveReadOnlyEnabled: true, corev1.RecursiveReadOnlyDisabled: false} {
		want := []corev1.VolumeMountStatus{{Name: "w", MountPath: "/w"}, {Name: "r", MountPath: "/r", ReadOnly: true, RecursiveReadOnly: &mode}}
		pod.Status = Generate(Input{Look: snapshot.New(snapshot.Parts{Pod: pod, Observed: engine(up("c")), Now: now}), RecursiveReadOnly: can})
		if diff := cmp.Diff(want, pod.Status.ContainerStatuses[0].VolumeMounts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		pod.Status = Generate(Input{Look: snapshot.New(snapshot.Parts{Pod: pod, Now: now}), Stopped: true})
		if diff := cmp.Diff(want, pod.Status.ContainerStatuses[0].VolumeMounts); diff != "" {
			t.Errorf("without a sandbox (-want +got):\n%s", diff)
		}
	}
}
