// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

type groupOption = func(*schedulingv1beta1.PodGroup)

// group is a gang of at least n pods, of any if n is 0.
func group(name string, n int32, options ...groupOption) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("group-" + name)}}
	if n > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: n}
	} else {
		g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	for _, o := range options {
		o(g)
	}
	return g
}

func groupPriority(n int32) groupOption {
	return func(g *schedulingv1beta1.PodGroup) { g.Spec.Priority = &n }
}

func disruptedAs(m schedulingv1beta1.DisruptionMode) groupOption {
	return func(g *schedulingv1beta1.PodGroup) { g.Spec.DisruptionMode = &m }
}

func in(group string) pt.PodOption {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} }
}

// grouped are pods prefix0, prefix1 and so on of a group.
func grouped(prefix, group string, n int, options ...pt.PodOption) (out []runtime.Object) {
	for i := range n {
		out = append(out, pt.Pod(fmt.Sprint(prefix, i), append([]pt.PodOption{in(group)}, options...)...))
	}
	return out
}

// bound are the pods of a prefix that have a node.
func (c cluster) bound(prefix string) (n int) {
	c.Helper()
	list, err := c.client.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	for _, p := range list.Items {
		if strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

func (c cluster) awaitBound(prefix string, n int) {
	c.Helper()
	c.await(fmt.Sprintf("%d pods %s with a node", n, prefix), func() bool { return c.bound(prefix) == n })
}

// awaitGroup waits for what is said of a group.
func (c cluster) awaitGroup(name string, status metav1.ConditionStatus, reason, message string) {
	c.Helper()
	var got metav1.Condition
	c.await(fmt.Sprintf("group %s: %s %s %q", name, status, reason, message), func() bool {
		g, err := c.client.SchedulingV1beta1().PodGroups("default").Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		if p := meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled); p != nil {
			got = *p
		}
		return got.Status == status && got.Reason == reason && got.Message == message
	})
}

func TestGroup_WaitsForEnoughPods(t *testing.T) {
	c := start(t, Config{PodGroups: true}, pt.Node("n"), group("g", 2), pt.Pod("a0", in("g")), pt.Pod("other"))
	c.awaitNode("other", "n")
	if c.bound("a") != 0 {
		t.Fatal("a pod ran before its gang was complete")
	}
	c.create(pt.Pod("a1", in("g")))
	c.awaitNode("a0", "n")
	c.awaitNode("a1", "n")
	c.awaitGroup("g", metav1.ConditionTrue, "Scheduled", "")
	c.create(pt.Pod("a2", in("g"))) // more than are needed
	c.awaitNode("a2", "n")
}

func TestGroup_WaitsForItsObject(t *testing.T) {
	c := start(t, Config{PodGroups: true}, append(grouped("a", "g", 2), pt.Node("n"), pt.Pod("other"))...)
	c.awaitNode("other", "n")
	if c.bound("a") != 0 {
		t.Fatal("pods ran before their group was there")
	}
	if _, err := c.client.SchedulingV1beta1().PodGroups("default").Create(c.Context(), group("g", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitBound("a", 2)
}

func TestGroup_AllOrNothing(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := start(t, Config{PodGroups: true, Registerer: registry}, append(grouped("a", "g", 3, pt.Requests("cpu", "1")),
		pt.Node("small", pt.Allocatable("cpu", "2")), group("g", 3))...)
	const why = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
	const preemption = "pod group preemption: No preemption victims found for incoming preemptor"
	c.awaitGroup("g", metav1.ConditionFalse, "Unschedulable", why+", "+preemption)
	// The last one does not fit, the others would: before others take the room, for then no more of the gang has any.
	want := map[string]int{"0/1 nodes are available: 1 Insufficient cpu.": 1, "pod group is unschedulable, " + why + ", " + preemption: 2}
	c.await("what pods are told", func() bool {
		told := map[string]int{}
		for i := range 3 {
			if got := c.condition(fmt.Sprint("a", i)); got.Reason == "Unschedulable" {
				told[got.Message]++
			}
		}
		return cmp.Equal(want, told)
	})
	// What the gang cannot use is free for others.
	c.create(pt.Pod("b", pt.Requests("cpu", "2")))
	c.awaitNode("b", "small")
	if c.bound("a") != 0 {
		t.Fatal("a part of a gang ran")
	}
	if _, err := c.client.CoreV1().Nodes().Create(c.Context(), pt.Node("big"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitBound("a", 3)
	c.awaitGroup("g", metav1.ConditionTrue, "Scheduled", "")
	if n := attempts(t, registry, "podgroup_schedule_attempts_total", "scheduled"); n != 1 {
		t.Errorf("%v attempts are counted that scheduled the group, want 1", n)
	}
}

// TestGroup_NotTried has a gang of which the first pod fits nowhere: the others are told why they were not tried.
func TestGroup_NotTried(t *testing.T) {
	c := start(t, Config{PodGroups: true}, append(grouped("a", "g", 3, pt.Requests("cpu", "3")), pt.Node("n", pt.Allocatable("cpu", "2")), group("g", 3))...)
	const why = "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
	c.awaitGroup("g", metav1.ConditionFalse, "Unschedulable", why+", pod group preemption: No preemption victims found for incoming preemptor")
	want := map[string]int{"0/1 nodes are available: 1 Insufficient cpu.": 1, why: 2}
	told := map[string]int{}
	c.await("all pods to be told", func() bool {
		clear(told)
		for i := range 3 {
			told[c.condition(fmt.Sprint("a", i)).Message]++
		}
		return maps.Equal(told, want)
	})
}

func TestByAttempts(t *testing.T) {
	tried := &queue.Pod{PodInfo: framework.NewPodInfo(pt.Pod("tried")), Attempts: 2}
	first, second := &queue.Pod{PodInfo: framework.NewPodInfo(pt.Pod("first")), Attempts: 1}, &queue.Pod{PodInfo: framework.NewPodInfo(pt.Pod("second")), Attempts: 1}
	got := []*queue.Pod{first, second, tried}
	slices.SortStableFunc(got, byAttempts)
	if want := []*queue.Pod{tried, first, second}; !slices.Equal(got, want) {
		t.Errorf("the order is %s, %s, %s", got[0].Pod.Name, got[1].Pod.Name, got[2].Pod.Name)
	}
}

func attempts(t *testing.T, registry *prometheus.Registry, name, result string) (n float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "scheduler_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "result" && l.GetValue() == result {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// picky is a plugin that rejects so many tries, and knows no event that would help.
type picky struct{ rejects atomic.Int32 }

func (*picky) Name() string { return "Picky" }

func (p *picky) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	if p.rejects.Add(-1) >= 0 {
		return fwk.NewStatus(fwk.Unschedulable, "not yet")
	}
	return nil
}

func (*picky) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{framework.Event(fwk.Node, fwk.Delete, nil)}, nil
}

// TestGroup_TriedAgain has a group be rejected for reasons that go without an event: it is tried again after a while, as often as needed.
func TestGroup_TriedAgain(t *testing.T) {
	const rejections = 5
	p := &picky{}
	p.rejects.Store(rejections)
	cfg := with()
	cfg.PodGroups, cfg.Registerer = true, prometheus.NewRegistry()
	cfg.Registry[p.Name()] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }
	enabled := &cfg.Configuration.Profiles[0].Plugins.MultiPoint.Enabled
	*enabled = append(*enabled, configv1.Plugin{Name: p.Name()})
	c := start(t, cfg, append(grouped("a", "g", 2), pt.Node("n"), group("g", 2))...)
	c.awaitBound("a", 2)
	// One rejected pod is enough for a gang, of which the others are not tried then.
	if n := attempts(t, cfg.Registerer.(*prometheus.Registry), "podgroup_schedule_attempts_total", "unschedulable"); n != rejections {
		t.Errorf("%v attempts are counted in vain, want %d", n, rejections)
	}
}

// TestGroup_NoDeadlock has two gangs of which one has room. Pod by pod, each would hold a part of it.
func TestGroup_NoDeadlock(t *testing.T) {
	objects := []runtime.Object{pt.Node("n", pt.Allocatable("cpu", "4")), group("a", 3), group("b", 3)}
	for i := range 3 {
		objects = append(objects, pt.Pod(fmt.Sprint("a", i), in("a"), pt.Requests("cpu", "1")), pt.Pod(fmt.Sprint("b", i), in("b"), pt.Requests("cpu", "1")))
	}
	c := start(t, Config{PodGroups: true}, objects...)
	c.await("one gang", func() bool { return c.bound("a")+c.bound("b") == 3 })
	first, second := "a", "b"
	if c.bound("a") == 0 {
		first, second = "b", "a"
	}
	if c.bound(first) != 3 || c.bound(second) != 0 {
		t.Fatalf("%d of one gang and %d of the other run", c.bound("a"), c.bound("b"))
	}
	for i := range 3 {
		if err := c.client.CoreV1().Pods("default").Delete(c.Context(), fmt.Sprint(first, i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitBound(second, 3)
}

func TestGroup_Basic(t *testing.T) {
	c := start(t, Config{PodGroups: true}, append(grouped("a", "g", 3, pt.Requests("cpu", "1")),
		pt.Node("n", pt.Allocatable("cpu", "2")), group("g", 0))...)
	c.awaitBound("a", 2)
	c.awaitGroup("g", metav1.ConditionTrue, "Scheduled", "")
	if _, err := c.client.CoreV1().Nodes().Create(c.Context(), pt.Node("m"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitBound("a", 3)
}

// TestGroup_HeldBack has one pod of a group held back: the others are not tried without it.
func TestGroup_HeldBack(t *testing.T) {
	for _, tc := range []struct {
		name    string
		atLeast int32
		end     func(cluster) error
		left    int
	}{
		{"let go", 0, letGo, 3},
		{"let go, of a gang", 2, letGo, 3},
		{"gone", 0, func(c cluster) error {
			return c.client.CoreV1().Pods("default").Delete(c.Context(), "held", metav1.DeleteOptions{})
		}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			held := pt.Pod("held", in("g"), func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
			c := start(t, Config{PodGroups: true}, pt.Node("n"), group("g", tc.atLeast), held)
			c.create(pt.Pod("held1", in("g")))
			c.create(pt.Pod("held2", in("g")))
			c.create(pt.Pod("other"))
			c.awaitNode("other", "n")
			c.awaitEvent("Scheduled", "Successfully assigned default/other to n")
			if n := c.bound("held"); n != 0 {
				t.Fatalf("%d pods ran without one of their group", n)
			}
			if err := tc.end(c); err != nil {
				t.Fatal(err)
			}
			c.awaitBound("held", tc.left)
		})
	}
}

func letGo(c cluster) error {
	p := c.pod("held").DeepCopy()
	p.Spec.SchedulingGates = nil
	_, err := c.client.CoreV1().Pods("default").Update(c.Context(), p, metav1.UpdateOptions{})
	return err
}

func TestGroup_WantsFewer(t *testing.T) {
	c := start(t, Config{PodGroups: true}, append(grouped("a", "g", 2), pt.Node("n"), group("g", 3), pt.Pod("other"))...)
	c.awaitNode("other", "n")
	if _, err := c.client.SchedulingV1beta1().PodGroups("default").Update(c.Context(), group("g", 2), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitBound("a", 2)
}

func TestGroup_Unequal(t *testing.T) {
	c := start(t, Config{PodGroups: true}, pt.Node("n"), group("g", 2, groupPriority(5)),
		pt.Pod("a0", in("g"), pt.Priority(5)), pt.Pod("a1", in("g"), pt.Priority(7)))
	c.awaitGroup("g", metav1.ConditionFalse, "SchedulerError",
		"all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 5")
	if c.bound("a") != 0 {
		t.Error("pods of different priorities ran as a group")
	}
}

// TestGroup_BindingFails has one binding of a gang fail: the pod is tried again, and not the others.
func TestGroup_BindingFails(t *testing.T) {
	client := newClient(append(grouped("a", "g", 3), pt.Node("n"), group("g", 3))...)
	keepBindings(client)
	var mu sync.Mutex
	bindings := map[string]int{} // guarded by mu
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		b, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		if !ok {
			return false, nil, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if bindings[b.Name]++; b.Name == "a1" && bindings[b.Name] == 1 {
			return true, nil, errors.New("no")
		}
		return false, nil, nil
	})
	c := startOn(t, client, Config{PodGroups: true})
	c.awaitBound("a", 3)
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(map[string]int{"a0": 1, "a1": 2, "a2": 1}, bindings); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}

// TestGroup_ConditionIsRefused has the API refuse to be told of a group: it is told again.
func TestGroup_ConditionIsRefused(t *testing.T) {
	client := newClient(append(grouped("a", "g", 2), pt.Node("n"), group("g", 2))...)
	keepBindings(client)
	var refused atomic.Bool
	client.PrependReactor("patch", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refused.Swap(true) {
			return false, nil, nil
		}
		return true, nil, errors.New("no")
	})
	c := startOn(t, client, Config{PodGroups: true})
	c.awaitGroup("g", metav1.ConditionTrue, "Scheduled", "")
}

func TestGroup_Preempts(t *testing.T) {
	all := schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	single := schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
	cpu := pt.Requests("cpu", "1")
	for _, tc := range []struct {
		name      string
		mode      schedulingv1beta1.DisruptionMode
		preemptor []runtime.Object
		left      int // of four victims, two on each of two nodes
		event     string
	}{
		{"a pod, some of a group", single, []runtime.Object{pt.Pod("high0", cpu, pt.Priority(9))}, 3, ""},
		{"a pod, a whole group", all, []runtime.Object{pt.Pod("high0", cpu, pt.Priority(9))}, 0, ""},
		{"a group, some of a group", single, append(grouped("high", "h", 2, cpu, pt.Priority(9)), group("h", 2, groupPriority(9))), 2, "Preempted by podgroup group-h on node cluster"},
		{"a group, a whole group", all, append(grouped("high", "h", 2, cpu, pt.Priority(9)), group("h", 2, groupPriority(9))), 0, "Preempted by podgroup group-h on node cluster"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := start(t, Config{PodGroups: true}, append(tc.preemptor,
				pt.Node("n0", pt.Allocatable("cpu", "2")), pt.Node("n1", pt.Allocatable("cpu", "2")), group("low", 4, groupPriority(1), disruptedAs(tc.mode)),
				pt.Pod("low0", in("low"), cpu, pt.Priority(1), pt.On("n0")), pt.Pod("low1", in("low"), cpu, pt.Priority(1), pt.On("n1")),
				pt.Pod("low2", in("low"), cpu, pt.Priority(1), pt.On("n0")), pt.Pod("low3", in("low"), cpu, pt.Priority(1), pt.On("n1")))...)
			pods := 0
			for _, o := range tc.preemptor {
				if _, ok := o.(*corev1.Pod); ok {
					pods++
				}
			}
			c.awaitBound("high", pods)
			c.await("the victims to go", func() bool { return c.bound("low") <= tc.left })
			if n := c.bound("low"); n != tc.left {
				t.Errorf("%d of the victim group are left, want %d", n, tc.left)
			}
			if tc.event != "" {
				c.awaitEvent("Preempted", tc.event)
			}
		})
	}
}

// TestGroup_FitsOtherwise has one pod of a gang take the only node that another may have, because others leave more room there. Among
// empty nodes it chooses the larger one, and fits there beside who is on it: nobody has to go.
func TestGroup_FitsOtherwise(t *testing.T) {
	c := start(t, Config{PodGroups: true}, group("g", 2, groupPriority(9)),
		pt.Node("small", pt.Allocatable("cpu", "5")), pt.Node("large", pt.Allocatable("cpu", "32")),
		pt.Pod("low", pt.On("large"), pt.Requests("cpu", "31"), pt.Priority(1)),
		pt.Pod("a0", in("g"), pt.Requests("cpu", "1"), pt.Priority(9)),
		pt.Pod("a1", in("g"), pt.Requests("cpu", "5"), pt.Priority(9), func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "small"}
		}))
	c.awaitNode("a0", "large")
	c.awaitNode("a1", "small")
	if c.pod("low") == nil {
		t.Error("a pod was preempted for nothing")
	}
}

// TestGroup_PriorityOfVictims has a group's priority differ from that of its pods, who ran before it was there: the group's counts.
func TestGroup_PriorityOfVictims(t *testing.T) {
	for _, tc := range []struct {
		name        string
		pods, group int32
		goes        bool
	}{
		{"less than the pods'", 9, 1, true},
		{"more than the pods'", 1, 9, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := start(t, Config{PodGroups: true}, pt.Node("n", pt.Allocatable("cpu", "1")), group("low", 0, groupPriority(tc.group)),
				pt.Pod("low0", in("low"), pt.On("n"), pt.Requests("cpu", "1"), pt.Priority(tc.pods)),
				pt.Pod("p", pt.Requests("cpu", "1"), pt.Priority(5)))
			if tc.goes {
				c.awaitNode("p", "n")
				return
			}
			c.await("that there are no victims", func() bool { return strings.Contains(c.condition("p").Message, "No preemption victims found") })
			if c.pod("low0") == nil {
				t.Error("a pod of a more important group was preempted")
			}
		})
	}
}

// TestGroup_RestPreempts has room for a part of a group, which may run by itself: room is made for the rest.
func TestGroup_RestPreempts(t *testing.T) {
	c := start(t, Config{PodGroups: true}, append(grouped("a", "g", 4, pt.Requests("cpu", "1"), pt.Priority(9)),
		pt.Node("n", pt.Allocatable("cpu", "4")), group("g", 0, groupPriority(9)), pt.Pod("low", pt.On("n"), pt.Requests("cpu", "2"), pt.Priority(1)))...)
	c.awaitBound("a", 4)
	if c.pod("low") != nil {
		t.Error("the victim is still there")
	}
	c.awaitGroup("g", metav1.ConditionTrue, "Scheduled", "")
}

// TestGroup_Off schedules pods with a group one by one.
func TestGroup_Off(t *testing.T) {
	c := start(t, Config{}, pt.Node("n"), pt.Pod("a", in("g")))
	c.awaitNode("a", "n")
}
