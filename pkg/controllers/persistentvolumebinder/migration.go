// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumebinder

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehelper "k8s.io/component-helpers/storage/volume"

	"minik8s.io/minik8s/pkg/apis/storage/migration"
)

// markMigrated notes the driver that took over from the provisioner that obj names in one of the annotations (the first
// it has), or removes the note. It tells whether it changed the object.
func markMigrated(meta *metav1.ObjectMeta, provisionerIn ...string) bool {
	for _, key := range provisionerIn {
		provisioner, ok := meta.Annotations[key]
		if !ok {
			continue
		}
		driver, has := migration.Driver(provisioner), meta.Annotations[volumehelper.AnnMigratedTo]
		if driver == has {
			return false
		}
		if driver == "" {
			delete(meta.Annotations, volumehelper.AnnMigratedTo)
		} else {
			meta.Annotations[volumehelper.AnnMigratedTo] = driver
		}
		return true
	}
	return false
}

// setFinalizers gives a volume that was provisioned under an in-tree name the finalizers that it should have: the binder's
// own as long as its data are to be deleted, none if a driver took over. Volumes of external provisioners are left alone.
// It tells whether it changed the volume.
func setFinalizers(volume *corev1.PersistentVolume) bool {
	provisioner := volume.Annotations[volumehelper.AnnDynamicallyProvisioned]
	if !strings.HasPrefix(provisioner, migration.InTree) {
		return false
	}
	migrated := migration.Driver(provisioner) != ""
	kept := slices.DeleteFunc(slices.Clone(volume.Finalizers), func(f string) bool {
		switch f {
		case volumehelper.PVDeletionInTreeProtectionFinalizer:
			return migrated || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete
		case volumehelper.PVDeletionProtectionFinalizer:
			return !migrated
		}
		return false
	})
	if !migrated && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		!slices.Contains(kept, volumehelper.PVDeletionInTreeProtectionFinalizer) {
		kept = append(kept, volumehelper.PVDeletionInTreeProtectionFinalizer)
	}
	if slices.Equal(kept, volume.Finalizers) {
		return false
	}
	volume.Finalizers = kept
	return true
}
