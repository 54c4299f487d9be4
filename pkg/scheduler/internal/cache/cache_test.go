// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func names(s *framework.Snapshot) (out []string) {
	for _, n := range s.Nodes() {
		out = append(out, n.Node().Name)
	}
	return out
}

func TestSnapshot_ZonesTakeTurns(t *testing.T) {
	c := New()
	for name, zone := range map[string]string{"a": "1", "b": "1", "c": "1", "d": "2", "e": "3"} {
		c.AddNode(pt.Node(name, pt.NodeLabels(corev1.LabelTopologyZone, zone)))
	}
	if diff := cmp.Diff([]string{"a", "d", "e", "b", "c"}, names(c.Snapshot())); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	c.RemoveNode("a")
	if diff := cmp.Diff([]string{"b", "d", "e", "c"}, names(c.Snapshot())); diff != "" {
		t.Errorf("order without a (-want +got):\n%s", diff)
	}
}

// listed is how many nodes have pods with terms on others that may reject a newcomer.
func listed(t *testing.T, s *framework.Snapshot) int {
	t.Helper()
	nodes, err := s.HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		t.Fatal(err)
	}
	return len(nodes)
}

func TestSnapshot_NodesAreImmutable(t *testing.T) {
	c := New()
	c.AddNode(pt.Node("a"))
	c.AddNode(pt.Node("b"))
	s := c.Snapshot()
	beforeA, beforeB := s.Node("a"), s.Node("b")
	c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1"), pt.HostPort("", corev1.ProtocolTCP, 80), pt.Claim("c"), pt.Affinity(pt.AwayFrom("k", "v", "z"))))
	if listed(t, s) != 0 {
		t.Error("the snapshot changed while a cycle used it")
	}
	trace := func(n fwk.NodeInfo) [4]int {
		return [4]int{len(n.GetPods()), int(n.GetRequested().GetMilliCPU()), n.GetUsedPorts().Len(), n.GetPVCRefCounts()["default/c"]}
	}
	s = c.Snapshot()
	if got := trace(beforeA); got != [4]int{} {
		t.Errorf("a node of an older snapshot changed: %v", got)
	}
	if got := trace(s.Node("a")); got != [4]int{1, 1000, 1, 1} || listed(t, s) != 1 {
		t.Errorf("the new snapshot misses the pod: %v", got)
	}
	if beforeB != s.Node("b") {
		t.Error("an unchanged node was copied")
	}
	c.RemovePod("p")
	s = c.Snapshot()
	if got := trace(s.Node("a")); got != [4]int{} || listed(t, s) != 0 {
		t.Errorf("the removed pod left a trace: %v", got)
	}
}

// A pod's status that no plugin looks at leaves its node as it was.
func TestAddPod_StatusOnly(t *testing.T) {
	c := New()
	c.AddNode(pt.Node("a"))
	c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1")))
	before := c.Snapshot().Node("a")
	c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1"), func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }))
	if c.Snapshot().Node("a") != before {
		t.Error("a status update dirtied the node")
	}
	c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "2")))
	if got := c.Snapshot().Node("a").GetRequested().GetMilliCPU(); got != 2000 {
		t.Errorf("requested = %d, want the newer 2000", got)
	}
}

// A kubelet tells in the status how far it is with a resize; the room counts as taken until then.
func TestAddPod_Resized(t *testing.T) {
	requirements := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	told := func(cpu string) []corev1.ContainerStatus {
		r := requirements(cpu)
		return []corev1.ContainerStatus{{Name: "sidecar", AllocatedResources: r.Requests, Resources: &r}}
	}
	for _, tc := range []struct {
		name string
		spec func(*corev1.PodSpec)
		told func(s *corev1.PodStatus, cpu string)
	}{
		{"a sidecar", func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: requirements("1")}}
		}, func(s *corev1.PodStatus, cpu string) { s.InitContainerStatuses = told(cpu) }},
		{"the pod as a whole", func(s *corev1.PodSpec) { s.Resources = new(requirements("1")) }, func(s *corev1.PodStatus, cpu string) {
			r := requirements(cpu)
			s.AllocatedResources, s.Resources = r.Requests, &r
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			version := func(cpu string) *corev1.Pod {
				return pt.Pod("p", pt.On("a"), func(p *corev1.Pod) {
					tc.spec(&p.Spec)
					tc.told(&p.Status, cpu)
				})
			}
			c := New()
			c.AddNode(pt.Node("a"))
			for _, step := range []struct {
				cpu  string
				want int64
			}{{"3", 3000}, {"1", 1000}} {
				c.AddPod(version(step.cpu))
				if got := c.Snapshot().Node("a").GetRequested().GetMilliCPU(); got != step.want {
					t.Errorf("requested %d while the kubelet tells of %s, want %d", got, step.cpu, step.want)
				}
			}
			if got := framework.PodActions(version("3"), version("1")); got != fwk.UpdatePodScaleDown {
				t.Errorf("the event that wakes others is %b, want %b", got, fwk.UpdatePodScaleDown)
			}
		})
	}
}

