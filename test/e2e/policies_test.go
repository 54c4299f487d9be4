// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPolicies runs examples/scheduling on three nodes, of which one is busy. A round goes on when the process was killed, and the policy of
// pods that name no scheduler is a setting.
func TestPolicies(t *testing.T) {
	c := newCluster(t, "policies")
	fails(t, c, "up", []string{"--nodes", "3", "--scheduler-policy", "MostCpu"}, `there is no scheduler policy "MostCpu": use one of Default, RoundRobin, Random, LeastPod, LeastCpu, LeastMem`)
	k := up(t, c, "--nodes", "3")
	names := k.nodeNames(t)
	eventually(t, 20*time.Second, "nodes that take pods", func(ctx context.Context) error { // a Ready one is tainted for an instant still
		nodes, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			if n := &nodes.Items[i]; len(n.Spec.Taints) > 0 {
				return fmt.Errorf("%s has %v", n.Name, n.Spec.Taints)
			}
		}
		return nil
	})
	got := k.placed(t, "round-robin", "turn-", 5)
	first := slices.Index(names, got[0]) // the scheduler may have heard of another one first
	round := func(n int) (want []string) {
		for i := range n {
			want = append(want, names[(first+i)%len(names)])
		}
		return want
	}

	kill(t, k)
	k = up(t, c)
	got = append(got, k.placed(t, "round-robin", "later-", 4)...)
	if diff := cmp.Diff(round(9), got); diff != "" {
		t.Errorf("nodes in turn, of which four after the process was killed (-want +got):\n%s", diff)
	}

	busy := c.Name + "-2"
	k.applyChanged(t, "busy.yaml", "minik8s-2", busy)
	k.kubectl(t, "wait", "--for=condition=Ready", "pod/busy", "--timeout=60s")
	hold := k.client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/pods/busy:8080/proxy/hold").Param("mib", "500")
	if err := hold.Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the busy pod measured", func(ctx context.Context) error {
		r, err := k.run(ctx, "top", "pod", "busy", "--no-headers")
		if err != nil {
			return err
		}
		f := strings.Fields(r.Stdout)
		if len(f) != 3 {
			return fmt.Errorf("got %s", r)
		}
		cpu, memory := resource.MustParse(f[1]), resource.MustParse(f[2])
		if cpu.MilliValue() < 150 || memory.Value() < 450<<20 {
			return fmt.Errorf("it uses %v and %v", f[1], f[2])
		}
		return nil
	})
	before := k.pods(t, "")
	k.applyChanged(t, "policies.yaml", "replicas: 6", "replicas: 3")
	for _, policy := range []string{"round-robin", "random", "least-pod", "least-cpu", "least-mem"} {
		k.kubectl(t, "rollout", "status", "deployment/"+policy, "--timeout=120s")
	}
	if diff := cmp.Diff(map[string]int{names[0]: 1, names[1]: 1, names[2]: 1}, k.pods(t, "policy=round-robin")); diff != "" {
		t.Errorf("pods of round-robin (-want +got):\n%s", diff)
	}
	for _, policy := range []string{"least-cpu", "least-mem"} {
		if on := k.pods(t, "policy="+policy); on[busy] != 0 {
			t.Errorf("pods of %s are on %v, and %s is busy", policy, on, busy)
		}
	}
	if sum := k.pods(t, "policy=random"); sum[names[0]]+sum[names[1]]+sum[names[2]] != 3 {
		t.Errorf("pods of random are on %v", sum)
	}
	k.evens(t, "least-pod", names)
	t.Logf("pods before %v, of each policy:\n%s", before, k.show(t))

	if err := k.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	k = up(t, c, "--scheduler-policy", "leastpod")
	k.kubectl(t, "delete", "deployments", "--all", "--cascade=foreground", "--timeout=120s")
	k.evens(t, corev1.DefaultSchedulerName, names)
}

// evens places pods by a scheduler until nodes have as many pods as each other, and one more on two of them.
func (k *kube) evens(t *testing.T, schedulerName string, names []string) {
	t.Helper()
	counts := k.pods(t, "")
	most := max(counts[names[0]], counts[names[1]], counts[names[2]])
	want, missing := map[string]int{}, 2
	for i, name := range names {
		missing += most - counts[name]
		want[name] = most
		if i < 2 {
			want[name]++
		}
	}
	k.placed(t, schedulerName, "even-"+schedulerName+"-", missing)
	if diff := cmp.Diff(want, k.pods(t, "")); diff != "" {
		t.Errorf("of nodes that had %v pods (-want +got):\n%s", counts, diff)
	}
}

// nodeNames are the nodes in the order of their names.
func (k *kube) nodeNames(t *testing.T) (names []string) {
	t.Helper()
	nodes, err := k.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// placed makes pods one after the other, and tells where they are.
func (k *kube) placed(t *testing.T, schedulerName, prefix string, n int) (nodes []string) {
	t.Helper()
	for i := range n {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, i)}, Spec: corev1.PodSpec{
			SchedulerName: schedulerName, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "c", Image: frontendImage, Args: []string{"static", "/"}}},
		}}
		if _, err := k.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the node of "+p.Name, func(ctx context.Context) error {
			p, err := k.client.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if p.Spec.NodeName == "" {
				return fmt.Errorf("it has none: %v", p.Status.Conditions)
			}
			nodes = append(nodes, p.Spec.NodeName)
			return nil
		})
	}
	return nodes
}

// pods counts pods by node.
func (k *kube) pods(t *testing.T, selector string) map[string]int {
	t.Helper()
	list, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for i := range list.Items {
		counts[list.Items[i].Spec.NodeName]++
	}
	return counts
}

// applyChanged applies a manifest of examples/scheduling with a text replaced.
func (k *kube) applyChanged(t *testing.T, file, old, new string) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(suite.root, "examples", "scheduling", file))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(manifest), old, new)), 0o600); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "apply", "-f", path)
}

// show runs the example's program of that name.
func (k *kube) show(t *testing.T) string {
	t.Helper()
	cmd := k.command(t.Context(), "version")
	cmd.Path, cmd.Args = filepath.Join(suite.root, "examples", "scheduling", "show"), []string{"show"}
	cmd.Env = append(cmd.Env, "PATH="+filepath.Join(suite.root, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("show: %v: %s", err, out)
	}
	for _, policy := range []string{"round-robin", "random", "least-pod", "least-cpu", "least-mem"} {
		contains(t, string(out), policy)
	}
	return string(out)
}
