// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaultpreemption

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/plugins/noderesources"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func started(minutes int) pt.PodOption {
	return func(p *corev1.Pod) {
		at := metav1.NewTime(time.Unix(1_000_000, 0).Add(time.Duration(minutes) * time.Minute))
		p.Status.StartTime = &at
	}
}

func budget(allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: pt.Select("app", "x")},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestPostFilter(t *testing.T) {
	cpu := func(n string) pt.PodOption { return pt.Requests("cpu", n) }
	for _, tc := range []struct {
		name    string
		nodes   []*corev1.Node
		pods    []*corev1.Pod
		pod     *corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		// failed are the nodes where removing pods may help
		failed  []string
		node    string
		victims []string
		message string
		gone    bool // the pod, meanwhile
	}{
		{name: "the only lower pod", nodes: []*corev1.Node{pt.Node("a")}, failed: []string{"a"},
			pods: []*corev1.Pod{pt.Pod("low", pt.On("a"), cpu("4"), pt.Priority(1))},
			pod:  pt.Pod("p", cpu("1"), pt.Priority(2)), node: "a", victims: []string{"low"}},
		{name: "no more victims than needed, the lowest ones", nodes: []*corev1.Node{pt.Node("a")}, failed: []string{"a"},
			pods: []*corev1.Pod{pt.Pod("l1", pt.On("a"), cpu("2"), pt.Priority(1)), pt.Pod("l2", pt.On("a"), cpu("2"), pt.Priority(2))},
			pod:  pt.Pod("p", cpu("2"), pt.Priority(3)), node: "a", victims: []string{"l1"}},
		{name: "the node with the lowest victim", nodes: []*corev1.Node{pt.Node("a"), pt.Node("b")}, failed: []string{"a", "b"},
			pods: []*corev1.Pod{pt.Pod("mid", pt.On("a"), cpu("4"), pt.Priority(2)), pt.Pod("low", pt.On("b"), cpu("4"), pt.Priority(1))},
			pod:  pt.Pod("p", cpu("1"), pt.Priority(3)), node: "b", victims: []string{"low"}},
		{name: "the node with the youngest victim", nodes: []*corev1.Node{pt.Node("a"), pt.Node("b")}, failed: []string{"a", "b"},
			pods: []*corev1.Pod{pt.Pod("old", pt.On("a"), cpu("4"), pt.Priority(1), started(0)), pt.Pod("young", pt.On("b"), cpu("4"), pt.Priority(1), started(5))},
			pod:  pt.Pod("p", cpu("1"), pt.Priority(3)), node: "b", victims: []string{"young"}},
		{name: "the node with the victim that waits to start", nodes: []*corev1.Node{pt.Node("a"), pt.Node("b")}, failed: []string{"a", "b"},
			pods: []*corev1.Pod{pt.Pod("runs", pt.On("a"), cpu("4"), pt.Priority(1), started(0)), pt.Pod("waited", pt.On("b"), cpu("4"), pt.Priority(1), func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
			})},
			pod: pt.Pod("p", cpu("1"), pt.Priority(3)), node: "b", victims: []string{"waited"}},
		{name: "a budget is respected if there is another way", nodes: []*corev1.Node{pt.Node("a"), pt.Node("b")}, failed: []string{"a", "b"},
			pods: []*corev1.Pod{pt.Pod("x", pt.On("a"), cpu("4"), pt.Priority(1), pt.Labels("app", "x")), pt.Pod("y", pt.On("b"), cpu("4"), pt.Priority(2))},
			pod:  pt.Pod("p", cpu("1"), pt.Priority(3)), budgets: []*policyv1.PodDisruptionBudget{budget(0)}, node: "b", victims: []string{"y"}},
		{name: "equal priority", nodes: []*corev1.Node{pt.Node("a")}, failed: []string{"a"},
			pods:    []*corev1.Pod{pt.Pod("o", pt.On("a"), cpu("4"), pt.Priority(1))},
			pod:     pt.Pod("p", cpu("1"), pt.Priority(1)),
			message: "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."},
		{name: "removing is not enough", nodes: []*corev1.Node{pt.Node("a"), pt.Node("b")}, failed: []string{"a"},
			pods:    []*corev1.Pod{pt.Pod("low", pt.On("a"), cpu("1"), pt.Priority(1)), pt.Pod("high", pt.On("a"), cpu("3"), pt.Priority(9))},
			pod:     pt.Pod("p", cpu("2"), pt.Priority(5)),
			message: "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling."},
		{name: "never", nodes: []*corev1.Node{pt.Node("a")}, failed: []string{"a"},
			pods: []*corev1.Pod{pt.Pod("low", pt.On("a"), cpu("4"), pt.Priority(1))},
			pod: pt.Pod("p", cpu("1"), pt.Priority(2), func(p *corev1.Pod) {
				never := corev1.PreemptNever
				p.Spec.PreemptionPolicy = &never
			}), message: "preemption: not eligible due to preemptionPolicy=Never."},
		{name: "victims are still going", nodes: []*corev1.Node{pt.Node("a")}, failed: []string{"a"},
			pods: []*corev1.Pod{pt.Pod("low", pt.On("a"), cpu("4"), pt.Priority(1), func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"f"}
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
			})},
			pod:     pt.Pod("p", cpu("1"), pt.Priority(2), func(p *corev1.Pod) { p.Status.NominatedNodeName = "a" }),
			message: "preemption: not eligible due to a terminating pod on the nominated node."},
		{name: "nobody waits for the room", nodes: []*corev1.Node{pt.Node("a")}, failed: []string{"a"},
			pods: []*corev1.Pod{pt.Pod("low", pt.On("a"), cpu("4"), pt.Priority(1))},
			pod:  pt.Pod("p", cpu("1"), pt.Priority(2)), gone: true, message: `preemption: looking for the node that the pod waits for: pod "p" not found`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(tc.nodes, tc.pods...))
			known := tc.pods
			if !tc.gone {
				known = append(slices.Clone(known), tc.pod)
			}
			for _, p := range known {
				if err := h.Fake.Tracker().Add(p); err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range tc.budgets {
				if err := h.Fake.Tracker().Add(b); err != nil {
					t.Fatal(err)
				}
			}
			h.Use(t, noderesources.Name, noderesources.New)
			p := pt.NewPlugin(t, h, New).(*DefaultPreemption)
			statuses := framework.NewNodeStatuses(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no"))
			for _, n := range tc.failed {
				statuses.Set(n, fwk.NewStatus(fwk.Unschedulable, "full"))
			}
			popped := tc.pod.DeepCopy()
			popped.Status.NominatedNodeName = "" // before that was seen
			got, status := p.PostFilter(t.Context(), framework.NewCycleState(framework.NewPodInfo(popped)), popped, statuses)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			want := tc.message
			if tc.node != "" {
				want = fmt.Sprintf("preemption: found a potential placement for pod on node %s, preempting %d victims", tc.node, len(tc.victims))
			}
			if status.Message() != want {
				t.Errorf("message = %q, want %q", status.Message(), want)
			}
			if got != nil {
				if node := got.NominatedNodeName; node != tc.node {
					t.Errorf("nominated to %q, want %q", node, tc.node)
				}
			} else if tc.node != "" {
				t.Errorf("not nominated, want %q", tc.node)
			}
			victims := map[string]bool{}
			for _, v := range tc.victims {
				victims[v] = true
			}
			for _, pod := range tc.pods {
				_, err := h.Fake.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
				if gone := err != nil; gone != victims[pod.Name] {
					t.Errorf("pod %s gone = %v, want %v", pod.Name, gone, victims[pod.Name])
				}
			}
			if len(h.Events.Events) != len(tc.victims) {
				t.Errorf("%d events, want %d", len(h.Events.Events), len(tc.victims))
			}
		})
	}
}

