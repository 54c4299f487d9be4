// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
	"minik8s.io/minik8s/pkg/scheduler/policies"
)

// by makes a pod choose a profile.
func by(schedulerName string) pt.PodOption {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = schedulerName }
}

// threeNodes are nodes a, b and c, and one that no pod tolerates.
func threeNodes(more ...runtime.Object) []runtime.Object {
	return append([]runtime.Object{
		pt.Node("c"), pt.Node("a"), pt.Node("b"), pt.Node("aa-tainted", pt.Taint("k", "v", corev1.TaintEffectNoSchedule)),
	}, more...)
}

func (c cluster) create(pods ...*corev1.Pod) {
	c.Helper()
	for _, p := range pods {
		if _, err := c.client.CoreV1().Pods("default").Create(c.Context(), p, metav1.CreateOptions{}); err != nil {
			c.Fatal(err)
		}
	}
}

// nodeOf waits for a pod's node.
func (c cluster) nodeOf(name string) string {
	c.Helper()
	node := ""
	c.await("the node of "+name, func() bool {
		if p := c.pod(name); p != nil {
			node = p.Spec.NodeName
		}
		return node != ""
	})
	return node
}

// inTurn makes pods of a profile one after the other, and tells where they are.
func (c cluster) inTurn(schedulerName, prefix string, n int, options ...pt.PodOption) string {
	c.Helper()
	var nodes []string
	for i := range n {
		name := fmt.Sprint(prefix, i)
		c.create(pt.Pod(name, append([]pt.PodOption{by(schedulerName)}, options...)...))
		nodes = append(nodes, c.nodeOf(name))
	}
	return strings.Join(nodes, " ")
}

// atOnce makes pods of a profile at the same time, and tells how many are where.
func (c cluster) atOnce(schedulerName, prefix string, n int) map[string]int {
	c.Helper()
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, pt.Pod(fmt.Sprint(prefix, i), by(schedulerName)))
	}
	c.create(pods...)
	counts := map[string]int{}
	for _, p := range pods {
		counts[c.nodeOf(p.Name)]++
	}
	return counts
}

func (c cluster) equal(what string, want, got any) {
	c.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestPolicies_RoundRobin(t *testing.T) {
	client := newClient(threeNodes()...)
	keepBindings(client)
	c, stop := startUntil(t, client, Config{})
	c.equal("nodes in turn", "a b c a", c.inTurn("round-robin", "first-", 4))
	c.equal("pods made at once", map[string]int{"a": 10, "b": 10, "c": 10}, c.atOnce("round-robin", "many-", 30))
	// What a pod may not run on has no turn.
	c.equal("nodes of pods that leave out b", "c a c", c.inTurn("round-robin", "some-", 3, pt.Affinity(&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"b"}}},
		}}},
	}})))
	c.equal("nodes in turn", "a b", c.inTurn("round-robin", "last-", 2))
	stop()
	// Nothing is left of the pods, and the node of the last turn is gone.
	if err := client.CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c = startOn(t, client, Config{})
	c.equal("nodes after a restart", "c a c", c.inTurn("round-robin", "again-", 3))
}

func TestPolicies_Random(t *testing.T) {
	c := start(t, Config{}, threeNodes()...)
	counts := c.atOnce("random", "r-", 90)
	for _, node := range []string{"a", "b", "c"} {
		if n := counts[node]; n < 15 || n > 45 {
			t.Errorf("%d of 90 pods are on %s", n, node)
		}
	}
	order := strings.Fields(c.inTurn("random", "one-", 12))
	if len(slices.Compact(slices.Clone(order))) < 4 {
		t.Errorf("pods of the same second are on %v", order)
	}
}

