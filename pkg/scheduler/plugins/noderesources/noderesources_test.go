// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]string
	}{
		{"fits", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", pt.Requests("cpu", "4", "memory", "8Gi")), map[string]string{"a": ""}},
		{"everything is short", []*corev1.Node{pt.Node("a", pt.Allocatable("ephemeral-storage", "1Gi", "example.com/thing", "1"))},
			[]*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Requests("cpu", "3", "example.com/thing", "1"))},
			pt.Pod("p", pt.Requests("cpu", "2", "memory", "9Gi", "ephemeral-storage", "2Gi", "example.com/thing", "1")),
			map[string]string{"a": "Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage, Insufficient example.com/thing"}},
		{"too many pods", []*corev1.Node{pt.Node("a", pt.Allocatable("pods", "1"))}, []*corev1.Pod{pt.Pod("o", pt.On("a"))}, pt.Pod("p"), map[string]string{"a": "Too many pods"}},
		{"asks for nothing on an overfull node", []*corev1.Node{pt.Node("a", pt.Allocatable("cpu", "1"))}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Requests("cpu", "2"))}, pt.Pod("p"), map[string]string{"a": ""}},
		{"init containers run one by one, sidecars stay", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", pt.Requests("cpu", "2"), func(p *corev1.Pod) {
			always := corev1.ContainerRestartPolicyAlways
			ask := func(cpu string) corev1.ResourceRequirements {
				return pt.Pod("x", pt.Requests("cpu", cpu)).Spec.Containers[0].Resources
			}
			p.Spec.InitContainers = []corev1.Container{
				{Name: "sidecar", RestartPolicy: &always, Resources: ask("1500m")},
				{Name: "init", Resources: ask("2600m")},
			}
		}), map[string]string{"a": "Insufficient cpu"}},
		{"overhead", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", pt.Requests("cpu", "4"), func(p *corev1.Pod) {
			p.Spec.Overhead = pt.Pod("x", pt.Requests("cpu", "1m")).Spec.Containers[0].Resources.Requests
		}), map[string]string{"a": "Insufficient cpu"}},
		{"pod-level resources", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", pt.Requests("cpu", "1"), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: pt.Pod("x", pt.Requests("cpu", "5")).Spec.Containers[0].Resources.Requests}
		}), map[string]string{"a": "Insufficient cpu"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(tc.nodes, tc.pods...))
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilter_Code(t *testing.T) {
	busy := pt.Nodes([]*corev1.Node{pt.Node("a")}, pt.Pod("o", pt.On("a"), pt.Requests("cpu", "3")))[0]
	for _, tc := range []struct {
		name, cpu string
		want      fwk.Code
	}{
		{"fits", "1", fwk.Success},
		{"fits an empty node", "4", fwk.Unschedulable},
		{"fits no such node", "5", fwk.UnschedulableAndUnresolvable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fit, err := New(t.Context(), nil, pt.NewHandle(nil))
			if err != nil {
				t.Fatal(err)
			}
			pod := pt.Pod("p", pt.Requests("cpu", tc.cpu))
			got := fit.(*Fit).Filter(t.Context(), framework.NewCycleState(framework.NewPodInfo(pod)), pod, busy)
			if got.Code() != tc.want {
				t.Errorf("got %v, want %v", got.Code(), tc.want)
			}
		})
	}
}