// As long as all candidates violate a budget, others are looked for, however many there are.
func TestCandidates_BudgetsFirst(t *testing.T) {
	nodes, failed := []*corev1.Node{}, framework.NewNodeStatuses(nil)
	var pods []*corev1.Pod
	for _, n := range []string{"a", "b", "c"} {
		nodes = append(nodes, pt.Node(n))
		failed.Set(n, fwk.NewStatus(fwk.Unschedulable, "full"))
		pods = append(pods, pt.Pod("on-"+n, pt.On(n), pt.Requests("cpu", "4"), pt.Priority(1), func(p *corev1.Pod) {
			if n != "c" {
				p.Labels = map[string]string{"app": "x"}
			}
		}))
	}
	h := pt.NewHandle(pt.Nodes(nodes, pods...))
	h.Use(t, noderesources.Name, noderesources.New)
	p := pt.NewPlugin(t, h, New).(*DefaultPreemption)
	p.args.MinCandidateNodesAbsolute, p.args.MinCandidateNodesPercentage = new(int32(1)), new(int32(1))
	pod := pt.Pod("p", pt.Requests("cpu", "1"), pt.Priority(2))
	found, _, err := p.candidates(t.Context(), framework.NewCycleState(framework.NewPodInfo(pod)), pod, h.Snapshot, failed, []*policyv1.PodDisruptionBudget{budget(0)})
	if err != nil || pick(found).node != "c" {
		t.Errorf("chose %s of %d candidates, want c (%v)", pick(found).node, len(found), err)
	}
}

