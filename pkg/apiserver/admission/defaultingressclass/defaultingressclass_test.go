// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaultingressclass

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func class(name, isDefault string, made int64) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: isDefault},
		CreationTimestamp: metav1.NewTime(time.Unix(made, 0)),
	}}
}

func TestAdmit(t *testing.T) {
	for _, tc := range []struct {
		name    string
		classes []runtime.Object
		ingress networkingv1.Ingress
		want    string
	}{
		{name: "no classes", want: ""},
		{name: "no default", classes: []runtime.Object{class("a", "false", 1)}, want: ""},
		{name: "default", classes: []runtime.Object{class("a", "false", 1), class("b", "true", 1)}, want: "b"},
		{name: "the newest", classes: []runtime.Object{class("a", "true", 1), class("b", "true", 2)}, want: "b"},
		{name: "by name", classes: []runtime.Object{class("b", "true", 1), class("a", "true", 1)}, want: "a"},
		{name: "named", classes: []runtime.Object{class("a", "true", 1)}, ingress: networkingv1.Ingress{Spec: networkingv1.IngressSpec{IngressClassName: new("x")}}, want: "x"},
		{name: "annotated", classes: []runtime.Object{class("a", "true", 1)}, ingress: networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/ingress.class": "x"}}}, want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := New()
			admissiontest.Initialize(t, p, tc.classes...)
			in := tc.ingress.DeepCopy()
			if err := admissiontest.Run(p, admissiontest.Request{Group: "networking.k8s.io", Resource: "ingresses", Object: in}.Attributes()); err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(in.Spec.IngressClassName, ""); got != tc.want {
				t.Errorf("class is %q, want %q", got, tc.want)
			}
		})
	}
}
