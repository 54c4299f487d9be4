// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
)

func TestNew(t *testing.T) {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "i"}, {Name: "s", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
			Containers:     []corev1.Container{{Name: "a"}, {Name: "b"}},
			EphemeralContainers: []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}, TargetContainerName: "a",
			}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "b", RestartCount: 2}}},
	}
	attempt := func(name string, n uint32, state container.State) *container.Container {
		return &container.Container{ID: name + string(rune('0'+n)), Name: name, Attempt: n, State: state}
	}
	obs := observed.New(container.Pod{}, []*container.Sandbox{{ID: "old", State: container.StateExited}, {ID: "sb", Attempt: 1, State: container.StateRunning}},
		[]*container.Container{
			attempt("a", 0, container.StateExited), attempt("a", 3, container.StateRunning), attempt("a", 1, container.StateExited),
			attempt("a", 2, container.StateExited), attempt("i", 0, container.StateExited),
		})
	p := New(Parts{
		Pod: pod, Observed: obs, Probes: map[string]Probe{"a3": {Started: true}, "i0": {}},
		Waiting: map[string]Waiting{"b": {Reason: "CrashLoopBackOff"}},
	})

	if p.Sandbox == nil || p.Sandbox.ID != "sb" {
		t.Errorf("sandbox %+v, want the running one", p.Sandbox)
	}
	var names []string
	for _, c := range p.Containers() {
		names = append(names, c.Spec.Name)
	}
	if diff := cmp.Diff([]string{"i", "s", "a", "b", "e"}, names); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	a, b, i := p.Find("a"), p.Find("b"), p.Find("i")
	if !a.Running() || a.Latest.ID != "a3" || a.Previous.ID != "a2" || len(a.Older) != 2 || a.Older[0].ID != "a1" || a.Probe == nil || !a.Probe.Started {
		t.Errorf("a: %+v", a)
	}
	if b.Latest != nil || b.Reported == nil || b.Reported.RestartCount != 2 || b.Waiting == nil || a.Waiting != nil {
		t.Errorf("b: %+v", b)
	}
	if i.Probe != nil {
		t.Error("a container that has ended is not probed")
	}
	if !p.Find("s").Sidecar || i.Sidecar || p.Find("e").Target != "a" || p.Find("x") != nil {
		t.Error("who is a sidecar, or what an ephemeral container looks into, is wrong")
	}
}

func TestContainer_RestartsOn(t *testing.T) {
	always, onFailure, never := corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	rule := func(op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}}
	}
	in, notIn := corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	restartAll := func(op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []corev1.ContainerRestartRule {
		rules := rule(op, codes...)
		rules[0].Action = corev1.ContainerRestartRuleActionRestartAllContainers
		return rules
	}
	tests := []struct {
		name   string
		policy corev1.RestartPolicy
		kind   container.ContainerType
		spec   corev1.Container
		want   map[int]bool
	}{
		{name: "always", policy: always, kind: container.TypeRegular, want: map[int]bool{0: true, 1: true}},
		{name: "on failure", policy: onFailure, kind: container.TypeRegular, want: map[int]bool{0: false, 1: true}},
		{name: "never", policy: never, kind: container.TypeRegular, want: map[int]bool{0: false, 1: false}},
		{name: "an init container needs one success", policy: always, kind: container.TypeInit, want: map[int]bool{0: false, 1: true}},
		{name: "a sidecar restarts whatever the pod's policy", policy: never, kind: container.TypeInit,
			spec: corev1.Container{RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, want: map[int]bool{0: true, 1: true}},
		{name: "its own policy", policy: always, kind: container.TypeRegular,
			spec: corev1.Container{RestartPolicy: new(corev1.ContainerRestartPolicyNever)}, want: map[int]bool{0: false, 1: false}},
		{name: "a rule", policy: never, kind: container.TypeRegular, spec: corev1.Container{RestartPolicyRules: rule(in, 42)}, want: map[int]bool{0: false, 42: true}},
		{name: "a rule that starts all again starts this one, too", policy: never, kind: container.TypeRegular, spec: corev1.Container{RestartPolicyRules: restartAll(in, 42)}, want: map[int]bool{0: false, 42: true}},
		{name: "a rule that excludes", policy: never, kind: container.TypeRegular, spec: corev1.Container{RestartPolicyRules: rule(notIn, 0, 42)}, want: map[int]bool{0: false, 42: false, 1: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Container{Spec: &tt.spec, Type: tt.kind, policy: tt.policy}
			for code, want := range tt.want {
				if got := c.RestartsOn(code); got != want {
					t.Errorf("exit code %d: %v, want %v", code, got, want)
				}
			}
		})
	}
}

// The first rule that an end meets counts.
func TestNew_RestartAll(t *testing.T) {
	rule := func(action corev1.ContainerRestartRuleAction, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: codes}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a", RestartPolicyRules: []corev1.ContainerRestartRule{rule(corev1.ContainerRestartRuleActionRestart, 1, 2), rule(corev1.ContainerRestartRuleActionRestartAllContainers, 2, 3)}},
		{Name: "b"},
	}}}
	for code, want := range map[int]bool{1: false, 2: false, 3: true, 4: false} {
		p := New(Parts{Pod: pod, Observed: observed.New(container.Pod{}, nil, []*container.Container{
			{ID: "a", Name: "a", State: container.StateExited, ExitCode: code}, {ID: "b", Name: "b", State: container.StateRunning},
		})})
		a, b := p.Find("a"), p.Find("b")
		if p.RestartingAll() != want || a.Stale != want || b.Stale != want || !p.MayRestartAll() {
			t.Errorf("exit code %d: restarting all %v, stale %v and %v, want %v", code, p.RestartingAll(), a.Stale, b.Stale, want)
		}
		if a.EndedForAll(a.Latest) || b.EndedForAll(b.Latest) != want {
			t.Errorf("exit code %d: who had to end is wrong", code)
		}
	}
}

