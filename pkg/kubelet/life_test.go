// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// events returns reason and message of a pod's events once one with the reason is there.
func (w *world) events(reason string) []string {
	w.t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		list, err := w.client.CoreV1().Events("ns").List(context.Background(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		var out []string
		found := false
		for _, e := range list.Items {
			out = append(out, e.Reason+": "+e.Message)
			found = found || e.Reason == reason
		}
		if found {
			return out
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no event %s in %q", reason, out)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func waitingFor(reason string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == reason
	}
}

func order(calls []fake.Call) []string {
	var out []string
	for _, c := range calls {
		out = append(out, c.Op+" "+c.Container)
	}
	return out
}

func TestInitContainersAndSidecars(t *testing.T) {
	w := newWorld(t, fake.Config{Program: func(c container.ContainerConfig) fake.Program {
		if strings.HasPrefix(c.Name, "init") {
			return func(context.Context, fake.Process) int { return 0 }
		}
		return nil
	}})
	stop := w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init1", Image: "img"}, {Name: "side1", Image: "img", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
			{Name: "init2", Image: "img"}, {Name: "side2", Image: "img", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
	}))
	w.await("ready", "a", ready)
	want := []string{"StartContainer init1", "StartContainer side1", "StartContainer init2", "StartContainer side2", "StartContainer c"}
	if got := order(w.runtime.Calls("StartContainer")); !slices.Equal(got, want) {
		t.Errorf("started %v, want %v", got, want)
	}
	w.remove("a")
	w.await("gone", "a", func(p *corev1.Pod) bool { return p == nil })
	want = []string{"StopContainer c", "StopContainer side2", "StopContainer side1"}
	if got := order(w.runtime.Calls("StopContainer")); !slices.Equal(got, want) {
		t.Errorf("stopped %v, want %v", got, want)
	}
	stop()
}

func TestLivenessRestarts(t *testing.T) {
	w := newWorld(t, fake.Config{Exec: func(_ context.Context, c *container.Container, _ container.ExecOptions) (int, error) {
		if c.Attempt == 0 {
			return 1, nil
		}
		return 0, nil
	}})
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}},
			PeriodSeconds: 1, FailureThreshold: 1, TerminationGracePeriodSeconds: new(int64(1))}
	}))
	w.await("restarted", "a", func(p *corev1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	if got := w.events("Killing"); !slices.Contains(got, "Killing: Container c failed liveness probe, will be restarted") || !slices.Contains(got, "Unhealthy: Liveness probe failed: ") {
		t.Errorf("events %q", got)
	}
}

// TestReadinessWhileStopping: a pod that is being stopped is ready for as long as it says so, also to the kubelet that comes after.
func TestReadinessWhileStopping(t *testing.T) {
	var unready atomic.Bool
	w := newWorld(t, fake.Config{Exec: func(context.Context, *container.Container, container.ExecOptions) (int, error) {
		if unready.Load() {
			return 1, nil
		}
		return 0, nil
	}})
	stop := w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}, PeriodSeconds: 1, FailureThreshold: 1}
	}))
	w.await("ready", "a", ready)
	release := w.runtime.Hang("StopContainer", "")
	defer release()
	w.remove("a")
	for len(w.runtime.Calls("StopContainer")) == 0 {
		<-time.After(time.Millisecond)
	}
	unready.Store(true)
	w.await("not ready while it is stopped", "a", func(p *corev1.Pod) bool { return p != nil && p.DeletionTimestamp != nil && !ready(p) })
	unready.Store(false)
	w.await("ready again", "a", func(p *corev1.Pod) bool { return p != nil && ready(p) })
	stop()
	w.start()
	unready.Store(true)
	w.await("not ready, by another kubelet", "a", func(p *corev1.Pod) bool { return p != nil && !ready(p) })
	release()
	w.await("gone", "a", func(p *corev1.Pod) bool { return p == nil })
}

