// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolume has the defaults and the validation of volume specs, which PersistentVolumes and
// VolumeAttachments share. Touch it when volumes come from another place. See
// https://kubernetes.io/docs/concepts/storage/persistent-volumes/.
package persistentvolume

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/apis/core/volumesource"
)

// SetSourceDefaults fills in the capacity and the source of a volume spec.
func SetSourceDefaults(spec *corev1.PersistentVolumeSpec) {
	quantity.SetDefaults(spec.Capacity)
	if h := spec.HostPath; h != nil {
		volumesource.SetHostPathDefaults(h)
	}
	if r := spec.RBD; r != nil {
		volumesource.SetRBDDefaults(&r.RBDPool, &r.RadosUser, &r.Keyring)
	}
	if i := spec.ISCSI; i != nil {
		volumesource.SetISCSIDefaults(&i.ISCSIInterface)
	}
	if d := spec.AzureDisk; d != nil {
		volumesource.SetAzureDiskDefaults(d)
	}
	if s := spec.ScaleIO; s != nil {
		volumesource.SetScaleIODefaults(&s.StorageMode, &s.FSType)
	}
}

var abbreviations = []struct {
	mode corev1.PersistentVolumeAccessMode
	text string
}{
	{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
}

// AccessModes are the modes of a volume as tables show them.
func AccessModes(modes []corev1.PersistentVolumeAccessMode) string {
	has := map[corev1.PersistentVolumeAccessMode]bool{}
	for _, m := range modes {
		has[m] = true
	}
	var short []string
	for _, a := range abbreviations {
		if has[a.mode] {
			short = append(short, a.text)
		}
	}
	return strings.Join(short, ",")
}
