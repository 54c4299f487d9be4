// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package scheduler tests the scheduler against a real API server and played nodes. Plugins are tested beside them; here
// is that they work together, and that pods are tried again when something changes.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/test/integration/framework"
)

// cluster is shared; tests run one after the other, each with nodes of its own.
var cluster *framework.Cluster

// stopScheduler stops the scheduler that runs.
var stopScheduler func() error

func TestMain(m *testing.M) {
	// New nodes are tainted until the node lifecycle controller has seen them ready.
	o := framework.Options{Controllers: []string{"nodelifecycle", "resourceclaim", "garbagecollector"}}
	os.Exit(framework.Main(m, o, func(c *framework.Cluster) (err error) {
		cluster = c
		stopScheduler, err = c.StartScheduler()
		return err
	}))
}

// addNodes runs nodes and waits until they can be used.
func addNodes(t *testing.T, nodes ...framework.FakeNode) {
	t.Helper()
	for _, n := range nodes {
		if n.Capacity == nil {
			n.Capacity = framework.Resources("2", "2Gi")
		}
		cluster.AddNode(t, n)
	}
	framework.Eventually(t, "the nodes are ready", func() error {
		list, err := cluster.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }) {
				return fmt.Errorf("%s is not", n.Name)
			}
		}
		return nil
	})
}

// pod makes a pod that asks for CPUs.
func pod(t *testing.T, ns, name, cpu string, change ...func(*corev1.Pod)) {
	t.Helper()
	p := framework.Pod(name, name)
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	for _, c := range change {
		c(p)
	}
	if _, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// node waits for a pod to run and tells where.
func node(t *testing.T, ns, name string) string {
	t.Helper()
	var p *corev1.Pod
	framework.Eventually(t, "pod "+name+" runs", func() error {
		var err error
		if p, err = cluster.Client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s, node %q, conditions %+v", p.Status.Phase, p.Spec.NodeName, p.Status.Conditions)
		}
		return nil
	})
	return p.Spec.NodeName
}

// unschedulable waits until the pod's condition gives the message.
func unschedulable(t *testing.T, ns, name, message string) {
	t.Helper()
	framework.Eventually(t, "pod "+name+" is unschedulable", func() error {
		p, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				if c.Message == message {
					return nil
				}
				return fmt.Errorf("the message is %q, want %q", c.Message, message)
			}
		}
		return fmt.Errorf("conditions are %+v", p.Status.Conditions)
	})
}

func TestFit_MessageEventAndRetry(t *testing.T) {
	ns := cluster.Namespace(t)
	addNodes(t, framework.FakeNode{Name: "small"},
		framework.FakeNode{Name: "tainted", Capacity: framework.Resources("8", "8Gi"), Taints: []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}})
	pod(t, ns, "large", "3")
	framework.Eventually(t, "the event", func() error {
		list, err := cluster.Client.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=large"})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "FailedScheduling" && e.Type == corev1.EventTypeWarning && e.ReportingController == "default-scheduler" && strings.HasPrefix(e.Note, "0/2 nodes are available: ") {
				return nil
			}
		}
		return fmt.Errorf("events are %+v", list.Items)
	})
	framework.Eventually(t, "the condition", func() error {
		p, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "large", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.HasPrefix(c.Message, "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint") {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", p.Status.Conditions)
	})
	// A pod that tolerates the taint runs at once, and the other as soon as the taint is gone.
	pod(t, ns, "tolerant", "3", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	})
	if got := node(t, ns, "tolerant"); got != "tainted" {
		t.Errorf("the tolerant pod is on %q", got)
	}
	if _, err := cluster.Client.CoreV1().Nodes().Patch(t.Context(), "tainted", types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := node(t, ns, "large"); got != "tainted" {
		t.Errorf("the large pod is on %q", got)
	}
}

