// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// cluster is a scheduler on a fake API that keeps bindings.
type cluster struct {
	*testing.T
	client *fake.Clientset
}

// start runs a scheduler until the test ends.
func start(t *testing.T, cfg Config, objects ...runtime.Object) cluster {
	t.Helper()
	client := newClient(objects...)
	keepBindings(client)
	return startOn(t, client, cfg)
}

// startOn runs a scheduler on an API that is there, until the test ends.
func startOn(t *testing.T, client *fake.Clientset, cfg Config) cluster {
	t.Helper()
	c, stop := startUntil(t, client, cfg)
	t.Cleanup(stop)
	return c
}

// startUntil runs a scheduler until it is stopped.
func startUntil(t *testing.T, client *fake.Clientset, cfg Config) (c cluster, stop func()) {
	t.Helper()
	cfg.Client = client
	cfg.Informers = NewInformers(client, nil)
	cfg.Seed = 1
	cfg.initialBackoff = time.Millisecond
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cfg.Informers.Start(ctx.Done())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	return cluster{t, client}, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
		cfg.Informers.Shutdown()
	}
}

// newClient returns a fake API whose watches give out copies: what has changed
// between a list and its watch is given out as it is stored, and informers change
// what they get.
func newClient(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
			e.Object = e.Object.DeepCopyObject()
			return e, true
		}), nil
	})
	return client
}

func keepBindings(client *fake.Clientset) {
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !strings.HasPrefix(action.GetSubresource(), "binding") {
			return false, nil, nil
		}
		b := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		return true, b, bindInTracker(client, b)
	})
}

func bindInTracker(client *fake.Clientset, b *corev1.Binding) error {
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	obj, err := client.Tracker().Get(gvr, b.Namespace, b.Name)
	if err != nil {
		return err
	}
	pod := obj.(*corev1.Pod).DeepCopy()
	pod.Spec.NodeName = b.Target.Name
	return client.Tracker().Update(gvr, pod, b.Namespace)
}

func (c cluster) pod(name string) *corev1.Pod {
	p, err := c.client.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

func (c cluster) await(what string, condition func() bool) {
	c.Helper()
	err := wait.PollUntilContextTimeout(c.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		c.Fatalf("waiting for %s: %v", what, err)
	}
}

func (c cluster) awaitNode(name, node string) {
	c.Helper()
	c.await(fmt.Sprintf("pod %s on node %s", name, node), func() bool {
		p := c.pod(name)
		return p != nil && p.Spec.NodeName == node
	})
}

func (c cluster) awaitEvent(reason, note string) {
	c.Helper()
	c.await(fmt.Sprintf("event %s %q", reason, note), func() bool {
		list, err := c.client.EventsV1().Events("default").List(c.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Note == note && e.ReportingController == corev1.DefaultSchedulerName {
				return true
			}
		}
		return false
	})
}

func (c cluster) condition(name string) corev1.PodCondition {
	if p := c.pod(name); p != nil {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodScheduled {
				return cond
			}
		}
	}
	return corev1.PodCondition{}
}

func TestScheduler_Binds(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := start(t, Config{Registerer: registry},
		pt.Node("full", pt.Allocatable("cpu", "1")),
		pt.Node("free"),
		pt.Pod("there", pt.On("full"), pt.Requests("cpu", "1")),
		pt.Pod("new", pt.Requests("cpu", "1")),
		pt.Pod("foreign", func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }),
	)
	c.awaitNode("new", "free")
	c.awaitEvent("Scheduled", "Successfully assigned default/new to free")
	if p := c.pod("foreign"); p.Spec.NodeName != "" {
		t.Errorf("a pod of another scheduler was put on %s", p.Spec.NodeName)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range families {
		found = found || f.GetName() == "scheduler_schedule_attempts_total"
	}
	if !found {
		t.Error("scheduler_schedule_attempts_total is not registered")
	}
}