func TestPolicies_LeastPod(t *testing.T) {
	c := start(t, Config{}, threeNodes(
		pt.Pod("1", pt.On("a"), pt.Requests("cpu", "1m")), pt.Pod("2", pt.On("a"), pt.Requests("cpu", "1m")), pt.Pod("3", pt.On("b"), pt.Requests("cpu", "3")),
	)...)
	c.equal("nodes", "c b c a b c", c.inTurn("least-pod", "p-", 6))
	c.equal("pods made at once", map[string]int{"a": 4, "b": 4, "c": 4}, c.atOnce("least-pod", "many-", 12))
}

func TestPolicies_LeastCpuAndMem(t *testing.T) {
	metrics := pt.NewMetrics(t).
		Node("a", "cpu", "3", "memory", "1Gi").Node("b", "cpu", "1", "memory", "1Gi").Node("c", "cpu", "1", "memory", "6Gi").
		Node("aa-tainted", "cpu", "0", "memory", "0")
	c := start(t, Config{KubeConfig: metrics.Config()}, threeNodes()...)
	// What was not asked of metrics yet counts: 100m and 200Mi each.
	c.equal("nodes by CPU", "b c b c b c", c.inTurn("least-cpu", "cpu-", 6))
	c.equal("pods by memory", map[string]int{"a": 9, "b": 6}, c.atOnce("least-mem", "mem-", 15))
}

// While a pod waits for figures others are scheduled.
func TestPolicies_WaitForFigures(t *testing.T) {
	metrics := pt.NewMetrics(t).Node("a", "cpu", "2").Node("b", "cpu", "1").Node("c", "cpu", "3")
	release := metrics.Hold()
	defer release()
	c := start(t, Config{KubeConfig: metrics.Config()}, threeNodes()...)
	c.create(pt.Pod("waits", by("least-cpu")))
	c.equal("nodes of others", "a b", c.inTurn("round-robin", "r-", 2))
	c.create(pt.Pod("default"))
	c.nodeOf("default")
	if node := c.pod("waits").Spec.NodeName; node != "" {
		t.Errorf("the pod is on %s before anything is known", node)
	}
	release()
	c.awaitNode("waits", "b")
}

// Without figures the node with the fewest pods is taken.
func TestPolicies_NoFigures(t *testing.T) {
	metrics := pt.NewMetrics(t)
	metrics.Break(true)
	c := start(t, Config{KubeConfig: metrics.Config()}, threeNodes(pt.Pod("there", pt.On("a")))...)
	c.equal("nodes", "b c a", c.inTurn("least-mem", "p-", 3))
}

func TestPolicies_OfDefaultScheduler(t *testing.T) {
	c := start(t, Config{Policy: "RoundRobin"}, threeNodes()...)
	c.equal("nodes", "a b c a", c.inTurn(corev1.DefaultSchedulerName, "p-", 4))
	c.equal("nodes of the profile, which has a round of its own", "a b", c.inTurn("round-robin", "q-", 2))
	kept, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "scheduler-rounds", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.equal("what is kept", map[string]string{"default-scheduler": "a", "round-robin": "b"}, kept.Data)
}

func TestPolicies_OwnProfiles(t *testing.T) {
	own := func() *configv1.KubeSchedulerConfiguration {
		return &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{
			{SchedulerName: new("own"), Plugins: &configv1.Plugins{
				MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{{Name: "RoundRobin"}}},
				Score:      configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "*"}}, Enabled: []configv1.Plugin{{Name: "RoundRobin"}}},
			}},
		}}
	}
	c := start(t, Config{Configuration: own()}, threeNodes(pt.Pod("nobody", by("least-pod")))...)
	c.equal("nodes", "a b c a", c.inTurn("own", "p-", 4))
	if node := c.pod("nobody").Spec.NodeName; node != "" {
		t.Errorf("a pod whose profile is not in the configuration is on %s", node)
	}
	_, err := New(Config{Client: c.client, Informers: NewInformers(c.client, nil), Configuration: own(), Policy: policies.Policy("Random")})
	if err == nil || !strings.Contains(err.Error(), "enable the plugin Random in one of them") {
		t.Errorf("a policy besides profiles gives %v", err)
	}
}
