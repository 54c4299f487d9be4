// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podgroupprotection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	const group = schedulingv1beta1.GroupName
	for _, tc := range []struct {
		name string
		off  bool
		r    admissiontest.Request
		has  []string
		obj  interface {
			runtime.Object
			metav1.Object
		}
		want []string
	}{
		{name: "a group", r: admissiontest.Request{Group: group, Resource: "podgroups"}, has: []string{"a/b"}, obj: &schedulingv1beta1.PodGroup{}, want: []string{"a/b", finalizer}},
		{name: "already there", r: admissiontest.Request{Group: group, Resource: "podgroups"}, has: []string{finalizer}, obj: &schedulingv1beta1.PodGroup{}, want: []string{finalizer}},
		{name: "gate off", off: true, r: admissiontest.Request{Group: group, Resource: "podgroups"}, obj: &schedulingv1beta1.PodGroup{}},
		{name: "a subresource", r: admissiontest.Request{Group: group, Resource: "podgroups", Subresource: "status"}, obj: &schedulingv1beta1.PodGroup{}},
		{name: "a workload", r: admissiontest.Request{Group: group, Resource: "workloads"}, obj: &schedulingv1beta1.Workload{}},
		{name: "a pod", r: admissiontest.Request{Resource: "pods"}, obj: &corev1.Pod{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, !tc.off)
			tc.obj.SetFinalizers(tc.has)
			tc.r.Object = tc.obj
			if err := admissiontest.Run(New(), tc.r.Attributes()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.obj.GetFinalizers()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		})
	}
}
