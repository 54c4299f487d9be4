// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// probe is a plugin from outside that does what a test says; what it does not say
// succeeds.
type probe struct {
	name      string
	handle    fwk.Handle
	reserve   func(*corev1.Pod) *fwk.Status
	unreserve func(*corev1.Pod)
	permit    func(*corev1.Pod) (*fwk.Status, time.Duration)
	preFlight func(*corev1.Pod) *fwk.Status
	preBind   func(context.Context, *corev1.Pod) *fwk.Status
	postBind  func(*corev1.Pod)
}

func (p *probe) Name() string { return p.name }

func (p *probe) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if p.reserve == nil {
		return nil
	}
	return p.reserve(pod)
}

func (p *probe) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	if p.unreserve != nil {
		p.unreserve(pod)
	}
}

func (p *probe) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	if p.permit == nil {
		return nil, 0
	}
	return p.permit(pod)
}

func (p *probe) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if p.preFlight != nil {
		return nil, p.preFlight(pod)
	}
	if p.preBind == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

func (p *probe) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	return p.preBind(ctx, pod)
}

func (p *probe) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	if p.postBind != nil {
		p.postBind(pod)
	}
}

// with is a configuration with the probes in the default profile.
func with(probes ...*probe) Config {
	registry := framework.Registry{}
	profile := configv1.KubeSchedulerProfile{Plugins: &configv1.Plugins{}}
	for _, p := range probes {
		registry[p.name] = func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			p.handle = h
			return p, nil
		}
		profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, configv1.Plugin{Name: p.name})
	}
	return Config{Registry: registry, Configuration: &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{profile}}}
}

func holdFor(d time.Duration) func(*corev1.Pod) (*fwk.Status, time.Duration) {
	return func(*corev1.Pod) (*fwk.Status, time.Duration) { return fwk.NewStatus(fwk.Wait), d }
}

// awaitWaiting returns the pod that a Permit plugin holds.
func (c cluster) awaitWaiting(p *probe, name string) (w fwk.WaitingPod) {
	c.Helper()
	c.await("pod "+name+" to wait", func() bool {
		w = p.handle.GetWaitingPod(c.pod(name).UID)
		return w != nil
	})
	return w
}

func (c cluster) awaitNomination(name, node string) {
	c.Helper()
	c.await(fmt.Sprintf("pod %s nominated to %q", name, node), func() bool { return c.pod(name).Status.NominatedNodeName == node })
}

func TestPermit_Allow(t *testing.T) {
	bound := make(chan string, 1)
	first := &probe{name: "First", permit: holdFor(time.Hour), postBind: func(p *corev1.Pod) { bound <- p.Name }}
	second := &probe{name: "Second", permit: holdFor(time.Hour)}
	c := start(t, with(first, second), pt.Node("n"), pt.Pod("p"))
	w := c.awaitWaiting(first, "p")
	w.Allow("First")
	if got := w.GetPendingPlugins(); len(got) != 1 || got[0] != "Second" {
		t.Errorf("pending plugins: %v, want Second", got)
	}
	if c.pod("p").Spec.NodeName != "" {
		t.Fatal("the pod was bound although a plugin holds it")
	}
	w.Allow("Second")
	c.awaitNode("p", "n")
	if got := <-bound; got != "p" {
		t.Errorf("PostBind of %q, want p", got)
	}
	c.await("nobody to wait", func() bool { return first.handle.GetWaitingPod("p") == nil })
}

