// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/restart"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// summary is Actions as a test writes them.
type summary struct {
	Finished, Recreate bool
	Sandbox            string   // "create N" or the id in use
	Kill               []string // name: message
	Remove             []string
	Start              []string // name#attempt
	Held               []string // name after delay
	Requeue            time.Duration
}

func summarise(a Actions) summary {
	s := summary{Finished: a.Finished, Recreate: a.Recreate, Requeue: a.Requeue}
	for _, c := range a.Remove {
		s.Remove = append(s.Remove, c.ID)
	}
	if a.CreateSandbox {
		s.Sandbox = fmt.Sprintf("create %d", a.SandboxAttempt)
	} else if a.Sandbox != nil {
		s.Sandbox = a.Sandbox.ID
	}
	for _, k := range a.Kill {
		s.Kill = append(s.Kill, k.Container.Name+": "+k.Message)
	}
	for _, st := range a.Start {
		s.Start = append(s.Start, fmt.Sprintf("%s#%d", st.Of.Spec.Name, st.Attempt))
	}
	for _, h := range a.Held {
		s.Held = append(s.Held, fmt.Sprintf("%s after %s", h.Spec.Name, h.Backoff.Delay))
	}
	return s
}

type podOption func(*corev1.Pod)

func pod(names ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}}
	for _, n := range names {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: n, Image: "i"})
	}
	return p
}

func with(p *corev1.Pod, options ...podOption) *corev1.Pod {
	for _, o := range options {
		o(p)
	}
	return p
}

func policy(r corev1.RestartPolicy) podOption {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = r }
}

func initc(names ...string) podOption {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: n, Image: "i"})
		}
	}
}

func sidecar(n string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: n, Image: "i", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)})
	}
}

// ephemeral adds an ephemeral container of which the API says st.
func ephemeral(st corev1.ContainerStatus) podOption {
	return func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: st.Name}}}
		p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{st}
	}
}

// held is a back-off that lasts on.
func held(name string) map[string]restart.Backoff {
	return map[string]restart.Backoff{name: {Delay: 10 * time.Second, Restarted: now.Add(-20 * time.Second)}}
}

// engine builds what the engine has: "name#attempt=state" with state running, created, unknown or the exit code; a
// leading "old/" puts it into the sandbox before, "r1/" into the second run of the pod.
func engine(t *testing.T, sandbox string, containers ...string) *observed.Pod {
	t.Helper()
	var sandboxes []*container.Sandbox
	switch sandbox {
	case "":
	case "dead":
		sandboxes = []*container.Sandbox{{ID: "old", State: container.StateExited}}
	case "second":
		sandboxes = []*container.Sandbox{{ID: "old", State: container.StateExited}, {ID: "sb", Attempt: 1, State: container.StateRunning}}
	default:
		sandboxes = []*container.Sandbox{{ID: sandbox, State: container.StateRunning}}
	}
	var list []*container.Container
	for _, s := range containers {
		c := &container.Container{SandboxID: "sb", Hash: podspec.Hash(&corev1.Container{Image: "i"}), CreatedAt: now.Add(-time.Minute), FinishedAt: now.Add(-time.Second)}
		if len(s) > 4 && s[:4] == "old/" {
			c.SandboxID, s = "old", s[4:]
		}
		if len(s) > 3 && s[:3] == "r1/" {
			c.Labels, s = snapshot.RunLabels(1), s[3:]
		}
		var state string
		var name string
		for i := range s {
			if s[i] == '#' {
				name = s[:i]
				if _, err := fmt.Sscanf(s[i+1:], "%d=%s", &c.Attempt, &state); err != nil {
					t.Fatalf("%q: %v", s, err)
				}
			}
		}
		c.Name = name
		c.ID = fmt.Sprintf("%s-%d", name, c.Attempt)
		c.Hash = podspec.Hash(&corev1.Container{Name: name, Image: "i"})
		switch state {
		case "running":
			c.State, c.FinishedAt = container.StateRunning, time.Time{}
		case "created":
			c.State, c.FinishedAt = container.StateCreated, time.Time{}
		case "unknown":
			c.State = container.StateUnknown
		default:
			c.State = container.StateExited
			if _, err := fmt.Sscanf(state, "%d", &c.ExitCode); err != nil {
				t.Fatalf("%q: %v", s, err)
			}
		}
		list = append(list, c)
	}
	if len(sandboxes)+len(list) == 0 {
		return nil
	}
	return observed.New(container.Pod{}, sandboxes, list)
}

