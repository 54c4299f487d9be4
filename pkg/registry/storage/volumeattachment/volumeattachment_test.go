// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumeattachment_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/storage/volumeattachment"
)

func TestResource(t *testing.T) {
	type attachment = storagev1.VolumeAttachment
	inline := func(mutate func(*corev1.PersistentVolumeSpec)) func(*attachment) {
		return func(a *attachment) {
			a.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
			}}
			mutate(a.Spec.Source.InlineVolumeSpec)
		}
	}
	const spec = "spec.source.inlineVolumeSpec"
	registrytest.Run(t, volumeattachment.Resource, registrytest.Case[*attachment]{
		AddToScheme: storagev1.AddToScheme,
		Valid: func() *attachment {
			return &attachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "d.example.com", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")},
			}}
		},
		Update:       func(a *attachment) { a.Labels = map[string]string{"a": "b"} },
		StatusUpdate: func(a *attachment) { a.Status.Attached = true },
		Row:          []any{"a", "d.example.com", "v", "n", false},
		Invalid: []registrytest.Invalid[*attachment]{
			{Name: "no attacher", Mutate: func(a *attachment) { a.Spec.Attacher = "" }, Field: "spec.attacher"},
			{Name: "long attacher", Mutate: func(a *attachment) { a.Spec.Attacher = strings.Repeat("a", 64) }, Field: "spec.attacher"},
			{Name: "no node", Mutate: func(a *attachment) { a.Spec.NodeName = "" }, Field: "spec.nodeName"},
			{Name: "no source", Mutate: func(a *attachment) { a.Spec.Source.PersistentVolumeName = nil }, Field: "spec.source"},
			{Name: "two sources", Mutate: func(a *attachment) { a.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{} }, Field: "spec.source"},
			{Name: "empty volume", Mutate: func(a *attachment) { a.Spec.Source.PersistentVolumeName = new("") }, Field: "spec.source.persistentVolumeName"},
			{Name: "inline capacity", Mutate: inline(func(s *corev1.PersistentVolumeSpec) {
				s.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1")}
			}), Field: spec + ".capacity"},
			{Name: "inline claim", Mutate: inline(func(s *corev1.PersistentVolumeSpec) { s.ClaimRef = &corev1.ObjectReference{} }), Field: spec + ".claimRef"},
			{Name: "inline without driver", Mutate: inline(func(s *corev1.PersistentVolumeSpec) {
				s.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}}
			}), Field: spec + ".csi"},
			{Name: "inline policy", Mutate: inline(func(s *corev1.PersistentVolumeSpec) {
				s.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			}), Field: spec + ".persistentVolumeReclaimPolicy"},
			{Name: "inline class", Mutate: inline(func(s *corev1.PersistentVolumeSpec) { s.StorageClassName = "x" }), Field: spec + ".storageClassName"},
			{Name: "inline block", Mutate: inline(func(s *corev1.PersistentVolumeSpec) { s.VolumeMode = new(corev1.PersistentVolumeBlock) }), Field: spec + ".volumeMode"},
			{Name: "inline affinity", Mutate: inline(func(s *corev1.PersistentVolumeSpec) { s.NodeAffinity = &corev1.VolumeNodeAffinity{} }), Field: spec + ".nodeAffinity"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*attachment]{
			{Name: "spec", Mutate: func(a *attachment) { a.Spec.NodeName = "m" }, Field: "spec"},
		},
	})
}

func TestStatus(t *testing.T) {
	old := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	old.Spec = storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}}
	a := old.DeepCopy()
	a.Status.AttachmentMetadata = map[string]string{"k": strings.Repeat("v", 256<<10)}
	a.Status.AttachError = &storagev1.VolumeError{Message: strings.Repeat("m", 1025)}
	a.Status.DetachError = &storagev1.VolumeError{ErrorCode: new(int32(-1))}
	errs := volumeattachment.Resource.Status.Validate(t.Context(), a, old)
	var got []string
	for _, e := range errs {
		got = append(got, e.Field)
	}
	if want := "status.attachmentMetadata status.attachError.message status.detachError.errorCode"; strings.Join(got, " ") != want {
		t.Errorf("fields refused are %v", got)
	}
}