func TestScore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]int64
	}{
		{"the emptier node is better", []*corev1.Node{pt.Node("a"), pt.Node("b")}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Requests("cpu", "2", "memory", "4Gi"))},
			pt.Pod("p", pt.Requests("cpu", "1", "memory", "2Gi")), map[string]int64{"a": 25, "b": 75}},
		{"a node without resources", []*corev1.Node{pt.Node("a", pt.Allocatable("cpu", "0", "memory", "0"))}, nil, pt.Pod("p"), map[string]int64{"a": 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(tc.nodes, tc.pods...))
			got := pt.Score(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequeue(t *testing.T) {
	grown := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}
	shrunk := fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodScaleDown}
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"a pod is gone", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pt.Pod("o"), nil, true},
		{"a large node", pt.Pod("p", pt.Requests("cpu", "3")), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a"), true},
		{"a small node", pt.Pod("p", pt.Requests("cpu", "5")), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}, nil, pt.Node("a"), false},
		{"a node grew in what the pod asks for", pt.Pod("p", pt.Requests("cpu", "3")), grown, pt.Node("a", pt.Allocatable("cpu", "3")), pt.Node("a"), true},
		{"a node grew in something else", pt.Pod("p", pt.Requests("cpu", "3")), grown, pt.Node("a"), pt.Node("a", pt.Allocatable("memory", "9Gi")), false},
		{"a node shrank", pt.Pod("p", pt.Requests("cpu", "3")), grown, pt.Node("a", pt.Allocatable("cpu", "5")), pt.Node("a"), false},
		{"a node allows more pods", pt.Pod("p"), grown, pt.Node("a", pt.Allocatable("pods", "1")), pt.Node("a"), true},
		{"a node got a device", pt.Pod("p", pt.Requests("example.com/x", "1")), grown, pt.Node("a"), pt.Node("a", pt.Allocatable("example.com/x", "1")), true},
		{"a node where a class may have it", pt.Pod("p", pt.Requests("example.com/class", "1")), grown, pt.Node("a"), pt.Node("a", pt.Allocatable("memory", "9Gi")), true},
		{"a pod takes less of it", pt.Pod("p", pt.Requests("cpu", "3")), shrunk, pt.Pod("o", pt.On("a"), pt.Requests("cpu", "2")), pt.Pod("o", pt.On("a"), pt.Requests("cpu", "1")), true},
		{"a pod takes less of something else", pt.Pod("p", pt.Requests("memory", "3Gi")), shrunk, pt.Pod("o", pt.On("a"), pt.Requests("cpu", "2")), pt.Pod("o", pt.On("a"), pt.Requests("cpu", "1")), false},
		{"a class by its name", pt.Pod("p", pt.Requests(resourcev1.ResourceDeviceClassPrefix+"c", "1")), fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add}, nil, class("c", ""), true},
		{"a class of the resource", pt.Pod("p", pt.Requests("example.com/x", "1")), fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update}, class("c", ""), class("c", "example.com/x"), true},
		{"a class as before", pt.Pod("p", pt.Requests("example.com/x", "1")), fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update}, class("c", "example.com/x"), class("c", "example.com/x"), false},
		{"a class of another resource", pt.Pod("p", pt.Requests("example.com/x", "1")), fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add}, nil, class("c", "example.com/y"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil, class("known", "example.com/class"))
			got := pt.Helps(t, pt.NewPlugin(t, h, New), tc.pod, tc.event, tc.old, tc.new)
			if got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestScore_Strategies(t *testing.T) {
	nodes := pt.Nodes([]*corev1.Node{pt.Node("empty"), pt.Node("half")}, pt.Pod("o", pt.On("half"), pt.Requests("cpu", "2", "memory", "4Gi")))
	resources := []configv1.ResourceSpec{{Name: "cpu", Weight: 3}, {Name: "memory", Weight: 1}}
	for _, tc := range []struct {
		name     string
		strategy configv1.ScoringStrategy
		want     map[string]int64
	}{
		{"LeastAllocated", configv1.ScoringStrategy{Type: configv1.LeastAllocated, Resources: resources}, map[string]int64{"empty": 75, "half": 25}},
		{"MostAllocated", configv1.ScoringStrategy{Type: configv1.MostAllocated, Resources: resources}, map[string]int64{"empty": 25, "half": 75}},
		{"RequestedToCapacityRatio", configv1.ScoringStrategy{Type: configv1.RequestedToCapacityRatio, Resources: resources,
			RequestedToCapacityRatio: &configv1.RequestedToCapacityRatioParam{Shape: []configv1.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 50, Score: 10}, {Utilization: 100, Score: 5}}}},
			map[string]int64{"empty": 50, "half": 75}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nodes)
			p, err := New(t.Context(), &configv1.NodeResourcesFitArgs{ScoringStrategy: &tc.strategy}, h)
			if err != nil {
				t.Fatal(err)
			}
			got := pt.Score(t, h, p, pt.Pod("p", pt.Requests("cpu", "1", "memory", "2Gi")))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilter_IgnoredResources(t *testing.T) {
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a")}))
	p, err := New(t.Context(), &configv1.NodeResourcesFitArgs{IgnoredResources: []string{"example.com/thing"}, IgnoredResourceGroups: []string{"other.com"}}, h)
	if err != nil {
		t.Fatal(err)
	}
	got := pt.Filter(t, h, p, pt.Pod("p", pt.Requests("example.com/thing", "1", "other.com/x", "1", "third.com/x", "1")))
	if diff := cmp.Diff(map[string]string{"a": "Insufficient third.com/x"}, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// class stands for an extended resource, unless that is empty.
func class(name, resource string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if resource != "" {
		c.Spec.ExtendedResourceName = &resource
	}
	return c
}

// What a device class stands for is left to DynamicResources, on nodes that do not have it themselves.
func TestFilter_DeviceClass(t *testing.T) {
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("none"), pt.Node("few", pt.Allocatable("example.com/x", "1"))}), class("c", "example.com/x"))
	got := pt.Filter(t, h, pt.NewPlugin(t, h, New), pt.Pod("p", pt.Requests("example.com/x", "2")))
	if diff := cmp.Diff(map[string]string{"none": "", "few": "Insufficient example.com/x"}, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// What is found by a device class counts for no pod that comes when there are others.
func TestAppendSignature_DeviceClass(t *testing.T) {
	h := pt.NewHandle(nil, class("c", "example.com/x"))
	f := pt.NewPlugin(t, h, New).(*Fit)
	signature := func(resource string) string {
		b, ok := f.AppendSignature(nil, framework.NewPodInfo(pt.Pod("p", pt.Requests(resource, "1"))))
		if !ok {
			t.Fatalf("a pod that asks for %s has no signature", resource)
		}
		return string(b)
	}
	device, cpu := signature("example.com/x"), signature("cpu")
	if again := signature("example.com/x"); again != device {
		t.Error("equal pods are of two kinds")
	}
	before := f.changes()
	if _, err := h.Fake.ResourceV1().DeviceClasses().Create(t.Context(), class("d", "example.com/y"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return f.changes() > before, nil
	}); err != nil {
		t.Fatal(err)
	}
	if signature("example.com/x") == device {
		t.Error("pods are of one kind before and after a change of classes")
	}
	if signature("cpu") != cpu {
		t.Error("classes make another kind of pods that ask for no device")
	}
}
