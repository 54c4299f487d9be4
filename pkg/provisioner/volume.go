// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

const (
	// Name is what classes and claims call the provisioner.
	Name = "minik8s.io/local-path"
	// ClassName is the name of the class that every cluster begins with.
	ClassName = "local-path"
	// User is who the provisioner is to the API server.
	User = "system:minik8s:local-path"
)

// Class is the class that every cluster begins with, the default one.
func Class() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: ClassName, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:       Name,
		ReclaimPolicy:     new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// nodeOf is the node whose business a claim or a volume is: a claim that waits for a volume there, a volume that was made
// there. "" if it is nobody's.
func nodeOf(obj any) string {
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		if o.Spec.VolumeName == "" && o.DeletionTimestamp == nil && o.Annotations[volumehelper.AnnStorageProvisioner] == Name {
			return o.Annotations[volumehelper.AnnSelectedNode]
		}
	case *corev1.PersistentVolume:
		if o.Annotations[volumehelper.AnnDynamicallyProvisioned] == Name && o.Spec.Local != nil {
			return pinned(o.Spec.NodeAffinity)
		}
	}
	return ""
}

// refusal says why there is no volume for a claim that is wanted, "" if there may be one.
func refusal(claim *corev1.PersistentVolumeClaim) string {
	switch {
	case ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != corev1.PersistentVolumeFilesystem:
		return "block devices are not supported"
	case claim.Spec.Selector != nil:
		return "claim Selector is not supported"
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return "data sources are not supported"
	}
	return ""
}

// volumeFor is the volume of a claim on the node. Its name is that of the claim's UID, so there is never a second one.
// Nothing holds it to its capacity.
func volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node, dir string) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{volumehelper.AnnDynamicallyProvisioned: Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   slices.Clone(claim.Spec.AccessModes),
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			StorageClassName:              class.Name,
			MountOptions:                  slices.Clone(class.MountOptions),
			VolumeMode:                    new(corev1.PersistentVolumeFilesystem),
			VolumeAttributesClassName:     claim.Spec.VolumeAttributesClassName,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(dir, name)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}},
			}}}},
		},
	}
	if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		// Whoever deletes the volume before its claim: the data go first.
		volume.Finalizers = []string{volumehelper.PVDeletionProtectionFinalizer}
	}
	return volume
}

// removable tells whether the data of a volume that was made here are to go.
func removable(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase == corev1.VolumeReleased && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// pinned is the node of an affinity as volumeFor makes it, "" of another one.
func pinned(affinity *corev1.VolumeNodeAffinity) string {
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, r := range affinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if r.Key == corev1.LabelHostname && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}

// withoutFinalizer is a copy of a volume without the provisioner's finalizer, nil if it has none.
func withoutFinalizer(volume *corev1.PersistentVolume) *corev1.PersistentVolume {
	if !slices.Contains(volume.Finalizers, volumehelper.PVDeletionProtectionFinalizer) {
		return nil
	}
	left := volume.DeepCopy()
	left.Finalizers = slices.DeleteFunc(left.Finalizers, func(f string) bool { return f == volumehelper.PVDeletionProtectionFinalizer })
	return left
}
