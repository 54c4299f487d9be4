// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageobjectinuseprotection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	for name, tc := range map[string]struct {
		r   admissiontest.Request
		has []string
		obj interface {
			runtime.Object
			metav1.Object
		}
		want []string
	}{
		"claim":         {r: admissiontest.Request{Resource: "persistentvolumeclaims"}, obj: &corev1.PersistentVolumeClaim{}, want: []string{"kubernetes.io/pvc-protection"}},
		"volume":        {r: admissiontest.Request{Resource: "persistentvolumes"}, obj: &corev1.PersistentVolume{}, has: []string{"a/b"}, want: []string{"a/b", "kubernetes.io/pv-protection"}},
		"class":         {r: admissiontest.Request{Group: storagev1.GroupName, Resource: "volumeattributesclasses"}, obj: &storagev1.VolumeAttributesClass{}, want: []string{"kubernetes.io/vac-protection"}},
		"already there": {r: admissiontest.Request{Resource: "persistentvolumes"}, obj: &corev1.PersistentVolume{}, has: []string{"kubernetes.io/pv-protection"}, want: []string{"kubernetes.io/pv-protection"}},
		"a pod":         {r: admissiontest.Request{Resource: "pods"}, obj: &corev1.Pod{}},
		"a subresource": {r: admissiontest.Request{Resource: "persistentvolumes", Subresource: "status"}, obj: &corev1.PersistentVolume{}},
	} {
		t.Run(name, func(t *testing.T) {
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