func TestSnapshot_CountsImages(t *testing.T) {
	c := New()
	image := pt.Image("i:latest", 10)
	c.AddNode(pt.Node("a", image))
	c.AddNode(pt.Node("b", image))
	if got := c.Snapshot().Node("a").GetImageStates()["i:latest"]; got.NumNodes != 2 || got.Size != 10 {
		t.Errorf("got %+v, want it on 2 nodes", got)
	}
	c.AddNode(pt.Node("b"))
	if got := c.Snapshot().Node("a").GetImageStates()["i:latest"]; got.NumNodes != 1 {
		t.Errorf("got %+v, want it on 1 node", got)
	}
	c.RemoveNode("a")
	if c.Snapshot(); len(c.images) != 0 {
		t.Error("an image that no node has is kept")
	}
}

// A node that was deleted registers anew while its pods are still there.
func TestSnapshot_CountsImagesOfNodeThatComesBack(t *testing.T) {
	c := New()
	shared, own := pt.Image("shared:latest", 10), pt.Image("own:latest", 10)
	c.AddNode(pt.Node("a", shared, own))
	c.AddNode(pt.Node("b", shared))
	c.AddPod(pt.Pod("p", pt.On("a")))
	for range 2 {
		c.RemoveNode("a")
		if got := c.Snapshot().Node("b").GetImageStates()["shared:latest"].NumNodes; got != 1 {
			t.Errorf("the shared image is on %d nodes without a, want 1", got)
		}
		c.AddNode(pt.Node("a", shared, own))
		images := c.Snapshot().Node("a").GetImageStates()
		if got := [2]int{images["shared:latest"].NumNodes, images["own:latest"].NumNodes}; got != [2]int{2, 1} {
			t.Errorf("the images of a are on %v nodes, want 2 and 1", got)
		}
	}
}

func TestAssume(t *testing.T) {
	pending := framework.NewPodInfo(pt.Pod("p", pt.Requests("cpu", "1")))
	for _, tc := range []struct {
		name string
		then func(c *Cache)
		// CPU in use on a and b, and assumed pods
		a, b    int64
		assumed int
	}{
		{"nothing", func(*Cache) {}, 1000, 0, 1},
		{"forgotten", func(c *Cache) {
			if p := c.Forget("p"); p == nil || p.Spec.NodeName != "a" || c.Forget("p") != nil {
				t.Errorf("forgot %v, want the pod on a, once", p)
			}
		}, 0, 0, 0},
		{"confirmed", func(c *Cache) { c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1"))) }, 1000, 0, 0},
		{"confirmed, forgotten too late", func(c *Cache) {
			c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1")))
			c.Forget("p")
		}, 1000, 0, 0},
		{"bound elsewhere", func(c *Cache) { c.AddPod(pt.Pod("p", pt.On("b"), pt.Requests("cpu", "1"))) }, 0, 1000, 0},
		{"deleted", func(c *Cache) { c.RemovePod("p") }, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := New()
			c.AddNode(pt.Node("a"))
			c.AddNode(pt.Node("b"))
			if err := c.Assume(pending.WithNode("a")); err != nil {
				t.Fatal(err)
			}
			if err := c.Assume(pending.WithNode("b")); err == nil {
				t.Error("a pod was assumed twice")
			}
			tc.then(c)
			s := c.Snapshot()
			_, _, assumed := c.Counts()
			got := [3]int64{s.Node("a").GetRequested().GetMilliCPU(), s.Node("b").GetRequested().GetMilliCPU(), int64(assumed)}
			if want := [3]int64{tc.a, tc.b, int64(tc.assumed)}; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	if pending.Pod.Spec.NodeName != "" {
		t.Error("assuming changed the pending pod")
	}
}

func TestPodBeforeNode(t *testing.T) {
	c := New()
	c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1")))
	if len(c.Snapshot().Nodes()) != 0 {
		t.Error("an unknown node is in the snapshot")
	}
	c.AddNode(pt.Node("a"))
	if n := c.Snapshot().Node("a"); n == nil || n.GetRequested().GetMilliCPU() != 1000 {
		t.Error("the pod that came first is not on its node")
	}
	c.RemoveNode("a")
	c.RemovePod("p")
	if len(c.nodes) != 0 {
		t.Error("a removed node without pods is kept")
	}
}