func TestHooks(t *testing.T) {
	ran := make(chan string, 10)
	w := newWorld(t, fake.Config{Exec: func(_ context.Context, _ *container.Container, o container.ExecOptions) (int, error) {
		ran <- o.Command[0]
		if o.Command[0] == "pre" {
			return 7, nil
		}
		return 0, nil
	}})
	w.start()
	hook := func(name string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{name}}}
	}
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: hook("post"), PreStop: hook("pre")}
	}))
	w.await("ready", "a", ready)
	w.remove("a")
	w.await("gone", "a", func(p *corev1.Pod) bool { return p == nil })
	if a, b := <-ran, <-ran; a != "post" || b != "pre" || len(ran) > 0 {
		t.Errorf("hooks ran: %s %s and %d more", a, b, len(ran))
	}
	if got := w.events("FailedPreStopHook"); !slices.Contains(got, "FailedPreStopHook: PreStopHook failed") || !slices.Contains(got, "Killing: Stopping container c") ||
		!slices.Contains(got, "Created: Container created") || !slices.Contains(got, "Started: Container started") {
		t.Errorf("events %q", got)
	}
}

func TestFailedPostStart(t *testing.T) {
	w := newWorld(t, fake.Config{Exec: func(context.Context, *container.Container, container.ExecOptions) (int, error) { return 1, nil }})
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	}))
	w.await("in back-off", "a", waitingFor("CrashLoopBackOff"))
	if got := w.events("FailedPostStartHook"); !slices.Contains(got, "FailedPostStartHook: PostStartHook failed") {
		t.Errorf("events %q", got)
	}
}