func TestScheduler_ReportsAndRetries(t *testing.T) {
	c := start(t, Config{},
		pt.Node("small", pt.Allocatable("cpu", "1")),
		pt.Node("tainted", pt.Taint("k", "v", corev1.TaintEffectNoSchedule)),
		pt.Pod("new", pt.Requests("cpu", "2")),
	)
	const message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). " +
		"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	c.await("the condition", func() bool { return c.condition("new").Status == corev1.ConditionFalse })
	got := c.condition("new")
	if got.Reason != "Unschedulable" || got.Message != message {
		t.Errorf("condition = %s: %s\nwant Unschedulable: %s", got.Reason, got.Message, message)
	}
	c.awaitEvent("FailedScheduling", message)
	if _, err := c.client.CoreV1().Nodes().Create(c.Context(), pt.Node("big"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitNode("new", "big")
}

func TestScheduler_EmptyCluster(t *testing.T) {
	c := start(t, Config{}, pt.Pod("new"))
	c.await("the condition", func() bool { return c.condition("new").Message == "no nodes available to schedule pods" })
	if _, err := c.client.CoreV1().Nodes().Create(c.Context(), pt.Node("first"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitNode("new", "first")
}

func TestScheduler_Preempts(t *testing.T) {
	c := start(t, Config{},
		pt.Node("n", pt.Allocatable("cpu", "2")),
		pt.Pod("low", pt.On("n"), pt.Requests("cpu", "2"), pt.Priority(1)),
		pt.Pod("high", pt.Requests("cpu", "1"), pt.Priority(10)),
	)
	c.awaitNode("high", "n")
	if c.pod("low") != nil {
		t.Error("the victim is still there")
	}
	c.awaitEvent("Preempted", "Preempted by pod high on node n")
	marked := false
	for _, a := range c.client.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok && p.GetName() == "low" && p.GetSubresource() == "status" {
			marked = strings.Contains(string(p.GetPatch()), "PreemptionByScheduler") &&
				strings.Contains(string(p.GetPatch()), "default-scheduler: preempting to accommodate a higher priority pod")
		}
	}
	if !marked {
		t.Error("the victim got no DisruptionTarget condition")
	}
}

// A node on which a pod cannot be bound is not the first one to be tried for ever, although room was made there.
func TestScheduler_NominationEnds(t *testing.T) {
	p := &probe{name: "Probe"}
	// A volume cannot be provisioned there, say.
	p.preBind = func(_ context.Context, pod *corev1.Pod) *fwk.Status {
		if pod.Spec.NodeName == "a" {
			return fwk.AsStatus(errors.New("not here"))
		}
		return nil
	}
	prefersB := func(p *corev1.Pod) {
		p.Status.NominatedNodeName = "a"
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"},
			}}},
		}}}}
	}
	c := start(t, with(p), pt.Node("a"), pt.Node("b"), pt.Pod("p", prefersB))
	c.awaitEvent("FailedScheduling", `running PreBind plugin "Probe": not here`)
	c.awaitNode("p", "b")
}