// Where only some nodes are looked at, they are others each time.
func TestCandidates_Turns(t *testing.T) {
	nodes, failed := []*corev1.Node{pt.Node("a"), pt.Node("b")}, framework.NewNodeStatuses(fwk.NewStatus(fwk.Unschedulable, "full"))
	low := func(node string) *corev1.Pod {
		return pt.Pod("on-"+node, pt.On(node), pt.Requests("cpu", "4"), pt.Priority(1))
	}
	h := pt.NewHandle(pt.Nodes(nodes, low("a"), low("b")))
	h.Parallel = 1
	h.Use(t, noderesources.Name, noderesources.New)
	p := pt.NewPlugin(t, h, New).(*DefaultPreemption)
	p.args.MinCandidateNodesAbsolute, p.args.MinCandidateNodesPercentage = new(int32(1)), new(int32(1))
	pod := pt.Pod("p", pt.Requests("cpu", "1"), pt.Priority(2))
	chosen := map[string]bool{}
	for range 100 {
		found, _, err := p.candidates(t.Context(), framework.NewCycleState(framework.NewPodInfo(pod)), pod, h.Snapshot, failed, nil)
		if err != nil {
			t.Fatal(err)
		}
		chosen[found[0].node] = true
	}
	if len(chosen) != 2 {
		t.Errorf("chose only %v", chosen)
	}
}

// TestHeldBack loses a victim while the pod is held back: its end was the event that the pod waited for, and comes no second time.
func TestHeldBack(t *testing.T) {
	victims := []*corev1.Pod{
		pt.Pod("low", pt.On("a"), pt.Requests("cpu", "2"), pt.Priority(1)), pt.Pod("lower", pt.On("a"), pt.Requests("cpu", "2"), pt.Priority(0)),
	}
	pod := pt.Pod("p", pt.Requests("cpu", "4"), pt.Priority(2))
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a")}, victims...), pod) // no victim is in the API any more
	h.Use(t, noderesources.Name, noderesources.New)
	var p *DefaultPreemption
	held := false
	h.Fake.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !held { // the first of the victims
			held = true
			if status := p.PreEnqueue(t.Context(), pod); status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("PreEnqueue while victims are asked to go: %v", status)
			}
		}
		return false, nil, nil
	})
	var awakened []string
	h.Awaken = func(_ klog.Logger, pods map[string]*corev1.Pod) { awakened = slices.Sorted(maps.Keys(pods)) }
	p = pt.NewPlugin(t, h, New).(*DefaultPreemption)
	statuses := framework.NewNodeStatuses(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no"))
	statuses.Set("a", fwk.NewStatus(fwk.Unschedulable, "full"))
	if _, status := p.PostFilter(t.Context(), framework.NewCycleState(framework.NewPodInfo(pod)), pod, statuses); !status.IsSuccess() {
		t.Fatalf("PostFilter: %v", status)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"default/p"}; !held || !slices.Equal(awakened, want) {
		t.Errorf("held back = %v, awakened %v, want %v", held, awakened, want)
	}
	if status := p.PreEnqueue(t.Context(), pod); !status.IsSuccess() {
		t.Errorf("PreEnqueue afterwards: %v", status)
	}
}

// TestDenominates: pods of less priority that wait for the node look elsewhere before the victims are gone, by what the API has of
// them: what is remembered of them may be from before that was written.
func TestDenominates(t *testing.T) {
	victim := pt.Pod("victim", pt.On("a"), pt.Requests("cpu", "4"), pt.Priority(1))
	pod := pt.Pod("p", pt.Requests("cpu", "4"), pt.Priority(3))
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a")}, victim), victim, pod)
	h.Nominees = map[string][]fwk.PodInfo{}
	for name, waitsFor := range map[string]string{"waits": "a", "elsewhere": "b", "equal": "a"} {
		remembered := pt.Pod(name, pt.Priority(2))
		if name == "equal" {
			remembered.Spec.Priority = new(int32(3))
		}
		h.Nominees["a"] = append(h.Nominees["a"], framework.NewPodInfo(remembered))
		known := remembered.DeepCopy()
		known.Status.NominatedNodeName, known.Status.Message = waitsFor, "newer"
		if err := h.Fake.Tracker().Add(known); err != nil {
			t.Fatal(err)
		}
	}
	nominations := func() map[string]string {
		out := map[string]string{}
		for _, name := range []string{"waits", "elsewhere", "equal"} {
			obj, err := h.Fake.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", name)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = obj.(*corev1.Pod).Status.NominatedNodeName
		}
		return out
	}
	var atEviction map[string]string
	h.Fake.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		atEviction = nominations()
		return true, nil, errors.New("refused")
	})
	h.Use(t, noderesources.Name, noderesources.New)
	p := pt.NewPlugin(t, h, New).(*DefaultPreemption)
	statuses := framework.NewNodeStatuses(nil)
	statuses.Set("a", fwk.NewStatus(fwk.Unschedulable, "full"))
	if _, status := p.PostFilter(t.Context(), framework.NewCycleState(framework.NewPodInfo(pod)), pod, statuses); !status.IsSuccess() {
		t.Fatalf("PostFilter: %v", status)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"waits": "", "elsewhere": "b", "equal": "a"}; !maps.Equal(atEviction, want) {
		t.Errorf("nominations when the victim was asked to go: %v, want %v", atEviction, want)
	}
}