func TestPermit_Rejected(t *testing.T) {
	for _, tc := range []struct {
		name, message string
		permit        func(*corev1.Pod) (*fwk.Status, time.Duration)
		reject        bool
	}{
		{"at once", "0/1 nodes are available: 1 no room for it.", func(*corev1.Pod) (*fwk.Status, time.Duration) {
			return fwk.NewStatus(fwk.Unschedulable, "no room for it"), 0
		}, false},
		{"later", "0/1 nodes are available: 1 no longer wanted.", holdFor(time.Hour), true},
		{"by the clock", "0/1 nodes are available: 1 rejected due to timeout after waiting 10ms at plugin Probe.", holdFor(10 * time.Millisecond), false},
		{"by a failure", `running Permit plugin "Probe": broken`, func(*corev1.Pod) (*fwk.Status, time.Duration) {
			return fwk.AsStatus(errors.New("broken")), 0
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			undone := make(chan string, 100)
			p := &probe{name: "Probe", permit: tc.permit, unreserve: func(p *corev1.Pod) {
				select {
				case undone <- p.Name:
				default:
				}
			}}
			c := start(t, with(p), pt.Node("n"), pt.Pod("p"))
			if tc.reject {
				c.awaitWaiting(p, "p").Reject("Probe", "no longer wanted")
			}
			if got := <-undone; got != "p" {
				t.Errorf("Unreserve of %q", got)
			}
			c.await("the condition", func() bool { return c.condition("p").Message != "" })
			if got := c.condition("p").Message; got != tc.message {
				t.Errorf("condition: %s\nwant: %s", got, tc.message)
			}
		})
	}
}

// A pod that a plugin rejects after it was placed is not woken by its own room that it gave up.
func TestPermit_RejectedWaits(t *testing.T) {
	var asked atomic.Int32
	p := &probe{name: "Probe", permit: func(p *corev1.Pod) (*fwk.Status, time.Duration) {
		if p.Name != "first" {
			return nil, 0
		}
		asked.Add(1)
		return fwk.NewStatus(fwk.Unschedulable, "no"), 0
	}}
	c := start(t, with(p), pt.Node("n"), pt.Pod("first"))
	c.await("the condition", func() bool { return c.condition("first").Message != "" })
	c.create(pt.Pod("second"))
	c.awaitNode("second", "n")
	c.awaitEvent("Scheduled", "Successfully assigned default/second to n")
	if n := asked.Load(); n > 3 { // the second one may help it, for all that is known of the plugin
		t.Errorf("the pod was tried %d times", n)
	}
}

// A pod that is deleted before it is bound gives its room back at once.
func TestPermit_DeletedWhileWaiting(t *testing.T) {
	for _, tc := range []struct {
		name   string
		delete func(cluster) error
	}{
		{"gone", func(c cluster) error {
			return c.client.CoreV1().Pods("default").Delete(c.Context(), "first", metav1.DeleteOptions{})
		}},
		{"terminating", func(c cluster) error {
			p := c.pod("first").DeepCopy()
			p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"example.com/f"}
			_, err := c.client.CoreV1().Pods("default").Update(c.Context(), p, metav1.UpdateOptions{})
			return err
		}},
	} {
		for held, p := range map[string]*probe{
			"held by a plugin": {permit: func(p *corev1.Pod) (*fwk.Status, time.Duration) {
				if p.Name == "first" {
					return fwk.NewStatus(fwk.Wait), time.Hour
				}
				return nil, 0
			}},
			"its node being prepared": {preBind: func(ctx context.Context, p *corev1.Pod) *fwk.Status {
				if p.Name == "first" {
					<-ctx.Done()
				}
				return nil
			}},
		} {
			t.Run(tc.name+", "+held, func(t *testing.T) {
				p.name = "Probe"
				c := start(t, with(p), pt.Node("n", pt.Allocatable("cpu", "1")), pt.Pod("first", pt.Requests("cpu", "1")))
				c.awaitNomination("first", "n")
				c.create(pt.Pod("second", pt.Requests("cpu", "1")))
				c.await("the second to find no room", func() bool { return c.condition("second").Status == corev1.ConditionFalse })
				if err := tc.delete(c); err != nil {
					t.Fatal(err)
				}
				c.awaitNode("second", "n")
			})
		}
	}
}

