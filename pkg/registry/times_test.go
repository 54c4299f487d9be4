// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidateTimes(t *testing.T) {
	at := func(year int) metav1.Time { return metav1.NewTime(time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC)) }
	pointer := func(year int) *metav1.Time { v := at(year); return &v }
	west := metav1.NewTime(time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)))
	for _, tc := range []struct {
		name string
		o    any
		want string // the field
	}{
		{"none", &corev1.ConfigMap{}, ""},
		{"the last year", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(9999)}}, ""},
		{"the first year", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}, ""},
		{"a year too late", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(10000)}}, "metadata.creationTimestamp"},
		{"a year too early", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(-1)}}, "metadata.creationTimestamp"},
		{"too late by its zone", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: west}}, "metadata.creationTimestamp"},
		{"behind a pointer", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: pointer(6831028)}}, "metadata.deletionTimestamp"},
		{"in a list", &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{}, {LastTransitionTime: at(10000)}}}}, "status.conditions[1].lastTransitionTime"},
		{"in a list of objects", &corev1.PodList{Items: []corev1.Pod{{}, {Status: corev1.PodStatus{StartTime: pointer(10000)}}}}, "items[1].status.startTime"},
		{"of microseconds", &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at(10000).Time}}}, "spec.renewTime"},
		{"in a map", &struct {
			M map[string]metav1.Time `json:"m"`
		}{map[string]metav1.Time{"a": at(10000)}}, "m[a]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errs := ValidateTimes(tc.o)
			if tc.want == "" && len(errs) == 0 {
				return
			}
			if len(errs) != 1 || errs[0].Field != tc.want {
				t.Errorf("got %v, want one of %q", errs, tc.want)
			}
		})
	}
}

func BenchmarkValidateTimes(b *testing.B) {
	now := metav1.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: now, ManagedFields: make([]metav1.ManagedFieldsEntry, 3)},
		Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}, Status: corev1.PodStatus{Conditions: make([]corev1.PodCondition, 5), ContainerStatuses: make([]corev1.ContainerStatus, 2)}}
	for b.Loop() {
		if errs := ValidateTimes(pod); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
