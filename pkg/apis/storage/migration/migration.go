// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package migration knows the CSI drivers which took over from the volume plugins that Kubernetes once had in its tree
// (KEP 625): classes and volumes still carry the old names. Touch it when another plugin goes.
package migration

import corev1 "k8s.io/api/core/v1"

// InTree is how the names of plugins begin that could only be a part of Kubernetes itself.
const InTree = "kubernetes.io/"

var drivers = map[string]string{
	"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
	"kubernetes.io/azure-disk":      "disk.csi.azure.com",
	"kubernetes.io/azure-file":      "file.csi.azure.com",
	"kubernetes.io/cinder":          "cinder.csi.openstack.org",
	"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
	"kubernetes.io/portworx-volume": "pxd.portworx.com",
	"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
}

// Driver is the CSI driver that took over from a plugin, "" if none did.
func Driver(plugin string) string { return drivers[plugin] }

// Plugin is the name of the plugin that the volume is of, if a CSI driver took over from it, else "".
func Plugin(source *corev1.PersistentVolumeSource) string {
	switch {
	case source.AWSElasticBlockStore != nil:
		return "kubernetes.io/aws-ebs"
	case source.AzureDisk != nil:
		return "kubernetes.io/azure-disk"
	case source.AzureFile != nil:
		return "kubernetes.io/azure-file"
	case source.Cinder != nil:
		return "kubernetes.io/cinder"
	case source.GCEPersistentDisk != nil:
		return "kubernetes.io/gce-pd"
	case source.PortworxVolume != nil:
		return "kubernetes.io/portworx-volume"
	case source.VsphereVolume != nil:
		return "kubernetes.io/vsphere-volume"
	}
	return ""
}