// Others learn where a pod is going to be while it is not bound yet, unless that is soon, and that it is not going to be there after all.
func TestExpectation(t *testing.T) {
	t.Run("held by a plugin", func(t *testing.T) {
		p := &probe{name: "Probe", permit: holdFor(time.Hour)}
		c := start(t, with(p), pt.Node("n"), pt.Pod("p"))
		c.awaitNomination("p", "n")
		c.awaitWaiting(p, "p").Reject("Probe", "no longer wanted")
		c.awaitNomination("p", "")
	})
	t.Run("its node is being prepared", func(t *testing.T) {
		ready := make(chan struct{})
		c := start(t, with(&probe{name: "Probe", preBind: func(context.Context, *corev1.Pod) *fwk.Status {
			<-ready
			return nil
		}}), pt.Node("n"), pt.Pod("p"))
		c.awaitNomination("p", "n")
		close(ready)
		c.awaitNode("p", "n")
	})
	t.Run("nothing to wait for", func(t *testing.T) {
		c := start(t, with(&probe{name: "Probe"}), pt.Node("n"), pt.Pod("p"))
		c.awaitNode("p", "n")
		for _, a := range c.client.Actions() {
			if a.Matches("patch", "pods/status") {
				t.Errorf("the pod's status was written: %v", a)
			}
		}
	})
}

// A pod that is not bound yet gives its room to one of a higher priority, but is not deleted: it waits for other room.
func TestPreempt_NotBoundYet(t *testing.T) {
	for _, tc := range []struct {
		name    string
		holds   func(*probe)
		isThere func(fwk.Handle) bool // with the room
	}{
		{"held by a plugin", func(p *probe) {
			p.permit = func(pod *corev1.Pod) (*fwk.Status, time.Duration) {
				if pod.Name == "low" {
					return fwk.NewStatus(fwk.Wait), time.Hour
				}
				return nil, 0
			}
		}, func(h fwk.Handle) bool { return h.GetWaitingPod("low") != nil }},
		{"its node is being prepared", func(p *probe) {
			p.preBind = func(ctx context.Context, pod *corev1.Pod) *fwk.Status {
				if pod.Name != "low" {
					return nil
				}
				<-ctx.Done()
				return fwk.AsStatus(context.Cause(ctx))
			}
		}, func(h fwk.Handle) bool { return h.GetPodInPreBind("low") != nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &probe{name: "Probe"}
			tc.holds(p)
			c := start(t, with(p), pt.Node("n", pt.Allocatable("cpu", "1")), pt.Pod("low", pt.Requests("cpu", "1"), pt.Priority(1)))
			c.await("the pod to have the room", func() bool { return tc.isThere(p.handle) })
			c.create(pt.Pod("high", pt.Requests("cpu", "1"), pt.Priority(10)))
			c.awaitNode("high", "n")
			if c.pod("low") == nil {
				t.Fatal("the pod was deleted")
			}
			c.awaitEvent("Preempted", "Preempted by pod high on node n (in kube-scheduler memory).")
			c.await("the pod to find no room", func() bool { return c.condition("low").Reason == corev1.PodReasonUnschedulable })
		})
	}
}

// A pod that a plugin rejects after all have permitted it is told why, and is tried again after a while: no event is waited for.
func TestPreBind_Rejected(t *testing.T) {
	var ready atomic.Bool
	p := &probe{name: "Probe", preBind: func(context.Context, *corev1.Pod) *fwk.Status {
		if !ready.Load() {
			return fwk.NewStatus(fwk.Unschedulable, "not now")
		}
		return nil
	}}
	c := start(t, with(p), pt.Node("n"), pt.Pod("p"))
	c.awaitEvent("FailedScheduling", "not now")
	c.await("the condition", func() bool { return c.condition("p").Message == "not now" })
	if got := c.condition("p").Reason; got != corev1.PodReasonUnschedulable {
		t.Errorf("reason %s, want %s", got, corev1.PodReasonUnschedulable)
	}
	ready.Store(true)
	c.awaitNode("p", "n")
}

