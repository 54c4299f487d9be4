// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumesource

import corev1 "k8s.io/api/core/v1"

// SetHostPathDefaults fills in a path of the node.
func SetHostPathDefaults(h *corev1.HostPathVolumeSource) { setPointer(&h.Type, corev1.HostPathUnset) }

// SetRBDDefaults fills in a Ceph block device.
func SetRBDDefaults(pool, user, keyring *string) {
	set(pool, "rbd")
	set(user, "admin")
	set(keyring, "/etc/ceph/keyring")
}

// SetISCSIDefaults fills in the interface of an iSCSI volume.
func SetISCSIDefaults(iface *string) { set(iface, "default") }

// SetAzureDiskDefaults fills in a disk of Microsoft's cloud.
func SetAzureDiskDefaults(d *corev1.AzureDiskVolumeSource) {
	setPointer(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	setPointer(&d.FSType, "ext4")
	setPointer(&d.ReadOnly, false)
	setPointer(&d.Kind, corev1.AzureSharedBlobDisk)
}

// SetScaleIODefaults fills in a ScaleIO volume.
func SetScaleIODefaults(mode, filesystem *string) {
	set(mode, "ThinProvisioned")
	set(filesystem, "xfs")
}

func set(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

func setPointer[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
