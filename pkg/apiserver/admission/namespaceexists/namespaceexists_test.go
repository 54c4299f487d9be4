// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespaceexists

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "there"}})
	for _, tc := range []struct {
		name     string
		r        admissiontest.Request
		notFound bool
	}{
		{"there", admissiontest.Request{Resource: "pods", Namespace: "there", Object: &corev1.Pod{}}, false},
		{"not there", admissiontest.Request{Resource: "pods", Namespace: "x", Object: &corev1.Pod{}}, true},
		{"delete", admissiontest.Request{Resource: "pods", Namespace: "x", Operation: admission.Delete}, true},
		{"the namespace itself", admissiontest.Request{Resource: "namespaces", Namespace: "x", Object: &corev1.Namespace{}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := admissiontest.Run(p, tc.r.Attributes()); apierrors.IsNotFound(err) != tc.notFound || !tc.notFound && err != nil {
				t.Errorf("error = %v, want NotFound = %v", err, tc.notFound)
			}
		})
	}
}