// all gives containers a rule that starts all again.
func all(operator corev1.ContainerRestartRuleOnExitCodesOperator, code int32, names ...string) podOption {
	return func(p *corev1.Pod) {
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if slices.Contains(names, list[i].Name) {
					if list[i].RestartPolicy == nil {
						list[i].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
					}
					list[i].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers,
						ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: []int32{code}}}}
				}
			}
		}
	}
}

func TestCompute_RestartAll(t *testing.T) {
	in, notIn, never := corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn, policy(corev1.RestartPolicyNever)
	p := with(pod("a", "b"), initc("i"), sidecar("s"), never, all(in, 42, "a"))
	start := func(names ...string) summary { return summary{Sandbox: "sb", Start: names} }
	tests := []struct {
		name       string
		pod        *corev1.Pod
		sandbox    string
		containers []string
		probes     map[string]snapshot.Probe
		want       summary
	}{
		{name: "another end", pod: p, containers: []string{"i#0=0", "s#0=running", "a#0=41", "b#0=running"}, want: summary{Sandbox: "sb"}},
		{name: "what runs ends first, the last one first", pod: p, containers: []string{"i#0=0", "s#0=running", "a#0=42", "b#0=running"},
			want: summary{Sandbox: "sb", Kill: []string{"b: killing", "s: killing"}}},
		{name: "killed in between", pod: p, containers: []string{"i#0=0", "s#0=running", "a#0=42", "b#0=137"}, want: summary{Sandbox: "sb", Kill: []string{"s: killing"}}},
		{name: "all have ended", pod: p, containers: []string{"i#0=0", "s#0=137", "a#0=42", "b#0=137"}, want: start("i#1")},
		{name: "the sidecar's turn", pod: p, containers: []string{"r1/i#1=0", "i#0=0", "s#0=137", "a#0=42", "b#0=137"}, want: start("s#1")},
		{name: "the others' turn", pod: p, containers: []string{"r1/i#1=0", "i#0=0", "r1/s#1=running", "s#0=137", "a#0=42", "b#0=137"}, want: start("a#1", "b#1")},
		{name: "one of them is there", pod: p, containers: []string{"r1/i#1=0", "r1/s#1=running", "r1/a#1=running", "a#0=42", "b#0=137"}, want: start("b#1")},
		{name: "done", pod: p, containers: []string{"r1/i#1=0", "r1/s#1=running", "r1/a#1=running", "a#0=42", "r1/b#1=running", "b#0=137"}, want: summary{Sandbox: "sb"}},
		{name: "once more", pod: p, containers: []string{"r1/i#1=0", "r1/s#1=137", "r1/a#1=42", "a#0=42", "r1/b#1=137"}, want: start("i#2")},
		{name: "ended for good in the new run", pod: p, containers: []string{"r1/i#1=0", "r1/s#1=running", "r1/a#1=0", "r1/b#1=1"}, want: summary{Finished: true}},
		{name: "initialised for the old run only", pod: p, containers: []string{"r1/i#1=running", "i#0=0", "s#0=137", "a#0=42", "b#0=137"}, want: summary{Sandbox: "sb"}},
		{name: "that the others are killed starts nothing again", pod: with(pod("a", "b"), never, all(notIn, 0, "a", "b")),
			containers: []string{"r1/a#1=running", "a#0=42", "b#0=137"}, want: start("b#1")},
		{name: "an init container", pod: with(pod("a"), initc("i"), sidecar("s"), never, all(in, 42, "i")), containers: []string{"i#0=42"}, want: start("i#1")},
		{name: "a sidecar", pod: with(pod("a"), sidecar("s"), never, all(in, 42, "s")), containers: []string{"s#0=42", "a#0=running"},
			want: summary{Sandbox: "sb", Kill: []string{"a: killing"}}},
		{name: "what succeeded runs again", pod: with(pod("a", "b"), policy(corev1.RestartPolicyOnFailure), all(in, 42, "a")), containers: []string{"a#0=42", "b#0=0"}, want: start("a#1", "b#1")},
		{name: "ephemeral containers stay", pod: with(p, func(*corev1.Pod) {}), containers: []string{"i#0=0", "s#0=137", "a#0=42", "b#0=137", "e#0=running"}, want: start("i#1")},
		{name: "the sandbox is lost with it", pod: p, sandbox: "dead", containers: []string{"old/i#0=0", "old/s#0=running", "old/a#0=42", "old/b#0=running"},
			want: summary{Recreate: true, Sandbox: "create 1"}},
		{name: "the sandbox is lost while the init container runs again", pod: p, sandbox: "dead", containers: []string{"old/r1/i#1=running", "old/s#0=137", "old/a#0=42", "old/b#0=137"},
			want: summary{Recreate: true, Sandbox: "create 1"}},
		{name: "a probe ends what may start all again", pod: with(pod("a", "b"), all(notIn, 0, "a")), containers: []string{"a#0=running", "b#0=running"},
			probes: map[string]snapshot.Probe{"a-0": {LivenessFailed: true}},
			want:   summary{Sandbox: "sb", Kill: []string{"a: Container a failed liveness probe, will be restarted"}, Requeue: time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.sandbox == "" {
				tt.sandbox = "sb"
			}
			look := snapshot.New(snapshot.Parts{Pod: tt.pod, Observed: engine(t, tt.sandbox, tt.containers...), Probes: tt.probes, Now: now})
			got := summarise(Compute(look))
			got.Remove = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompute(t *testing.T) {
	tests := []struct {
		name       string
		pod        *corev1.Pod
		sandbox    string
		containers []string
		probes     map[string]snapshot.Probe
		backoff    map[string]restart.Backoff
		want       summary
	}{
		{name: "new", pod: pod("a", "b"), want: summary{Sandbox: "create 0"}},
		{name: "sandbox made", pod: pod("a", "b"), sandbox: "sb", want: summary{Sandbox: "sb", Start: []string{"a#0", "b#0"}}},
		{name: "all run", pod: pod("a", "b"), sandbox: "sb", containers: []string{"a#0=running", "b#3=running"}, want: summary{Sandbox: "sb"}},
		{name: "killed between create and start", pod: pod("a"), sandbox: "sb", containers: []string{"a#2=created"},
			want: summary{Sandbox: "sb", Remove: []string{"a-2"}, Start: []string{"a#2"}}},

		// Restart policies.
		{name: "always restarts success", pod: pod("a"), sandbox: "sb", containers: []string{"a#0=0"}, want: summary{Sandbox: "sb", Start: []string{"a#1"}}},
		{name: "on failure restarts failure", pod: with(pod("a"), policy(corev1.RestartPolicyOnFailure)), sandbox: "sb", containers: []string{"a#0=1"},
			want: summary{Sandbox: "sb", Start: []string{"a#1"}}},
		{name: "on failure ends with success", pod: with(pod("a"), policy(corev1.RestartPolicyOnFailure)), sandbox: "sb", containers: []string{"a#0=0"}, want: summary{Finished: true}},
		{name: "never ends", pod: with(pod("a"), policy(corev1.RestartPolicyNever)), sandbox: "sb", containers: []string{"a#0=1"}, want: summary{Finished: true}},
		{name: "never waits for the others", pod: with(pod("a", "b"), policy(corev1.RestartPolicyNever)), sandbox: "sb", containers: []string{"a#0=1", "b#0=running"}, want: summary{Sandbox: "sb"}},
		{name: "own policy", pod: with(pod("a", "b"), policy(corev1.RestartPolicyAlways), func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		}), sandbox: "sb", containers: []string{"a#0=1", "b#0=1"}, want: summary{Sandbox: "sb", Start: []string{"b#1"}}},
		{name: "own rule", pod: with(pod("a"), policy(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}}
		}), sandbox: "sb", containers: []string{"a#0=42"}, want: summary{Sandbox: "sb", Start: []string{"a#1"}}},
		{name: "forgotten by the engine", pod: with(pod("a"), policy(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", ContainerID: "docker://x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}), want: summary{Finished: true}},
		{name: "forgotten by the engine, restarted", pod: with(pod("a"), func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", ContainerID: "docker://x", RestartCount: 4, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}), sandbox: "sb", want: summary{Sandbox: "sb", Start: []string{"a#5"}}},

		// Back-off.
		{name: "held", pod: pod("a"), sandbox: "sb", containers: []string{"a#1=1"}, backoff: map[string]restart.Backoff{"a": {Delay: 20 * time.Second, Restarted: now.Add(-30 * time.Second)}},
			want: summary{Sandbox: "sb", Held: []string{"a after 20s"}, Requeue: 19 * time.Second}},
		{name: "back-off over", pod: pod("a"), sandbox: "sb", containers: []string{"a#1=1"}, backoff: map[string]restart.Backoff{"a": {Delay: time.Second, Restarted: now.Add(-30 * time.Second)}},
			want: summary{Sandbox: "sb", Start: []string{"a#2"}}},
		{name: "a held container keeps the pod", pod: with(pod("a"), policy(corev1.RestartPolicyOnFailure)), sandbox: "sb", containers: []string{"a#1=1"},
			backoff: map[string]restart.Backoff{"a": {Delay: 20 * time.Second, Restarted: now.Add(-30 * time.Second)}},
			want:    summary{Sandbox: "sb", Held: []string{"a after 20s"}, Requeue: 19 * time.Second}},
		{name: "old attempts are pruned", pod: pod("a"), sandbox: "sb", containers: []string{"a#3=running", "a#2=1", "a#1=1"}, want: summary{Sandbox: "sb", Remove: []string{"a-1"}}},

		// Kills.
		{name: "liveness", pod: pod("a"), sandbox: "sb", containers: []string{"a#0=running"}, probes: map[string]snapshot.Probe{"a-0": {Started: true, LivenessFailed: true}},
			want: summary{Sandbox: "sb", Kill: []string{"a: Container a failed liveness probe, will be restarted"}, Start: []string{"a#1"}}},
		{name: "liveness, never", pod: with(pod("a"), policy(corev1.RestartPolicyNever)), sandbox: "sb", containers: []string{"a#0=running"}, probes: map[string]snapshot.Probe{"a-0": {Started: true, LivenessFailed: true}},
			want: summary{Sandbox: "sb", Kill: []string{"a: Container a failed liveness probe"}}},
		{name: "startup", pod: pod("a"), sandbox: "sb", containers: []string{"a#0=running"}, probes: map[string]snapshot.Probe{"a-0": {StartupFailed: true}},
			want: summary{Sandbox: "sb", Kill: []string{"a: Container a failed startup probe, will be restarted"}, Start: []string{"a#1"}}},
		{name: "liveness in back-off", pod: pod("a"), sandbox: "sb", containers: []string{"a#1=running"}, probes: map[string]snapshot.Probe{"a-1": {LivenessFailed: true}},
			backoff: map[string]restart.Backoff{"a": {Delay: 10 * time.Second, Restarted: now.Add(-30 * time.Second)}},
			want:    summary{Sandbox: "sb", Kill: []string{"a: Container a failed liveness probe, will be restarted"}, Requeue: time.Second}},
		{name: "new image", pod: with(pod("a", "b"), policy(corev1.RestartPolicyNever), func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }), sandbox: "sb", containers: []string{"a#0=running", "b#0=running"},
			want: summary{Sandbox: "sb", Kill: []string{"a: Container a definition changed, will be restarted"}, Start: []string{"a#1"}}},
		{name: "new image, in back-off", pod: with(pod("a"), func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }), sandbox: "sb", containers: []string{"a#1=running"},
			backoff: map[string]restart.Backoff{"a": {Delay: 10 * time.Second, Restarted: now.Add(-30 * time.Second)}},
			want:    summary{Sandbox: "sb", Kill: []string{"a: Container a definition changed, will be restarted"}, Start: []string{"a#2"}}},
		{name: "new image, held", pod: with(pod("a"), func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }), sandbox: "sb", containers: []string{"a#1=1"},
			backoff: map[string]restart.Backoff{"a": {Delay: 20 * time.Second, Restarted: now.Add(-30 * time.Second)}},
			want:    summary{Sandbox: "sb", Start: []string{"a#2"}}},
		{name: "unknown state", pod: pod("a"), sandbox: "sb", containers: []string{"a#0=unknown"},
			want: summary{Sandbox: "sb", Kill: []string{`a: Container is in "unknown" state, try killing it before restart`}, Requeue: time.Second}},

		// Sandbox lost.
		{name: "sandbox lost", pod: pod("a"), sandbox: "dead", containers: []string{"old/a#0=running"}, want: summary{Recreate: true, Sandbox: "create 1"}},
		{name: "sandbox lost, never", pod: with(pod("a"), policy(corev1.RestartPolicyNever)), sandbox: "dead", containers: []string{"old/a#0=running"}, want: summary{Finished: true}},
		{name: "sandbox lost, all succeeded", pod: with(pod("a"), policy(corev1.RestartPolicyOnFailure)), sandbox: "dead", containers: []string{"old/a#0=0"}, want: summary{Finished: true}},
		{name: "sandbox lost, all succeeded after initialisation", pod: with(pod("a"), initc("i"), policy(corev1.RestartPolicyOnFailure)), sandbox: "dead", containers: []string{"old/i#0=0", "old/a#0=0"},
			want: summary{Finished: true}},
		{name: "sandbox lost, one failed", pod: with(pod("a", "b"), initc("i"), policy(corev1.RestartPolicyOnFailure)), sandbox: "dead", containers: []string{"old/i#0=0", "old/a#0=0", "old/b#0=1"},
			want: summary{Recreate: true, Sandbox: "create 1"}},
		{name: "sandbox lost, never, one was not made yet", pod: with(pod("a", "b"), initc("i"), policy(corev1.RestartPolicyNever)), sandbox: "dead", containers: []string{"old/i#0=0", "old/a#0=0"},
			want: summary{Finished: true}},
		{name: "sandbox lost, never, initialised", pod: with(pod("a"), initc("i"), policy(corev1.RestartPolicyNever)), sandbox: "dead", containers: []string{"old/i#0=0"}, want: summary{Finished: true}},
		{name: "sandbox lost, never, initialising", pod: with(pod("a"), initc("i"), policy(corev1.RestartPolicyNever)), sandbox: "dead", containers: []string{"old/i#0=running"}, want: summary{Finished: true}},
		{name: "sandbox lost, never, nothing ran", pod: with(pod("a"), initc("i"), policy(corev1.RestartPolicyNever)), sandbox: "dead", containers: []string{"old/i#0=created"},
			want: summary{Recreate: true, Sandbox: "create 1"}},
		{name: "new sandbox initialises anew", pod: with(pod("a"), initc("i")), sandbox: "second", containers: []string{"old/i#0=0", "old/a#0=137"}, want: summary{Sandbox: "sb", Start: []string{"i#1"}}},

		// Init containers.
		{name: "first init", pod: with(pod("a"), initc("i", "j")), sandbox: "sb", want: summary{Sandbox: "sb", Start: []string{"i#0"}}},
		{name: "init runs", pod: with(pod("a"), initc("i", "j")), sandbox: "sb", containers: []string{"i#0=running"}, want: summary{Sandbox: "sb"}},
		{name: "second init", pod: with(pod("a"), initc("i", "j")), sandbox: "sb", containers: []string{"i#0=0"}, want: summary{Sandbox: "sb", Start: []string{"j#0"}}},
		{name: "inits done", pod: with(pod("a"), initc("i", "j")), sandbox: "sb", containers: []string{"i#0=0", "j#0=0"}, want: summary{Sandbox: "sb", Start: []string{"a#0"}}},
		{name: "init failed, always", pod: with(pod("a"), initc("i")), sandbox: "sb", containers: []string{"i#0=1"}, want: summary{Sandbox: "sb", Start: []string{"i#1"}}},
		{name: "init failed, held", pod: with(pod("a"), initc("i")), sandbox: "sb", containers: []string{"i#1=1"}, backoff: map[string]restart.Backoff{"i": {Delay: 10 * time.Second, Restarted: now.Add(-20 * time.Second)}},
			want: summary{Sandbox: "sb", Held: []string{"i after 10s"}, Requeue: 9 * time.Second}},
		{name: "init failed, never", pod: with(pod("a"), initc("i"), policy(corev1.RestartPolicyNever)), sandbox: "sb", containers: []string{"i#0=1"}, want: summary{Finished: true}},
		{name: "initialised, inits removed", pod: with(pod("a"), initc("i")), sandbox: "sb", containers: []string{"a#0=running"}, want: summary{Sandbox: "sb"}},

		// Sidecars.
		{name: "sidecar first", pod: with(pod("a"), sidecar("s"), initc("i")), sandbox: "sb", want: summary{Sandbox: "sb", Start: []string{"s#0"}}},
		{name: "sidecar has started", pod: with(pod("a"), sidecar("s"), initc("i")), sandbox: "sb", containers: []string{"s#0=running"}, want: summary{Sandbox: "sb", Start: []string{"i#0"}}},
		{name: "sidecar not started yet", pod: with(pod("a"), sidecar("s"), initc("i")), sandbox: "sb", containers: []string{"s#0=running"}, probes: map[string]snapshot.Probe{"s-0": {}},
			want: summary{Sandbox: "sb"}},
		{name: "sidecar restarts beside the others", pod: with(pod("a"), sidecar("s")), sandbox: "sb", containers: []string{"s#0=0", "a#0=running"}, want: summary{Sandbox: "sb", Start: []string{"s#1"}}},
		{name: "sidecars do not keep a pod", pod: with(pod("a"), sidecar("s"), policy(corev1.RestartPolicyNever)), sandbox: "sb", containers: []string{"s#0=running", "a#0=0"}, want: summary{Finished: true}},
		{name: "sidecar fails its startup probe", pod: with(pod("a"), sidecar("s"), policy(corev1.RestartPolicyNever)), sandbox: "sb", containers: []string{"s#0=running"}, probes: map[string]snapshot.Probe{"s-0": {StartupFailed: true}},
			want: summary{Sandbox: "sb", Kill: []string{"s: Init container s failed startup probe"}, Start: []string{"s#1"}}},
		{name: "sidecar fails its liveness probe", pod: with(pod("a"), sidecar("s")), sandbox: "sb", containers: []string{"s#0=running", "a#0=running"}, probes: map[string]snapshot.Probe{"s-0": {Started: true, LivenessFailed: true}},
			want: summary{Sandbox: "sb", Kill: []string{"s: Init container s failed liveness probe"}, Start: []string{"s#1"}}},
		{name: "sidecar crashes before the next one", pod: with(pod("a"), sidecar("s"), initc("i")), sandbox: "sb", containers: []string{"s#1=1"}, backoff: held("s"), want: summary{Sandbox: "sb", Held: []string{"s after 10s"}, Requeue: 9 * time.Second}},
		{name: "sidecar crashes beside the next one, which has ended", pod: with(pod("a"), sidecar("s"), initc("i")), sandbox: "sb", containers: []string{"s#1=1", "i#0=0"}, backoff: held("s"),
			want: summary{Sandbox: "sb", Held: []string{"s after 10s"}, Requeue: 9 * time.Second, Start: []string{"a#0"}}},
		{name: "sidecar crashes beside the next one, which has failed", pod: with(pod("a"), sidecar("s"), initc("i")), sandbox: "sb", containers: []string{"s#1=1", "i#0=1"}, backoff: held("s"),
			want: summary{Sandbox: "sb", Held: []string{"s after 10s"}, Requeue: 9 * time.Second, Start: []string{"i#1"}}},
		{name: "sidecar starts anew beside the next one, which has failed for good", pod: with(pod("a"), sidecar("s"), initc("i"), policy(corev1.RestartPolicyNever)), sandbox: "sb", containers: []string{"s#1=running", "i#0=1"},
			probes: map[string]snapshot.Probe{"s-1": {}}, want: summary{Finished: true}},

		// Init containers that somebody has removed.
		{name: "removed beside the next one", pod: with(pod("a"), initc("i", "j")), sandbox: "sb", containers: []string{"j#0=running"}, want: summary{Sandbox: "sb"}},
		{name: "removed, the next one has ended", pod: with(pod("a"), initc("i", "j")), sandbox: "sb", containers: []string{"j#0=0"}, want: summary{Sandbox: "sb", Start: []string{"a#0"}}},
		{name: "removed with the sandbox", pod: with(pod("a"), initc("i", "j")), sandbox: "second", containers: []string{"old/j#0=0"}, want: summary{Sandbox: "sb", Start: []string{"i#0"}}},

		// Ephemeral containers.
		{name: "ephemeral", pod: with(pod("a"), func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
		}), sandbox: "sb", containers: []string{"a#0=running"}, want: summary{Sandbox: "sb", Start: []string{"e#0"}}},
		{name: "ephemeral never restarts", pod: with(pod("a"), func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
		}), sandbox: "sb", containers: []string{"a#0=running", "e#0=1"}, want: summary{Sandbox: "sb"}},
		{name: "ephemeral, its image could not be pulled", pod: with(pod("a"), ephemeral(corev1.ContainerStatus{Name: "e", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}})),
			sandbox: "sb", containers: []string{"a#0=running"}, want: summary{Sandbox: "sb", Start: []string{"e#0"}}},
		{name: "ephemeral, it ran and was removed", pod: with(pod("a"), ephemeral(corev1.ContainerStatus{Name: "e", ContainerID: "docker://x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})),
			sandbox: "sb", containers: []string{"a#0=running"}, want: summary{Sandbox: "sb"}},
		{name: "ephemeral, it ended and was removed", pod: with(pod("a"), ephemeral(corev1.ContainerStatus{Name: "e", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}})),
			sandbox: "sb", containers: []string{"a#0=running"}, want: summary{Sandbox: "sb"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			look := snapshot.New(snapshot.Parts{Pod: tt.pod, Observed: engine(t, tt.sandbox, tt.containers...), Probes: tt.probes, Backoff: tt.backoff, Now: now})
			if diff := cmp.Diff(tt.want, summarise(Compute(look))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