// noNodes waits until the scheduler knows of no node: those of an earlier test may still be in its cache when the API has
// them no more, and a pod that is bound to one of them never runs.
func noNodes(t *testing.T, ns string) {
	t.Helper()
	probes := 0
	framework.Eventually(t, "the scheduler knows no node", func() error {
		probes++
		name := fmt.Sprintf("probe-%d", probes)
		pod(t, ns, name, "1m")
		var got *corev1.Pod
		framework.Eventually(t, name+" is decided about", func() error {
			var err error
			if got, err = cluster.Client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				return err
			}
			if len(got.Status.Conditions) == 0 {
				return fmt.Errorf("no condition")
			}
			return nil
		})
		now := int64(0)
		if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			return err
		}
		if got.Spec.NodeName != "" {
			return fmt.Errorf("%s is bound to %s", name, got.Spec.NodeName)
		}
		return nil
	})
}

func TestFit_WaitsForNodesAndSpace(t *testing.T) {
	ns := cluster.Namespace(t)
	noNodes(t, ns)
	pod(t, ns, "first", "2")
	unschedulable(t, ns, "first", "no nodes available to schedule pods")
	addNodes(t, framework.FakeNode{Name: "only"})
	if got := node(t, ns, "first"); got != "only" {
		t.Errorf("the first pod is on %q", got)
	}
	pod(t, ns, "second", "1")
	framework.Eventually(t, "the second does not fit", func() error {
		p, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "second", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.Status.Conditions) == 0 || !strings.HasPrefix(p.Status.Conditions[0].Message, "0/1 nodes are available: 1 Insufficient cpu.") {
			return fmt.Errorf("conditions are %+v", p.Status.Conditions)
		}
		return nil
	})
	if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := node(t, ns, "second"); got != "only" {
		t.Errorf("the second pod is on %q", got)
	}
}

func TestAffinity(t *testing.T) {
	ns := cluster.Namespace(t)
	addNodes(t, framework.FakeNode{Name: "a", Labels: map[string]string{"disk": "ssd"}}, framework.FakeNode{Name: "b"}, framework.FakeNode{Name: "c"})
	pod(t, ns, "selector", "100m", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	if got := node(t, ns, "selector"); got != "a" {
		t.Errorf("the pod with a node selector is on %q", got)
	}
	required := func(in ...string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: in},
		}}}}
	}
	pod(t, ns, "web", "100m", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required("b")}}
	})
	if got := node(t, ns, "web"); got != "b" {
		t.Errorf("the pod with node affinity is on %q", got)
	}
	term := []corev1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: corev1.LabelHostname}}
	pod(t, ns, "friend", "100m", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
	})
	if got := node(t, ns, "friend"); got != "b" {
		t.Errorf("the pod with affinity to web is on %q", got)
	}
	pod(t, ns, "enemy", "100m", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity:    &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required("b", "c")},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term},
		}
	})
	if got := node(t, ns, "enemy"); got != "c" {
		t.Errorf("the pod with anti-affinity to web is on %q", got)
	}
}

func TestSpreading(t *testing.T) {
	ns := cluster.Namespace(t)
	for zone, names := range map[string][]string{"east": {"e1", "e2"}, "west": {"w1"}} {
		for _, name := range names {
			addNodes(t, framework.FakeNode{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}})
		}
	}
	for i := range 6 {
		pod(t, ns, fmt.Sprintf("p%d", i), "100m", func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "spread"}
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread"}},
			}}
		})
	}
	zones := map[string]int{}
	for i := range 6 {
		zones[node(t, ns, fmt.Sprintf("p%d", i))[:1]]++
	}
	if diff := cmp.Diff(map[string]int{"e": 3, "w": 3}, zones); diff != "" {
		t.Errorf("pods by zone (-want +got):\n%s", diff)
	}
}