// outside is an extender that says what a test wants of victims.
type outside struct {
	fwk.Extender // nil: nothing else is asked
	ignorable    bool
	says         func(asked map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error)
}

func (outside) Name() string                  { return "http://outside" }
func (outside) IsInterested(*corev1.Pod) bool { return true }
func (outside) SupportsPreemption() bool      { return true }
func (o outside) IsIgnorable() bool           { return o.ignorable }

func (o outside) ProcessPreemption(_ *corev1.Pod, victims map[string]*extenderv1.Victims, _ fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	return o.says(victims)
}

func TestAskExtenders(t *testing.T) {
	fails := func(map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
		return nil, errors.New("lost")
	}
	answers := func(nodes ...string) func(map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
		return func(map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
			out := map[string]*extenderv1.Victims{}
			for _, n := range nodes {
				name, nobody := strings.CutPrefix(n, "nobody on ")
				if out[name] = (&extenderv1.Victims{Pods: []*corev1.Pod{pt.Pod("low-" + name)}}); nobody {
					out[name].Pods = nil
				}
			}
			return out, nil
		}
	}
	drops := func(asked map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
		delete(asked, "a")
		return asked, nil
	}
	for _, tc := range []struct {
		name      string
		extenders []fwk.Extender
		want      []string
		err       string
	}{
		{name: "none", want: []string{"a", "b"}},
		{name: "drops one", extenders: []fwk.Extender{outside{says: drops}}, want: []string{"b"}},
		{name: "the next is asked about what is left", extenders: []fwk.Extender{outside{says: answers("b", "c")}, outside{says: drops}}, want: []string{"b", "c"}},
		{name: "knows better", extenders: []fwk.Extender{outside{says: answers("c")}}, want: []string{"c"}},
		{name: "nobody", extenders: []fwk.Extender{outside{says: answers("a", "nobody on b")}}, err: `expected at least one victim pod on node "b"`},
		{name: "nobody, ignorable", extenders: []fwk.Extender{outside{says: answers("a", "nobody on b"), ignorable: true}}, want: []string{"a"}},
		{name: "fails", extenders: []fwk.Extender{outside{says: fails}}, err: `asking extender "http://outside" about preemption: lost`},
		{name: "fails, ignorable", extenders: []fwk.Extender{outside{says: fails, ignorable: true}}, want: []string{"a", "b"}},
		{name: "none is left", extenders: []fwk.Extender{outside{says: answers()}, outside{says: fails}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			h.Outside = tc.extenders
			p := pt.NewPlugin(t, h, New).(*DefaultPreemption)
			var candidates []*candidate
			for _, n := range []string{"a", "b"} {
				candidates = append(candidates, &candidate{node: n, victims: []*framework.PodInfo{framework.NewPodInfo(pt.Pod("low-" + n))}})
			}
			left, err := p.askExtenders(t.Context(), pt.Pod("p"), candidates, h.Snapshot)
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Fatalf("got %v, want %q", err, tc.err)
			}
			var got []string
			for _, c := range left {
				got = append(got, c.node)
				if len(c.victims) != 1 || c.victims[0].Pod.Name != "low-"+c.node {
					t.Errorf("victims on %s: %v", c.node, pods(c.victims))
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("left %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSpareInOrder(t *testing.T) {
	var all []*unit
	for _, n := range []string{"1", "2", "3"} {
		all = append(all, &unit{pods: []*framework.PodInfo{framework.NewPodInfo(pt.Pod(n, pt.Labels("app", "x")))}})
	}
	important := framework.NewPodInfo(pt.Pod("4", pt.Priority(1)))
	member := framework.NewPodInfo(pt.Pod("7"))
	pair := []*framework.PodInfo{framework.NewPodInfo(pt.Pod("5")), framework.NewPodInfo(pt.Pod("6"))}
	all = append(all, &unit{pods: []*framework.PodInfo{important}, priority: 1}, &unit{pods: []*framework.PodInfo{member}, grouped: true}, &unit{pods: pair, grouped: true, group: true})
	var got []string
	for _, u := range spareInOrder(all, []*policyv1.PodDisruptionBudget{budget(1)}) {
		got = append(got, fmt.Sprint(u.pods[0].Pod.Name, u.violations))
	}
	if want := []string{"21", "31", "40", "50", "70", "10"}; !slices.Equal(got, want) {
		t.Errorf("order and violations %v, want %v", got, want)
	}
}
