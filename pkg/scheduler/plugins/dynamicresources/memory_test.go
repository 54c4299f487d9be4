// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/dra"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// shared is a slice of a device that all nodes reach.
func shared(name string) *resourcev1.ResourceSlice {
	s := slice(name, name)
	s.Spec.NodeName, s.Spec.AllNodes = nil, new(true)
	return s
}

// selecting is class c with devices of a driver only.
func selecting(driver string) *resourcev1.DeviceClass {
	c := class("c")
	c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}
	return c
}

// world is a cluster whose slices and classes change.
type world struct {
	*testing.T
	*pt.Handle
	manager *dra.Manager
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	h := pt.NewHandle(nil, objects...)
	return &world{t, h, h.SharedDRAManager().(*dra.Manager)}
}

func (w *world) plugin() *DynamicResources {
	return pt.NewPlugin(w.T, w.Handle, New).(*DynamicResources)
}

// until changes something, and waits until the source has told.
func (w *world) until(s *dra.Source, change func() error) {
	w.Helper()
	before := s.Changes()
	if err := change(); err != nil {
		w.Fatal(err)
	}
	await(w.T, func() bool { return s.Changes() > before })
}

func (w *world) setSlice(s *resourcev1.ResourceSlice) {
	w.until(w.manager.Slices(), func() error {
		_, err := w.Fake.ResourceV1().ResourceSlices().Update(w.Context(), s, metav1.UpdateOptions{})
		return err
	})
}

func (w *world) setClass(c *resourcev1.DeviceClass) {
	w.until(w.manager.Classes(), func() error {
		_, err := w.Fake.ResourceV1().DeviceClasses().Update(w.Context(), c, metav1.UpdateOptions{})
		return err
	})
}

// search is one cycle of a pod, and what is said of nodes in it.
func (w *world) search(pl *DynamicResources, pod *corev1.Pod, nodes ...*corev1.Node) (cs *framework.CycleState, verdicts map[string]string) {
	w.Helper()
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, n := range nodes {
		infos[i] = framework.NewNodeInfo(n)
	}
	cs, verdicts = framework.NewCycleState(framework.NewPodInfo(pod)), map[string]string{}
	if _, s := pl.PreFilter(w.Context(), cs, pod, infos); !s.IsSuccess() {
		w.Fatalf("PreFilter: %v", s)
	}
	for _, n := range infos {
		s := pl.Filter(w.Context(), cs, pod, n)
		if !s.IsSuccess() && !s.IsRejected() {
			w.Fatalf("Filter: %v", s)
		}
		verdicts[n.Node().Name] = s.Message()
	}
	return cs, verdicts
}

func given(cs fwk.CycleState) map[string][]*resourcev1.AllocationResult {
	out := map[string][]*resourcev1.AllocationResult{}
	for node, place := range read(cs).placements {
		out[node] = place.allocations
	}
	return out
}

// What was found of a node is looked up until something changes that it follows from.
func TestMemory(t *testing.T) {
	a, b := pt.Node("a"), pt.Node("b")
	for name, tc := range map[string]struct {
		change func(w *world, pl *DynamicResources)
		node   *corev1.Node
		same   bool
	}{
		"nothing":        {change: func(*world, *DynamicResources) {}, same: true},
		"another's pool": {change: take("b"), same: true},
		"own pool":       {change: take("a")},
		"slice":          {change: func(w *world, _ *DynamicResources) { w.setSlice(slice("a", "1", "2", "4")) }},
		"class":          {change: func(w *world, _ *DynamicResources) { w.setClass(selecting(driver)) }},
		"node":           {change: func(*world, *DynamicResources) {}, node: pt.Node("a")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, class("c"), slice("a", "1", "2", "3"), slice("b", "1", "2"), claim("x"), claim("y"))
			pl, pod := w.plugin(), pt.Pod("p", uses("x"))
			w.search(pl, pod, a, b) // the first of its kind is not remembered
			before, _ := w.search(pl, pod, a, b)
			tc.change(w, pl)
			node := a
			if tc.node != nil {
				node = tc.node
			}
			after, _ := w.search(pl, pod, node, b)
			if same := given(before)["a"][0] == given(after)["a"][0]; same != tc.same {
				t.Errorf("found anew: %t, want %t", !same, !tc.same)
			}
		})
	}
}

