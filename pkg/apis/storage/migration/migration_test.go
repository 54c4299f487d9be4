// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPlugin(t *testing.T) {
	t.Parallel()
	for want, source := range map[string]corev1.PersistentVolumeSource{
		"ebs.csi.aws.com":          {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}},
		"disk.csi.azure.com":       {AzureDisk: &corev1.AzureDiskVolumeSource{}},
		"file.csi.azure.com":       {AzureFile: &corev1.AzureFilePersistentVolumeSource{}},
		"cinder.csi.openstack.org": {Cinder: &corev1.CinderPersistentVolumeSource{}},
		"pd.csi.storage.gke.io":    {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}},
		"pxd.portworx.com":         {PortworxVolume: &corev1.PortworxVolumeSource{}},
		"csi.vsphere.vmware.com":   {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}},
		"":                         {CSI: &corev1.CSIPersistentVolumeSource{}},
	} {
		if got := Driver(Plugin(&source)); got != want {
			t.Errorf("driver is %q, want %q", got, want)
		}
	}
}
