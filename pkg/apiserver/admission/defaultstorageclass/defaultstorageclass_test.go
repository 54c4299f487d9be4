// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaultstorageclass

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	other := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	chosen := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "chosen", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}}
	for name, tc := range map[string]struct {
		classes     []runtime.Object
		class       *string
		annotations map[string]string
		subresource string
		operation   admission.Operation
		want        *string
	}{
		"a default":            {classes: []runtime.Object{other, chosen}, want: new("chosen")},
		"no default":           {classes: []runtime.Object{other}},
		"asked for another":    {classes: []runtime.Object{chosen}, class: new("other"), want: new("other")},
		"asked for none":       {classes: []runtime.Object{chosen}, class: new(""), want: new("")},
		"asked by annotation":  {classes: []runtime.Object{chosen}, annotations: map[string]string{corev1.BetaStorageClassAnnotation: ""}},
		"a subresource":        {classes: []runtime.Object{chosen}, subresource: "status"},
		"nothing on an update": {classes: []runtime.Object{chosen}, operation: admission.Update},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := New()
			admissiontest.Initialize(t, plugin, tc.classes...)
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: tc.class}}
			r := admissiontest.Request{Resource: "persistentvolumeclaims", Subresource: tc.subresource, Operation: tc.operation, Object: claim, Old: claim}
			if err := admissiontest.Run(plugin, r.Attributes()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, claim.Spec.StorageClassName); diff != "" {
				t.Errorf("class (-want +got):\n%s", diff)
			}
		})
	}
}
