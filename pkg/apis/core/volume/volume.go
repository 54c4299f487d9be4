// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volume has the defaults of the volumes of a pod and of their mounts, and their validation. Touch it when a
// kind of volume is added.
package volume

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/downwardapi"
	"minik8s.io/minik8s/pkg/apis/core/image"
	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/volumesource"
)

const (
	defaultMode  = 0o644
	tokenSeconds = 3600
)

// SetDefaults fills in a volume. One without any source is an emptyDir.
func SetDefaults(v *corev1.Volume) {
	if reflect.ValueOf(v.VolumeSource).IsZero() {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		volumesource.SetHostPathDefaults(v.HostPath)
	}
	if v.Secret != nil {
		setMode(&v.Secret.DefaultMode)
	}
	if v.ConfigMap != nil {
		setMode(&v.ConfigMap.DefaultMode)
	}
	if v.DownwardAPI != nil {
		setMode(&v.DownwardAPI.DefaultMode)
		setFileDefaults(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		setProjectedDefaults(v.Projected)
	}
	if r := v.RBD; r != nil {
		volumesource.SetRBDDefaults(&r.RBDPool, &r.RadosUser, &r.Keyring)
	}
	if v.ISCSI != nil {
		volumesource.SetISCSIDefaults(&v.ISCSI.ISCSIInterface)
	}
	if v.AzureDisk != nil {
		volumesource.SetAzureDiskDefaults(v.AzureDisk)
	}
	if s := v.ScaleIO; s != nil {
		volumesource.SetScaleIODefaults(&s.StorageMode, &s.FSType)
	}
	if v.Image != nil && v.Image.PullPolicy == "" {
		v.Image.PullPolicy = image.PullPolicy(v.Image.Reference)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		persistentvolumeclaim.SetDefaults(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
}

func setMode(mode **int32) {
	if *mode == nil {
		m := int32(defaultMode)
		*mode = &m
	}
}

func setFileDefaults(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		downwardapi.SetDefaults(files[i].FieldRef)
	}
}

func setProjectedDefaults(p *corev1.ProjectedVolumeSource) {
	setMode(&p.DefaultMode)
	for i := range p.Sources {
		s := &p.Sources[i]
		if s.DownwardAPI != nil {
			setFileDefaults(s.DownwardAPI.Items)
		}
		if t := s.ServiceAccountToken; t != nil && t.ExpirationSeconds == nil {
			hour := int64(tokenSeconds)
			t.ExpirationSeconds = &hour
		}
	}
}
