// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/pod"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func core() registry.Group {
	return registry.Group{
		AddToScheme: func(s *runtime.Scheme) error {
			if err := corev1.AddToScheme(s); err != nil {
				return err
			}
			if err := policyv1.AddToScheme(s); err != nil {
				return err
			}
			s.AddKnownTypes(schema.GroupVersion{Group: policyv1.GroupName, Version: runtime.APIVersionInternal}, &policyv1.Eviction{})
			return pod.AddConversions(s)
		},
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{pod.Resource, pod.Binding}}},
	}
}

func valid() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func TestResource(t *testing.T) {
	group := core()
	registrytest.Run(t, pod.Resource, registrytest.Case[*corev1.Pod]{
		Group:  &group,
		Valid:  valid,
		Update: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" },
		StatusUpdate: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.PodIP = "10.0.0.1"
			p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
		},
		Row: []any{"p", "0/1", "Pending", "0"},
		Invalid: []registrytest.Invalid[*corev1.Pod]{
			{Name: "no containers", Mutate: func(p *corev1.Pod) { p.Spec.Containers = nil }, Field: "spec.containers"},
			{Name: "no image", Mutate: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" }, Field: "spec.containers[0].image"},
			{Name: "image with blanks", Mutate: func(p *corev1.Pod) { p.Spec.Containers[0].Image = " i" }, Field: "spec.containers[0].image"},
			{Name: "ephemeral container", Mutate: func(p *corev1.Pod) {
				p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
			}, Field: "spec.ephemeralContainers"},
			{Name: "node with gates", Mutate: func(p *corev1.Pod) {
				p.Spec.NodeName, p.Spec.SchedulingGates = "n", []corev1.PodSchedulingGate{{Name: "a/b"}}
			}, Field: "spec.nodeName"},
			{Name: "device of no claim", Mutate: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
				p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/x"}}
			}, Field: "spec.containers[0].volumeDevices[0].name"},
			{Name: "token without account", Mutate: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}},
				}}}}
			}, Field: "spec.volumes[0].projected.sources[0].serviceAccountToken"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*corev1.Pod]{
			{Name: "command", Mutate: func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"x"} }, Field: "spec"},
			{Name: "resources", Mutate: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
			}, Field: "spec"},
			{Name: "container added", Mutate: func(p *corev1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "i"})
			}, Field: "spec.containers"},
			{Name: "later deadline", From: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(10)) },
				Mutate: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(20)) }, Field: "spec.activeDeadlineSeconds"},
			{Name: "toleration removed", From: func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: "Exists"}}
			}, Mutate: func(p *corev1.Pod) { p.Spec.Tolerations = nil }, Field: "spec.tolerations"},
			{Name: "gate added", From: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}} },
				Mutate: func(p *corev1.Pod) {
					p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "b"})
				}, Field: "spec.schedulingGates[1].name"},
			{Name: "selector of a gated pod changed", From: func(p *corev1.Pod) {
				p.Spec.SchedulingGates, p.Spec.NodeSelector = []corev1.PodSchedulingGate{{Name: "a"}}, map[string]string{"k": "v"}
			}, Mutate: func(p *corev1.Pod) { p.Spec.NodeSelector["k"] = "w" }, Field: "spec.nodeSelector"},
			{Name: "selector", From: func(*corev1.Pod) {}, Mutate: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"k": "w"} }, Field: "spec"},
		},
	})
}
