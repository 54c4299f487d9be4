// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaimresize

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	plugin := New()
	admissiontest.Initialize(t, plugin,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "elastic"}, AllowVolumeExpansion: new(true)},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}, AllowVolumeExpansion: new(false)},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "silent"}},
	)
	claim := func(class, size string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class,
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	bound := func(class, size string) *corev1.PersistentVolumeClaim { return claim(class, size, corev1.ClaimBound) }
	for name, tc := range map[string]struct {
		now, old    *corev1.PersistentVolumeClaim
		subresource string
		refused     bool
	}{
		"grows":                     {now: bound("elastic", "2"), old: bound("elastic", "1")},
		"stays":                     {now: bound("fixed", "1"), old: bound("fixed", "1")},
		"shrinks":                   {now: bound("fixed", "1"), old: bound("fixed", "2")},
		"a class that does not":     {now: bound("fixed", "2"), old: bound("fixed", "1"), refused: true},
		"a class that is silent":    {now: bound("silent", "2"), old: bound("silent", "1"), refused: true},
		"a class that is not there": {now: bound("none", "2"), old: bound("none", "1"), refused: true},
		"no class":                  {now: bound("", "2"), old: bound("", "1"), refused: true},
		"another class":             {now: bound("elastic", "2"), old: bound("fixed", "1"), refused: true},
		"not bound":                 {now: claim("elastic", "2", corev1.ClaimPending), old: claim("elastic", "1", corev1.ClaimPending), refused: true},
		"status":                    {now: bound("fixed", "2"), old: bound("fixed", "1"), subresource: "status"},
	} {
		t.Run(name, func(t *testing.T) {
			r := admissiontest.Request{Resource: "persistentvolumeclaims", Subresource: tc.subresource, Operation: admission.Update, Object: tc.now, Old: tc.old}
			if err := admissiontest.Run(plugin, r.Attributes()); (err != nil) != tc.refused {
				t.Errorf("error = %v, want refused = %v", err, tc.refused)
			}
		})
	}
}