// Others are kept off a node by what the pod that waits for it asks for now.
func TestOnPod_NominationIsRefreshed(t *testing.T) {
	client := fake.NewClientset()
	s, err := New(Config{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.broadcaster.Shutdown()
	waits := func(cpu, label string) *corev1.Pod {
		return pt.Pod("p", pt.Requests("cpu", cpu), pt.Labels("k", label), func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" })
	}
	s.onPod(t.Context(), nil, waits("2", "before"))
	s.onPod(t.Context(), waits("2", "before"), waits("1", "after"))
	on := s.nominated.On("n")
	if len(on) != 1 {
		t.Fatalf("%d pods wait for the node, want one", len(on))
	}
	if cpu, label := on[0].CalculateResource().Resource.GetMilliCPU(), on[0].GetPod().Labels["k"]; cpu != 1000 || label != "after" {
		t.Errorf("known to ask for %dm, labelled %q", cpu, label)
	}
}

// Without a plugin that looks for a way out a pod waits for no node any more when it fits nowhere.
func TestScheduler_NominationEndsWithoutPostFilter(t *testing.T) {
	cfg := with()
	cfg.Configuration.Profiles[0].Plugins.PostFilter.Disabled = []configv1.Plugin{{Name: "*"}}
	c := start(t, cfg, pt.Node("n", pt.Allocatable("cpu", "1")), pt.Pod("p", pt.Requests("cpu", "2"), func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" }))
	c.await("the condition", func() bool { return c.condition("p").Reason == corev1.PodReasonUnschedulable })
	c.awaitNomination("p", "")
}

// Who was kept away by a pod that waited for a node hears when that gives it up.
func TestScheduler_NominationFreesRoom(t *testing.T) {
	never := func(p *corev1.Pod) {
		p.Status.NominatedNodeName = "n"
		p.Spec.PreemptionPolicy = new(corev1.PreemptNever)
		p.Spec.NodeSelector = map[string]string{"nowhere": "yes"}
	}
	c := start(t, Config{}, pt.Node("n", pt.Allocatable("cpu", "1")),
		pt.Pod("high", pt.Requests("cpu", "1"), pt.Priority(10), never), pt.Pod("low", pt.Requests("cpu", "1"), pt.Priority(1)))
	for _, name := range []string{"high", "low"} {
		c.await(name+" to fit nowhere", func() bool { return c.condition(name).Reason == corev1.PodReasonUnschedulable })
	}
	high := c.pod("high").DeepCopy()
	high.Status.NominatedNodeName = ""
	if _, err := c.client.CoreV1().Pods("default").UpdateStatus(c.Context(), high, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitNode("low", "n")
}

func TestScheduler_SaysThatItSkips(t *testing.T) {
	c := start(t, Config{}, pt.Node("n"), pt.Pod("p", func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"example.com/f"}
	}))
	c.awaitEvent("FailedScheduling", "skip schedule deleting pod: default/p")
}

func TestScheduler_Gates(t *testing.T) {
	gated := pt.Pod("gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	c := start(t, Config{}, pt.Node("n"), gated, pt.Pod("plain"))
	c.awaitNode("plain", "n")
	p := c.pod("gated")
	if p.Spec.NodeName != "" {
		t.Fatal("a gated pod was bound")
	}
	p.Spec.SchedulingGates = nil
	if _, err := c.client.CoreV1().Pods("default").Update(c.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitNode("gated", "n")
}

func TestScheduler_RetriesBinding(t *testing.T) {
	client := newClient(pt.Node("n"), pt.Pod("p"))
	keepBindings(client)
	refused := false
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if strings.HasPrefix(a.GetSubresource(), "binding") && !refused {
			refused = true
			return true, nil, errors.New("refused")
		}
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	s, err := New(Config{Client: client, Informers: factory, initialBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	c := cluster{t, client}
	c.awaitNode("p", "n")
	c.awaitEvent("FailedScheduling", `running Bind plugin "DefaultBinder": refused`)
	c.await("the cache to be confirmed", func() bool {
		nodes, pods, assumed := s.cache.Counts()
		return nodes == 1 && pods == 1 && assumed == 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	factory.Shutdown()
}

// The answer to a Binding gets lost, but the pod is bound: its room stays taken
// and the pod is not tried again.
func TestScheduler_LostBinding(t *testing.T) {
	client := newClient(pt.Node("n"), pt.Pod("p"))
	bindings := 0
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if !strings.HasPrefix(a.GetSubresource(), "binding") {
			return false, nil, nil
		}
		bindings++
		b := a.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		if err := bindInTracker(client, b); err != nil {
			return true, nil, err
		}
		return true, nil, errors.New("connection reset by peer")
	})
	factory := NewInformers(client, nil)
	s, err := New(Config{Client: client, Informers: factory, initialBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	c := cluster{t, client}
	c.awaitNode("p", "n")
	c.awaitEvent("Scheduled", "Successfully assigned default/p to n")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	factory.Shutdown()
	if bindings != 1 {
		t.Errorf("%d bindings, want one", bindings)
	}
}

func TestFeasibleNodesToFind(t *testing.T) {
	for _, tc := range []struct {
		name              string
		percentage, nodes int
		want              int
	}{
		{"few nodes: all", 0, 99, 99},
		{"few nodes, a percentage: all", 10, 50, 50},
		{"adaptive", 0, 1000, 420},
		{"adaptive, at least 100", 0, 150, 100},
		{"adaptive, at least 5 %", 0, 10000, 500},
		{"fixed", 30, 1000, 300},
		{"all", 100, 1000, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := feasibleNodesToFind(tc.percentage, tc.nodes); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestBest_Seeded(t *testing.T) {
	scores := make([]int64, 10)
	for i := range scores {
		scores[i] = int64(i % 2)
	}
	run := func(seed uint64) (out []int) {
		client := fake.NewClientset()
		s, err := New(Config{Client: client, Informers: informers.NewSharedInformerFactory(client, 0), Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		defer s.broadcaster.Shutdown()
		for range 20 {
			out = append(out, s.best(scores))
		}
		return out
	}
	first := run(7)
	if diff := cmp.Diff(first, run(7)); diff != "" {
		t.Errorf("the same seed gave another order:\n%s", diff)
	}
	distinct := map[int]bool{}
	for _, n := range first {
		if n%2 == 0 {
			t.Errorf("node %d has not the best score", n)
		}
		distinct[n] = true
	}
	if len(distinct) < 2 {
		t.Error("ties always fall the same way")
	}
}

func TestTruncate(t *testing.T) {
	long := truncate(strings.Repeat("x", 2000))
	if len(long) != 1024 || !strings.HasSuffix(long, " ...") {
		t.Errorf("got %d bytes ending in %q", len(long), long[len(long)-4:])
	}
	if got := truncate("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}

func TestNew_RejectsBadConfig(t *testing.T) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no client", Config{}, "scheduler needs a client and informers"},
		{"percentage", Config{Client: client, Informers: factory, Configuration: &configv1.KubeSchedulerConfiguration{PercentageOfNodesToScore: new(int32(101))}},
			"scheduler configuration: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"},
		{"no identity", Config{Client: client, Informers: factory, Configuration: leading()}, "leader election needs an identity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := New(tc.cfg); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func leading() *configv1.KubeSchedulerConfiguration {
	c := &configv1.KubeSchedulerConfiguration{}
	c.LeaderElection.LeaderElect = new(true)
	return c
}

func TestScheduler_LeaderElection(t *testing.T) {
	c := start(t, Config{Configuration: leading(), Identity: "me"}, pt.Node("n"), pt.Pod("p"))
	c.awaitNode("p", "n")
	lease, err := c.client.CoordinationV1().Leases("kube-system").Get(c.Context(), "kube-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h := lease.Spec.HolderIdentity; h == nil || *h != "me" {
		t.Errorf("the lease is held by %v, want me", h)
	}
}

func TestScheduler_MissingClaim(t *testing.T) {
	c := start(t, Config{},
		pt.Node("n"), pt.Pod("p", pt.Claim("x")))
	const message = `0/1 nodes are available: persistentvolumeclaim "x" not found. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.`
	c.await("the condition", func() bool { return c.condition("p").Message == message })
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}}
	claim.Spec.VolumeName, claim.Status.Phase = "v", corev1.ClaimBound
	if _, err := c.client.CoreV1().PersistentVolumes().Create(c.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.CoreV1().PersistentVolumeClaims("default").Create(c.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitNode("p", "n")
}
