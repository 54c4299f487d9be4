// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func limits(namespace string, items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func pod(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}}}
}

func TestDefaults(t *testing.T) {
	r := limits("ns", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: list("2", "2Gi"), DefaultRequest: list("1", "1Gi")})
	p := pod(list("100m", ""), nil)
	p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: list("1", "1"), Limits: list("1", "1")}}}
	plugin := New()
	admissiontest.Initialize(t, plugin, r, limits("other", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: list("1m", "")}))
	if err := admissiontest.Run(plugin, admissiontest.Request{Resource: "pods", Object: p}.Attributes()); err != nil {
		t.Fatal(err)
	}
	want := corev1.ResourceRequirements{Requests: list("100m", "1Gi"), Limits: list("2", "2Gi")}
	if diff := cmp.Diff(want, p.Spec.Containers[0].Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	note := "LimitRanger plugin set: memory request for container c; cpu, memory limit for container c"
	if p.Annotations[annotation] != note {
		t.Errorf("annotation = %q", p.Annotations[annotation])
	}
}

func TestBounds(t *testing.T) {
	container, whole := corev1.LimitTypeContainer, corev1.LimitTypePod
	two := pod(list("1", ""), list("1", ""))
	two.Spec.Containers = append(two.Spec.Containers, two.Spec.Containers[0])
	claim := func(size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		}}}
	}
	storage := func(q string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(q)}
	}
	for _, tc := range []struct {
		name  string
		limit corev1.LimitRangeItem
		r     admissiontest.Request
		want  string
	}{
		{"within", corev1.LimitRangeItem{Type: container, Min: list("1", ""), Max: list("2", ""), MaxLimitRequestRatio: list("2", "")}, admissiontest.Request{Object: pod(list("1", ""), list("2", ""))}, ""},
		{"too little", corev1.LimitRangeItem{Type: container, Min: list("1", "")}, admissiontest.Request{Object: pod(list("500m", ""), nil)}, "minimum cpu usage per Container is 1, but request is 500m"},
		{"limit too little", corev1.LimitRangeItem{Type: container, Min: list("1", "")}, admissiontest.Request{Object: pod(list("1", ""), list("500m", ""))}, "minimum cpu usage per Container is 1, but limit is 500m"},
		{"nothing asked", corev1.LimitRangeItem{Type: container, Min: list("1", "")}, admissiontest.Request{Object: pod(nil, nil)}, "minimum cpu usage per Container is 1.  No request is specified"},
		{"too much", corev1.LimitRangeItem{Type: container, Max: list("", "1Gi")}, admissiontest.Request{Object: pod(nil, list("", "2Gi"))}, "maximum memory usage per Container is 1Gi, but limit is 2Gi"},
		{"request too much", corev1.LimitRangeItem{Type: container, Max: list("1", "")}, admissiontest.Request{Object: pod(list("2", ""), list("1", ""))}, "maximum cpu usage per Container is 1, but request is 2"},
		{"no limit", corev1.LimitRangeItem{Type: container, Max: list("", "1Gi")}, admissiontest.Request{Object: pod(nil, nil)}, "maximum memory usage per Container is 1Gi.  No limit is specified"},
		{"ratio", corev1.LimitRangeItem{Type: container, MaxLimitRequestRatio: list("2", "")}, admissiontest.Request{Object: pod(list("100m", ""), list("500m", ""))},
			"cpu max limit to request ratio per Container is 2, but provided ratio is 5.000000"},
		{"ratio of nothing", corev1.LimitRangeItem{Type: container, MaxLimitRequestRatio: list("2", "")}, admissiontest.Request{Object: pod(nil, list("1", ""))},
			"cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		{"sum of containers", corev1.LimitRangeItem{Type: whole, Max: list("1500m", "")}, admissiontest.Request{Object: two}, "maximum cpu usage per Pod is 1500m, but limit is 2"},
		{"update is not looked at", corev1.LimitRangeItem{Type: container, Max: list("1", "")}, admissiontest.Request{Operation: admission.Update, Object: pod(nil, nil)}, ""},
		{"resize is", corev1.LimitRangeItem{Type: container, Max: list("1", "")}, admissiontest.Request{Operation: admission.Update, Subresource: "resize", Object: pod(nil, list("2", ""))}, "but limit is 2"},
		{"resize of what is being deleted is not", corev1.LimitRangeItem{Type: container, Max: list("1", "")}, admissiontest.Request{Operation: admission.Update, Subresource: "resize",
			Object: pod(nil, list("2", "")), Old: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}}, ""},
		{"claim", corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: storage("1Gi")}, admissiontest.Request{Resource: "persistentvolumeclaims", Object: claim("2Gi")},
			"maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"},
		{"small claim", corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: storage("1Gi")}, admissiontest.Request{Resource: "persistentvolumeclaims", Object: claim("1Mi")},
			"minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plugin := New()
			admissiontest.Initialize(t, plugin, limits("ns", tc.limit))
			if tc.r.Resource == "" {
				tc.r.Resource = "pods"
			}
			err := admissiontest.Run(plugin, tc.r.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}