// Plugins that allow it prepare a pod at the same time.
func TestPreBind_Parallel(t *testing.T) {
	a, b := make(chan struct{}), make(chan struct{})
	meet := func(mine, other chan struct{}) func(context.Context, *corev1.Pod) *fwk.Status {
		return func(ctx context.Context, _ *corev1.Pod) *fwk.Status {
			close(mine)
			select {
			case <-other:
				return nil
			case <-ctx.Done():
				return fwk.AsStatus(ctx.Err())
			}
		}
	}
	c := start(t, with(&probe{name: "A", preBind: meet(a, b)}, &probe{name: "B", preBind: meet(b, a)}), pt.Node("n"), pt.Pod("p"))
	c.awaitNode("p", "n")
}

// One that fails stops the others: their work would be for nothing.
func TestPreBind_FailureStopsOthers(t *testing.T) {
	broken := &probe{name: "Broken", preBind: func(context.Context, *corev1.Pod) *fwk.Status { return fwk.AsStatus(errors.New("broken")) }}
	stopped := make(chan error, 100)
	slow := &probe{name: "Slow", preBind: func(ctx context.Context, _ *corev1.Pod) *fwk.Status {
		<-ctx.Done()
		select {
		case stopped <- context.Cause(ctx):
		default:
		}
		return fwk.AsStatus(ctx.Err())
	}}
	c := start(t, with(slow, broken), pt.Node("n"), pt.Pod("p"))
	if got := fmt.Sprint(<-stopped); got != "some other PreBind operation failed" {
		t.Errorf("stopped because of %q", got)
	}
	c.awaitEvent("FailedScheduling", `running PreBind plugin "Broken": broken`)
}

// A pod whose preparation cannot begin is not left among those that wait.
func TestPermit_PreFlightFails(t *testing.T) {
	p := &probe{name: "Probe", permit: holdFor(time.Hour), preFlight: func(*corev1.Pod) *fwk.Status { return fwk.AsStatus(errors.New("broken")) }}
	c := start(t, with(p), pt.Node("n"), pt.Pod("p"))
	c.awaitEvent("FailedScheduling", `running PreBindPreFlight "Probe": broken`)
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await("nobody to wait", func() bool {
		n := 0
		p.handle.IterateOverWaitingPods(func(fwk.WaitingPod) { n++ })
		return n == 0
	})
}

// watcher rejects pods until they have an annotation, and is helped by any update.
type watcher struct{ resource fwk.EventResource }

func (watcher) Name() string { return "Watcher" }

func (watcher) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Annotations["go"] == "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not yet")
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

func (watcher) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (w watcher) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: w.resource, ActionType: fwk.Update}}}, nil
}

func watching(resource fwk.EventResource) Config {
	cfg := with(&probe{name: "Watcher"})
	cfg.Registry["Watcher"] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return watcher{resource}, nil }
	return cfg
}

// An update that has no name of its own helps plugins that want to hear of all.
func TestEvents_AnyUpdate(t *testing.T) {
	c := start(t, watching(fwk.Pod), pt.Node("n"), pt.Pod("p"))
	c.await("the condition", func() bool { return c.condition("p").Status == corev1.ConditionFalse })
	p := c.pod("p").DeepCopy()
	p.Annotations = map[string]string{"go": "on"}
	if _, err := c.client.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitNode("p", "n")
}

// What cannot be watched is an error, not an event that never comes.
func TestEvents_CustomResourceNeedsConfig(t *testing.T) {
	cfg := watching("foos.v1.example.com")
	client := fake.NewClientset()
	cfg.Client, cfg.Informers = client, NewInformers(client, nil)
	const want = "a plugin wants events of foos.v1.example.com, for which the scheduler needs KubeConfig"
	if _, err := New(cfg); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
