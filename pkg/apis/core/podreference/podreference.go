// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podreference finds the objects of the API that a pod refers to. Touch it when a field of pods names another object.
package podreference

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Resource names the resource of an object of the API that the pod needs to run, by upstream's words, or is "" if it needs
// none: static pods need none, and what a pod names opens the Node authorizer's doors. It fails if a volume is of a kind that
// this function does not know, so that a new kind is not let through before somebody has judged it.
func Resource(p *corev1.Pod) (string, error) {
	kinds := sets.New[string]()
	Visit(p, func(kind, _ string) { kinds.Insert(kind) })
	switch {
	case p.Spec.ServiceAccountName != "":
		return "serviceaccounts", nil
	case kinds.Has("Secret"):
		return "secrets", nil
	case kinds.Has("ConfigMap"):
		return "configmaps", nil
	case len(p.Spec.ResourceClaims) > 0:
		return "resourceclaims", nil
	}
	for i := range p.Spec.Volumes {
		if resource, err := volumeReference(&p.Spec.Volumes[i]); resource != "" || err != nil {
			return resource, err
		}
	}
	return "", nil
}

// volumeReference is Resource for one volume. It looks for what refers before what does not: a volume may have two sources
// until it is validated.
func volumeReference(v *corev1.Volume) (string, error) {
	switch {
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)", nil
	case v.Secret != nil:
		return "secrets (via secret volumes)", nil
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)", nil
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if resource, err := projectionReference(v.Name, &v.Projected.Sources[i]); resource != "" || err != nil {
				return resource, err
			}
		}
		return "", nil
	case v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.CephFS != nil, v.Cinder != nil, v.DownwardAPI != nil, v.EmptyDir != nil,
		v.FC != nil, v.FlexVolume != nil, v.Flocker != nil, v.GCEPersistentDisk != nil, v.GitRepo != nil, v.HostPath != nil,
		v.Image != nil, v.ISCSI != nil, v.NFS != nil, v.PhotonPersistentDisk != nil, v.PortworxVolume != nil, v.Quobyte != nil,
		v.RBD != nil, v.ScaleIO != nil, v.StorageOS != nil, v.VsphereVolume != nil:
		return "", nil
	}
	return "", fmt.Errorf("unknown volume type for volume  %q", v.Name) // upstream's two spaces
}

func projectionReference(volume string, s *corev1.VolumeProjection) (string, error) {
	switch {
	case s.ConfigMap != nil:
		return "configmaps (via projected volumes)", nil
	case s.Secret != nil:
		return "secrets (via projected volumes)", nil
	case s.ServiceAccountToken != nil:
		return "serviceaccounts (via projected volumes)", nil
	case s.ClusterTrustBundle != nil:
		return "clustertrustbundles", nil
	case s.PodCertificate != nil:
		return "podcertificates", nil
	case s.DownwardAPI != nil:
		return "", nil
	}
	return "", fmt.Errorf("unknown source for projected volume %q", volume)
}
