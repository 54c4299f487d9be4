// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIndexes(t *testing.T) {
	busy := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: new(true)}}},
		Spec: corev1.PodSpec{
			NodeName: "n",
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			},
			SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: new("g")},
			ResourceClaims: []corev1.PodResourceClaim{
				{Name: "direct", ResourceClaimName: new("gpu")}, {Name: "made", ResourceClaimTemplateName: new("t")}, {Name: "not-made", ResourceClaimTemplateName: new("t2")},
			},
		},
		Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: new("p-made-x")}}},
	}
	over := &corev1.Pod{
		Spec:   corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: new("g")}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed},
	}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want map[string][]string
	}{
		"busy": {busy, map[string][]string{
			ControllerField: {"u"}, NodeField: {"n"}, ClaimField: {"c", "p-scratch"}, ResourceClaimField: {"gpu", "p-made-x"},
			ResourceClaimTemplateField: {"t", "t2"}, DevicesField: {WithDevices}, GroupField: {"g"},
		}},
		"new": {&corev1.Pod{}, map[string][]string{
			ControllerField: {Orphan}, NodeField: nil, ClaimField: nil, ResourceClaimField: nil, ResourceClaimTemplateField: nil, DevicesField: nil, GroupField: nil,
		}},
		"over": {over, map[string][]string{
			ControllerField: {Orphan}, NodeField: nil, ClaimField: nil, ResourceClaimField: nil, ResourceClaimTemplateField: nil, DevicesField: nil, GroupField: nil,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			for _, i := range Indexes() {
				got[i.Field] = i.Values(tt.pod)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIsStopped(t *testing.T) {
	running := []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	over := []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	deleted := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":                   {&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: running}}, false},
		"succeeded":                 {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, true},
		"deleted, running":          {&corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: running}}, false},
		"deleted, debugger running": {&corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: over, EphemeralContainerStatuses: running}}, false},
		"deleted, over":             {&corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: over}}, true},
		"deleted, never started":    {&corev1.Pod{ObjectMeta: deleted}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsStopped(tt.pod); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
