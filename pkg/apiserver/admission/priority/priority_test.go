// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func class(name string, value int32, isDefault bool) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: isDefault, PreemptionPolicy: new(corev1.PreemptNever),
	}
}

func TestPods(t *testing.T) {
	high := class("high", 100, false)
	for _, tc := range []struct {
		name    string
		classes []runtime.Object
		spec    corev1.PodSpec
		class   string
		value   int32
		policy  corev1.PreemptionPolicy
		err     string
		old     *corev1.PodSpec
	}{
		{name: "no class at all", policy: corev1.PreemptLowerPriority},
		{name: "default class", classes: []runtime.Object{high, class("usual", 5, true)}, class: "usual", value: 5, policy: corev1.PreemptNever},
		{name: "the lower of two defaults", classes: []runtime.Object{class("a", 7, true), class("b", 5, true)}, class: "b", value: 5, policy: corev1.PreemptNever},
		{name: "named", classes: []runtime.Object{high}, spec: corev1.PodSpec{PriorityClassName: "high"}, class: "high", value: 100, policy: corev1.PreemptNever},
		{name: "unknown", spec: corev1.PodSpec{PriorityClassName: "x"}, err: "no PriorityClass with name x was found"},
		{name: "own value agrees", classes: []runtime.Object{high}, spec: corev1.PodSpec{PriorityClassName: "high", Priority: new(int32(100))}, class: "high", value: 100, policy: corev1.PreemptNever},
		{name: "own value", classes: []runtime.Object{high}, spec: corev1.PodSpec{PriorityClassName: "high", Priority: new(int32(101))},
			err: "the integer value of priority (101) must not be provided in pod spec; priority admission controller computed 100 from the given PriorityClass name"},
		{name: "own policy", classes: []runtime.Object{high}, spec: corev1.PodSpec{PriorityClassName: "high", PreemptionPolicy: new(corev1.PreemptLowerPriority)},
			err: "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name"},
		{name: "update keeps", spec: corev1.PodSpec{PriorityClassName: "gone"}, old: &corev1.PodSpec{PriorityClassName: "gone", Priority: new(int32(9)), PreemptionPolicy: new(corev1.PreemptNever)},
			class: "gone", value: 9, policy: corev1.PreemptNever},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := New()
			admissiontest.Initialize(t, p, tc.classes...)
			pod := &corev1.Pod{Spec: tc.spec}
			r := admissiontest.Request{Resource: "pods", Object: pod}
			if tc.old != nil {
				r.Operation, r.Old = admission.Update, &corev1.Pod{Spec: *tc.old}
			}
			err := admissiontest.Run(p, r.Attributes())
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error = %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s := pod.Spec; s.PriorityClassName != tc.class || *s.Priority != tc.value || *s.PreemptionPolicy != tc.policy {
				t.Errorf("class %q, priority %d, policy %s", s.PriorityClassName, *s.Priority, *s.PreemptionPolicy)
			}
		})
	}
}

func TestPodGroups(t *testing.T) {
	high, usual := class("high", 100, false), class("usual", 5, true)
	type spec = schedulingv1beta1.PodGroupSpec
	for _, tc := range []struct {
		name    string
		off     bool
		classes []runtime.Object
		spec    spec
		want    spec
		err     string
	}{
		{name: "no class at all", want: spec{Priority: new(int32(0))}},
		{name: "default class", classes: []runtime.Object{high, usual}, want: spec{PriorityClassName: "usual", Priority: new(int32(5))}},
		{name: "named", classes: []runtime.Object{high, usual}, spec: spec{PriorityClassName: "high"}, want: spec{PriorityClassName: "high", Priority: new(int32(100))}},
		{name: "unknown", spec: spec{PriorityClassName: "x"}, err: "no PriorityClass with name x was found"},
		{name: "own value agrees", classes: []runtime.Object{high}, spec: spec{PriorityClassName: "high", Priority: new(int32(100))}, want: spec{PriorityClassName: "high", Priority: new(int32(100))}},
		{name: "own value", classes: []runtime.Object{high}, spec: spec{PriorityClassName: "high", Priority: new(int32(101))},
			err: "priority set in the pod group (101) must match the priority computed (100) based on the priority class set in the spec"},
		{name: "gate off", off: true, classes: []runtime.Object{usual}, want: spec{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, !tc.off)
			p := New()
			admissiontest.Initialize(t, p, tc.classes...)
			group := &schedulingv1beta1.PodGroup{Spec: tc.spec}
			err := admissiontest.Run(p, admissiontest.Request{Group: schedulingv1beta1.GroupName, Resource: "podgroups", Object: group}.Attributes())
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error = %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, group.Spec); err == nil && diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneDefaultClass(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p, class("usual", 5, true))
	for _, tc := range []struct {
		name    string
		op      admission.Operation
		class   *schedulingv1.PriorityClass
		refused bool
	}{
		{"second default", admission.Create, class("other", 1, true), true},
		{"itself again", admission.Create, class("usual", 5, true), true},
		{"no default", admission.Create, class("other", 1, false), false},
		{"itself", admission.Update, class("usual", 5, true), false},
		{"made default", admission.Update, class("other", 1, true), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := admissiontest.Request{Group: "scheduling.k8s.io", Resource: "priorityclasses", Operation: tc.op, Object: tc.class, Old: tc.class}
			if err := admissiontest.Run(p, r.Attributes()); (err != nil) != tc.refused {
				t.Errorf("error = %v, want refused = %v", err, tc.refused)
			}
		})
	}
}
