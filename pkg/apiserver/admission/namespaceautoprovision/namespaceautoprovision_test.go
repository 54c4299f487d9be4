// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespaceautoprovision

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "there"}})
	client := p.(*Plugin).client.CoreV1().Namespaces()
	for range 2 { // the second time it is there, which the cache may not know yet
		for _, ns := range []string{"there", "new"} {
			if err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Namespace: ns, Object: &corev1.Pod{}}.Attributes()); err != nil {
				t.Errorf("%s: %v", ns, err)
			}
			if _, err := client.Get(t.Context(), ns, metav1.GetOptions{}); err != nil {
				t.Errorf("%s: %v", ns, err)
			}
		}
	}
	// A namespace is not in itself.
	if err := admissiontest.Run(p, admissiontest.Request{Resource: "namespaces", Namespace: "self", Object: &corev1.Namespace{}}.Attributes()); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(t.Context(), "self", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("self: %v, want NotFound", err)
	}
}