func TestResize(t *testing.T) {
	have := container.Resources{CPUShares: 100, MemoryBytes: 1 << 20, PidsLimit: 7}
	restart := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	tests := []struct {
		name   string
		have   container.Resources
		policy []corev1.ContainerResizePolicy
		want   container.Resources
		asked  string // of memory, when it was made
		asks   string // now
		resize *Resize
		move   *container.Resources
	}{
		{name: "on other CPUs", have: container.Resources{CPUShares: 100, CPUs: "0-1", NUMANodes: "0"}, want: container.Resources{CPUShares: 100, CPUs: "1"},
			move: &container.Resources{CPUShares: 100, CPUs: "1", NUMANodes: "0"}},
		{name: "on any CPUs", have: container.Resources{CPUShares: 100, CPUs: "0-1"}, want: container.Resources{CPUShares: 100}},
		{name: "in place, and on other CPUs", have: have, want: container.Resources{CPUShares: 200, CPUs: "1"},
			resize: &Resize{Want: container.Resources{CPUShares: 200, PidsLimit: 7, CPUs: "1"}},
			move:   &container.Resources{CPUShares: 100, MemoryBytes: 1 << 20, PidsLimit: 7, CPUs: "1"}},
		{name: "the same but for what is not the pod's", have: have, want: container.Resources{CPUShares: 100, MemoryBytes: 1 << 20}},
		{name: "not known", want: container.Resources{CPUShares: 100}},
		{name: "in place", have: have, want: container.Resources{CPUShares: 200, MemoryBytes: 1 << 20},
			resize: &Resize{Want: container.Resources{CPUShares: 200, MemoryBytes: 1 << 20, PidsLimit: 7}}},
		{name: "what has changed needs no restart", have: have, policy: restart, want: container.Resources{CPUShares: 200, MemoryBytes: 1 << 20},
			resize: &Resize{Want: container.Resources{CPUShares: 200, MemoryBytes: 1 << 20, PidsLimit: 7}}},
		{name: "what has changed needs one", have: have, policy: restart, want: container.Resources{CPUShares: 100, MemoryBytes: 2 << 20},
			resize: &Resize{Want: container.Resources{CPUShares: 100, MemoryBytes: 2 << 20, PidsLimit: 7}, Restart: true}},
		{name: "asks for other memory", have: have, policy: restart, want: have, asked: "1Mi", asks: "512Ki", resize: &Resize{Want: have, Restart: true}},
		{name: "asks for no memory any more", have: have, policy: restart, want: have, asked: "1Mi", asks: "0", resize: &Resize{Want: have, Restart: true}},
		{name: "asks for as much", have: have, policy: restart, want: have, asked: "1Mi", asks: "1024Ki"},
		{name: "what it asked for is not known", have: have, policy: restart, want: have, asks: "1Mi"},
		{name: "asks for other memory, which needs no restart", have: have, want: have, asked: "1Mi", asks: "512Ki"},
	}
	asking := func(policy []corev1.ContainerResizePolicy, memory string) *corev1.Container {
		c := &corev1.Container{ResizePolicy: policy}
		if memory != "" {
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		}
		return c
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &container.Container{Resources: tt.have}
			if tt.asked != "" {
				c.Labels = Labels(asking(tt.policy, tt.asked), 0)
			}
			if diff := cmp.Diff(tt.resize, resize(c, asking(tt.policy, tt.asks), tt.want)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.move, move(c, tt.want)); diff != "" {
				t.Errorf("move (-want +got):\n%s", diff)
			}
		})
	}
}