// take has another pod take a device of a node.
func take(node string) func(*world, *DynamicResources) {
	return func(w *world, pl *DynamicResources) {
		pod := pt.Pod("other", uses("y"))
		cs, _ := w.search(pl, pod, pt.Node(node))
		if s := pl.Reserve(w.Context(), cs, pod, node); !s.IsSuccess() {
			w.Fatal(s)
		}
	}
}

// A cycle whose allocator does not know what was taken since it began leaves nothing behind.
func TestMemory_Meanwhile(t *testing.T) {
	w := newWorld(t, class("c"), slice("a", "1"), claim("x"), claim("y"))
	pl, pod, node := w.plugin(), pt.Pod("p", uses("x")), pt.Node("a")
	w.search(pl, pod, node)
	cs := framework.NewCycleState(framework.NewPodInfo(pod))
	if _, s := pl.PreFilter(t.Context(), cs, pod, nil); !s.IsSuccess() {
		t.Fatal(s)
	}
	take("a")(w, pl)
	if s := pl.Filter(t.Context(), cs, pod, framework.NewNodeInfo(node)); !s.IsSuccess() {
		t.Fatal(s) // by what was free then
	}
	if _, verdicts := w.search(pl, pod, node); verdicts["a"] == "" {
		t.Error("a device that is taken is there still")
	}
}

// Whatever changes, who remembers finds what one finds who has never looked.
func TestMemory_Follows(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	names := []string{"a", "b", "c", "d"}
	objects := []runtime.Object{class("c"), shared("s1"), shared("s2")}
	nodes := make([]*corev1.Node, len(names))
	for i, n := range names {
		nodes[i] = pt.Node(n)
		objects = append(objects, slice(n, "1", "2"))
	}
	const claims = 6
	for i := range claims {
		objects = append(objects, claim(fmt.Sprint("one-", i)), claim(fmt.Sprint("two-", i), func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.Count = 2
		}))
	}
	w := newWorld(t, objects...)
	pl := w.plugin()
	held := map[string]func(){} // by claim
	for range 400 {
		switch random.IntN(12) {
		case 0:
			w.setSlice(slice(names[random.IntN(len(names))], []string{"1", "2", "3"}[:random.IntN(4)]...))
		case 1:
			w.setClass([]*resourcev1.DeviceClass{class("c"), selecting(driver), selecting("none")}[random.IntN(3)])
		case 2:
			nodes[random.IntN(len(nodes))] = pt.Node(names[0])
			for i, n := range names {
				if nodes[i].Name != n {
					nodes[i] = pt.Node(n)
				}
			}
		case 3, 4, 5:
			for name, release := range held {
				release()
				delete(held, name)
				break
			}
		}
		name := fmt.Sprintf("%s-%d", []string{"one", "two"}[random.IntN(2)], random.IntN(claims))
		if held[name] != nil {
			continue
		}
		pod := pt.Pod("p-"+name, uses(name))
		cs, got := w.search(pl, pod, nodes...)
		forgetful := *pl
		forgetful.memory = newMemory(w.manager, w.manager.Known())
		fresh, want := w.search(&forgetful, pod, nodes...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-fresh +remembered\n%s", diff)
		}
		if diff := cmp.Diff(given(fresh), given(cs)); diff != "" {
			t.Fatalf("-fresh +remembered\n%s", diff)
		}
		node := names[random.IntN(len(names))]
		if got[node] != "" {
			continue
		}
		if s := pl.Reserve(t.Context(), cs, pod, node); !s.IsSuccess() {
			t.Fatal(s)
		}
		held[name] = func() { pl.Unreserve(t.Context(), cs, pod, node) }
	}
}