func TestPreemption(t *testing.T) {
	ns := cluster.Namespace(t)
	addNodes(t, framework.FakeNode{Name: "only"})
	for name, value := range map[string]int32{"low": 10, "high": 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "test-" + name}, Value: value}
		if _, err := cluster.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cluster.Client.SchedulingV1().PriorityClasses().Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	with := func(class string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = "test-" + class }
	}
	framework.Eventually(t, "the priority classes are known", func() error {
		p := framework.Pod("probe", "probe")
		with("low")(p)
		_, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	pod(t, ns, "victim", "1500m", with("low"))
	node(t, ns, "victim")
	pod(t, ns, "modest", "400m", with("low"))
	node(t, ns, "modest")
	pod(t, ns, "urgent", "1500m", with("high"))
	if got := node(t, ns, "urgent"); got != "only" {
		t.Errorf("the urgent pod is on %q", got)
	}
	framework.Eventually(t, "the victim is gone", func() error {
		_, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "victim", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is there")
	})
	if p, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "modest", metav1.GetOptions{}); err != nil || p.DeletionTimestamp != nil {
		t.Errorf("a pod that was in nobody's way was preempted too: %v", err)
	}
	framework.Eventually(t, "the event", func() error {
		list, err := cluster.Client.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Preempted,regarding.name=victim"})
		if err == nil && len(list.Items) == 0 {
			return errors.New("there is none")
		}
		return err
	})
	// Nobody of the same priority has to go.
	pod(t, ns, "equal", "1500m", with("high"))
	framework.Eventually(t, "a pod of equal priority waits", func() error {
		p, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "equal", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.Status.Conditions) == 0 || !strings.Contains(p.Status.Conditions[0].Message, "preemption: 0/1 nodes are available: 1 Insufficient cpu.") {
			return fmt.Errorf("conditions are %+v", p.Status.Conditions)
		}
		return nil
	})
}

func TestGates(t *testing.T) {
	ns := cluster.Namespace(t)
	addNodes(t, framework.FakeNode{Name: "only"})
	pod(t, ns, "gated", "100m", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} })
	pod(t, ns, "free", "100m")
	node(t, ns, "free")
	p, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "gated", metav1.GetOptions{})
	if err != nil || p.Spec.NodeName != "" || len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Reason != corev1.PodReasonSchedulingGated {
		t.Errorf("the gated pod is on %q with %+v, %v", p.Spec.NodeName, p.Status.Conditions, err)
	}
	if _, err := cluster.Client.CoreV1().Pods(ns).Patch(t.Context(), "gated", types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	node(t, ns, "gated")
}

// A round goes on where it stopped, although nothing is left of the pods; the rights of the scheduler are enough for that.
func TestRoundRobin_Restart(t *testing.T) {
	ns := cluster.Namespace(t)
	noNodes(t, ns)
	addNodes(t, framework.FakeNode{Name: "a"}, framework.FakeNode{Name: "b"}, framework.FakeNode{Name: "c"})
	turns := func(prefix string, n int) string {
		t.Helper()
		var nodes []string
		for i := range n {
			name := fmt.Sprint(prefix, i)
			pod(t, ns, name, "1m", func(p *corev1.Pod) { p.Spec.SchedulerName = "round-robin" })
			nodes = append(nodes, node(t, ns, name))
		}
		return strings.Join(nodes, " ")
	}
	if got := turns("p", 5); got != "a b c a b" {
		t.Errorf("pods are on %s", got)
	}
	if err := stopScheduler(); err != nil {
		t.Error(err)
	}
	now := int64(0)
	if err := cluster.Client.CoreV1().Pods(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if stopScheduler, err = cluster.StartScheduler(); err != nil {
		t.Fatal(err)
	}
	if got := turns("q", 4); got != "c a b c" {
		t.Errorf("after a restart pods are on %s", got)
	}
	// The scheduler may write its rounds and no other ConfigMap.
	client := framework.ClientFor(t, cluster.User("system:kube-scheduler"))
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), other, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the scheduler may write another ConfigMap: %v", err)
	}
	rounds, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "scheduler-rounds", metav1.GetOptions{})
	if err != nil || rounds.Data["round-robin"] != "c" {
		t.Errorf("kept is %v (%v)", rounds.Data, err)
	}
}