func TestConfigError(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*corev1.Pod)
		message string
	}{
		{"missing config map", func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Key: "k"}}}}
		}, `configmaps "cm" not found`},
		{"root image", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
		}, `container has runAsNonRoot and image will run as root (pod: "a_ns(uid-a)", container: c)`},
		{"root user", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}
		}, `container's runAsUser breaks non-root policy (pod: "a_ns(uid-a)", container: c)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{})
			w.start()
			w.create(newPod("a", tt.change))
			p := w.await("waiting", "a", waitingFor("CreateContainerConfigError"))
			if got := p.Status.ContainerStatuses[0].State.Waiting.Message; got != tt.message {
				t.Errorf("message %q, want %q", got, tt.message)
			}
			if p.Status.Phase != corev1.PodPending {
				t.Errorf("phase %s", p.Status.Phase)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1)) }))
	p := w.await("failed", "a", phase(corev1.PodFailed))
	if p.Status.Reason != "DeadlineExceeded" || p.Status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("reason %q message %q", p.Status.Reason, p.Status.Message)
	}
	if c := w.runtime.Find("uid-a", "c"); c != nil && c.State == container.StateRunning { // a slow machine has not made it
		t.Error("its container still runs")
	}
}

func TestSandboxLost(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", nil))
	w.await("ready", "a", ready)
	old := w.runtime.FindSandbox("uid-a").ID
	w.runtime.KillSandbox(old)
	p := w.await("back", "a", func(p *corev1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	if sb := w.runtime.FindSandbox("uid-a"); sb.ID == old || sb.Attempt != 1 {
		t.Errorf("sandbox %+v", sb)
	}
	if p.Status.PodIP != "10.1.0.2" {
		t.Errorf("pod IP %s: the old sandbox's is to be given back", p.Status.PodIP)
	}
	if w.network.Addresses(old) != nil {
		t.Error("the old sandbox keeps its address")
	}
}

// TestSandboxDead: an engine that keeps what it should remove holds up neither the next sandbox nor the end of the pod.
func TestSandboxDead(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", nil))
	w.await("ready", "a", ready)
	for _, op := range []string{"RemoveSandbox", "RemoveContainer"} {
		w.runtime.Fail(op, fmt.Errorf("%w: device or resource busy", container.ErrDead))
	}
	w.runtime.KillSandbox(w.runtime.FindSandbox("uid-a").ID)
	w.await("back", "a", func(p *corev1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	w.remove("a")
	w.await("gone", "a", func(p *corev1.Pod) bool { return p == nil })
}

func TestImageUpdate(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", nil))
	p := w.await("ready", "a", ready)
	p.Spec.Containers[0].Image, p.Generation = "img2", 2
	if _, err := w.client.CoreV1().Pods("ns").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p = w.await("updated", "a", func(p *corev1.Pod) bool {
		return ready(p) && p.Status.ContainerStatuses[0].Image == "img2" && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	if p.Status.ObservedGeneration != 2 || p.Status.Conditions[0].ObservedGeneration != 2 {
		t.Errorf("observed generation %d", p.Status.ObservedGeneration)
	}
}

func TestSecondDeletionShortensGrace(t *testing.T) {
	w := newWorld(t, fake.Config{Program: func(container.ContainerConfig) fake.Program {
		return func(ctx context.Context, _ fake.Process) int { <-ctx.Done(); return 137 } // deaf to SIGTERM
	}})
	w.start()
	w.create(newPod("a", nil))
	p := w.await("running", "a", ready)
	began := time.Now()
	for _, grace := range []int64{600, 1} {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}, &grace
		if _, err := w.client.CoreV1().Pods("ns").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if grace == 600 {
			w.events("Killing")
		}
	}
	w.await("gone", "a", func(p *corev1.Pod) bool { return p == nil })
	if d := time.Since(began); d > 12*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestEphemeralContainer(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", nil))
	p := w.await("ready", "a", ready)
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "c", EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "img"}}}
	if _, err := w.client.CoreV1().Pods("ns").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("debugged", "a", func(p *corev1.Pod) bool {
		return len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Running != nil
	})
	target := w.runtime.Find("uid-a", "c").ID
	for _, c := range w.runtime.Calls("CreateContainer") {
		if cfg, ok := c.Arg.(container.ContainerConfig); ok && cfg.Name == "debug" && cfg.PIDTarget != target {
			t.Errorf("processes of %q, want %q", cfg.PIDTarget, target)
		}
	}
}

func TestNode(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.runtime.SetUnavailable(true)
	w.start()
	condition := func(status corev1.ConditionStatus, message string) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		var last *corev1.Node
		for time.Now().Before(deadline) {
			n, err := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
			if err == nil {
				last = n
				for _, c := range n.Status.Conditions {
					if c.Type == corev1.NodeReady && c.Status == status && strings.Contains(c.Message, message) {
						return
					}
				}
			}
			<-time.After(10 * time.Millisecond)
		}
		t.Fatalf("node is not %s: %+v", status, last)
	}
	condition(corev1.ConditionFalse, "container runtime")
	w.runtime.SetUnavailable(false)
	condition(corev1.ConditionTrue, "kubelet is posting ready status")
	n, err := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n.Status.Capacity.Pods().Value() != 110 || n.Labels[corev1.LabelHostname] != "n1" || n.Labels["beta.kubernetes.io/os"] != "linux" || len(n.Status.Addresses) != 2 {
		t.Errorf("node %+v", n)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		l, err := w.client.CoordinationV1().Leases("kube-node-lease").Get(context.Background(), "n1", metav1.GetOptions{})
		if err == nil && *l.Spec.LeaseDurationSeconds == 40 && len(l.OwnerReferences) == 1 && l.OwnerReferences[0].Name == "n1" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("lease %+v, %v", l, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestRuntimeClass(t *testing.T) {
	w := newWorld(t, fake.Config{})
	for name, handler := range map[string]string{"known": "runc", "unknown": "no-such-handler"} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
		if _, err := w.client.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("known") }))
	w.await("ready", "a", ready)
	if got := w.runtime.Calls("CreateSandbox")[0].Arg.(container.SandboxConfig).Handler; got != "runc" {
		t.Errorf("handler is %q", got)
	}
	w.create(newPod("b", func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("unknown") }))
	if got := w.events("FailedCreatePodSandBox"); !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, "no-such-handler") }) {
		t.Errorf("events %q", got)
	}
}

// TestNetworkToCome: while there is no network to connect pods to, the node is not ready, and runs pods of its own network.
func TestNetworkToCome(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.network.misses(errors.New("no configuration"))
	w.start()
	w.create(newPod("host", func(p *corev1.Pod) { p.Spec.HostNetwork = true }))
	w.await("ready without a network", "host", ready)
	w.create(newPod("waits", nil))
	if got := w.events("NetworkNotReady"); !slices.Contains(got, "NetworkNotReady: network is not ready: container runtime network not ready: no configuration") {
		t.Errorf("events %q", got)
	}
	is := func(status corev1.ConditionStatus, message string) func(*corev1.Node) bool {
		return func(n *corev1.Node) bool {
			return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == status && c.Message == message
			})
		}
	}
	w.awaitNode(is(corev1.ConditionFalse, "container runtime network not ready: no configuration"))
	w.network.misses(nil)
	w.awaitNode(is(corev1.ConditionTrue, "kubelet is posting ready status"))
	w.await("ready with one", "waits", ready)
}
