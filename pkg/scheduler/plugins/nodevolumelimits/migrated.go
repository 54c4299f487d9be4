// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodevolumelimits

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kinds of volumes that were once attached by Kubernetes itself and are now by
// a CSI driver, on every node that has a CSINode.
const (
	ebs      = "ebs.csi.aws.com"
	gce      = "pd.csi.storage.gke.io"
	azure    = "disk.csi.azure.com"
	cinder   = "cinder.csi.openstack.org"
	portworx = "pxd.portworx.com"
)

// successors are the drivers that took over, by the provisioner that a class may still name.
var successors = map[string]string{
	"kubernetes.io/aws-ebs":         ebs,
	"kubernetes.io/gce-pd":          gce,
	"kubernetes.io/azure-disk":      azure,
	"kubernetes.io/cinder":          cinder,
	"kubernetes.io/portworx-volume": portworx,
}

// inline returns a volume that is named in a pod as the driver that took over
// knows it; nil if none did.
func inline(v *corev1.Volume) *attachable {
	switch {
	case v.AWSElasticBlockStore != nil:
		return &attachable{ebs, ebsHandle(v.AWSElasticBlockStore.VolumeID)}
	case v.GCEPersistentDisk != nil:
		return &attachable{gce, gceHandle(nil, v.GCEPersistentDisk.PDName)}
	case v.AzureDisk != nil:
		return &attachable{azure, v.AzureDisk.DataDiskURI}
	case v.Cinder != nil:
		return &attachable{cinder, v.Cinder.VolumeID}
	case v.PortworxVolume != nil:
		return &attachable{portworx, v.PortworxVolume.VolumeID}
	}
	return nil
}

// migrated is inline for PersistentVolumes.
func migrated(v *corev1.PersistentVolume) *attachable {
	switch s := &v.Spec.PersistentVolumeSource; {
	case s.AWSElasticBlockStore != nil:
		return &attachable{ebs, ebsHandle(s.AWSElasticBlockStore.VolumeID)}
	case s.GCEPersistentDisk != nil:
		return &attachable{gce, gceHandle(v.Labels, s.GCEPersistentDisk.PDName)}
	case s.AzureDisk != nil:
		return &attachable{azure, s.AzureDisk.DataDiskURI}
	case s.Cinder != nil:
		return &attachable{cinder, s.Cinder.VolumeID}
	case s.PortworxVolume != nil:
		return &attachable{portworx, s.PortworxVolume.VolumeID}
	}
	return nil
}

// ebsHandle cuts off the zone: aws://ZONE/VOLUME.
func ebsHandle(id string) string {
	if rest, ok := strings.CutPrefix(id, "aws://"); ok {
		_, volume, _ := strings.Cut(rest, "/")
		return strings.Trim(volume, "/")
	}
	return id
}

// gceHandle has the zone of the labels, or of several zones their region: what is
// before the last dash of each.
func gceHandle(labels map[string]string, disk string) string {
	zones := strings.Split(cmp.Or(labels[corev1.LabelFailureDomainBetaZone], labels[corev1.LabelTopologyZone], "UNSPECIFIED"), "__")
	place := "zones/" + zones[0]
	if len(zones) > 1 {
		place = "regions/" + zones[0][:max(strings.LastIndex(zones[0], "-"), 0)]
	}
	return "projects/UNSPECIFIED/" + place + "/disks/" + disk
}
