// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	volumePrefix = "kube-api-access-"
	mountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is an hour, and a little more by which such tokens are told from others that somebody asked for.
	tokenSeconds = 3607
)

// mount gives every container that mounts nothing at mountPath itself the volume with the credentials.
func mount(pod *corev1.Pod, name func(prefix string) string) {
	volume, exists := "", false
	taken := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		taken[v.Name] = true
		if strings.HasPrefix(v.Name, volumePrefix) {
			volume, exists = v.Name, true
			break
		}
	}
	for volume == "" || !exists && taken[volume] {
		volume = name(volumePrefix)
	}
	m := corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: mountPath}
	needed := false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if !mountsThere(containers[i].VolumeMounts) {
				containers[i].VolumeMounts = append(containers[i].VolumeMounts, m)
				needed = true
			}
		}
	}
	if needed && !exists {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Projected: credentials()}})
	}
}

func mountsThere(mounts []corev1.VolumeMount) bool {
	for _, m := range mounts {
		if m.MountPath == mountPath {
			return true
		}
	}
	return false
}

func credentials() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: new(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenSeconds))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}
}
