// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// TestPodRequests_LikeTheLibrary compares what a pod takes with the library's two sums, which podRequests does without where it can.
func TestPodRequests_LikeTheLibrary(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return out
	}
	asks := func(pairs ...string) corev1.Container {
		return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
	}
	sidecar := asks("cpu", "100m", "memory", "10Mi")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	running := func(pairs ...string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", AllocatedResources: list(pairs...)}}}
	}
	infeasible := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}}
	for name, pod := range map[string]*corev1.Pod{
		"nothing":             {Spec: corev1.PodSpec{Containers: []corev1.Container{{}, {}}}},
		"all":                 {Spec: corev1.PodSpec{Containers: []corev1.Container{asks("cpu", "1", "memory", "1Gi"), asks("cpu", "0.5m", "memory", "1", "example.com/gpu", "2")}}},
		"nothing of":          {Spec: corev1.PodSpec{Containers: []corev1.Container{asks("cpu", "0", "memory", "0")}}},
		"some":                {Spec: corev1.PodSpec{Containers: []corev1.Container{asks("cpu", "1"), asks("memory", "1Gi", "ephemeral-storage", "1Gi")}}},
		"init without":        {Spec: corev1.PodSpec{InitContainers: []corev1.Container{{}}, Containers: []corev1.Container{asks("cpu", "10m", "memory", "1Mi")}}},
		"sidecar":             {Spec: corev1.PodSpec{InitContainers: []corev1.Container{sidecar, asks("cpu", "3", "memory", "1Mi")}, Containers: []corev1.Container{asks("cpu", "1", "memory", "1Gi")}}},
		"overhead":            {Spec: corev1.PodSpec{Overhead: list("cpu", "250m"), Containers: []corev1.Container{asks("cpu", "1", "memory", "1Gi")}}},
		"pod level":           {Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("cpu", "2")}, Containers: []corev1.Container{asks("cpu", "1")}}},
		"pod level, all":      {Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("cpu", "2", "memory", "1Gi")}, Containers: []corev1.Container{{}}}},
		"more than it has":    {Spec: corev1.PodSpec{Containers: []corev1.Container{asks("cpu", "2", "memory", "1Gi")}}, Status: running("cpu", "1", "memory", "2Gi")},
		"less than it has":    {Spec: corev1.PodSpec{Containers: []corev1.Container{asks("cpu", "1", "memory", "1Gi")}}, Status: running("cpu", "2", "memory", "1Gi")},
		"what it cannot have": {Spec: corev1.PodSpec{Containers: []corev1.Container{asks("cpu", "9", "memory", "1Gi")}}, Status: infeasible},
		"of the pod, has less": {
			Spec:   corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("cpu", "1", "memory", "1Gi")}, Containers: []corev1.Container{asks("cpu", "1", "memory", "1Gi")}},
			Status: corev1.PodStatus{AllocatedResources: list("cpu", "3"), Resources: &corev1.ResourceRequirements{Requests: list("cpu", "3")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
			sum := resourcehelper.PodRequests(pod, opts)
			want := [2]Resource{NewResource(sum)}
			defaults := list("cpu", "100m", "memory", "200Mi")
			if resourcehelper.IsPodLevelRequestsSet(pod) {
				for name := range sum {
					delete(defaults, name)
				}
			}
			opts.NonMissingContainerRequests = defaults
			want[1] = NewResource(resourcehelper.PodRequests(pod, opts))
			var got [2]Resource
			got[0], got[1] = podRequests(pod)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
