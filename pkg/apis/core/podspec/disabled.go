// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// DropDisabled clears the fields of features that are off by default in Kubernetes 1.37, as upstream does without a word.
// A line leaves this file when its feature becomes beta. What old, the spec before an update, has of a gate that was on then may stay;
// old is nil on create.
func DropDisabled(s, old *corev1.PodSpec) {
	if !feature.Enabled(feature.GenericWorkload) && (old == nil || old.SchedulingGroup == nil) {
		s.SchedulingGroup = nil
	}
	s.EvictionResponders = nil // EvictionRequestAPI
	for i := range s.Volumes {
		dropVolume(&s.Volumes[i].VolumeSource)
	}
	for _, c := range All(s, nil) {
		dropContainer(c)
	}
}

// dropVolume is about EmptyDirVolumeMode and AtomicWriteVolumeUserFields. Of volumes with several sources, which are
// invalid anyway, it looks at one only.
func dropVolume(v *corev1.VolumeSource) {
	if v.EmptyDir != nil {
		v.EmptyDir.Mode = nil
	}
	switch {
	case v.Secret != nil:
		v.Secret.DefaultUser = nil
		dropUsers(v.Secret.Items)
	case v.ConfigMap != nil:
		v.ConfigMap.DefaultUser = nil
		dropUsers(v.ConfigMap.Items)
	case v.DownwardAPI != nil:
		v.DownwardAPI.DefaultUser = nil
		dropFileUsers(v.DownwardAPI.Items)
	case v.Projected != nil:
		v.Projected.DefaultUser = nil
		for i := range v.Projected.Sources {
			dropProjection(&v.Projected.Sources[i])
		}
	}
}

func dropProjection(s *corev1.VolumeProjection) {
	switch {
	case s.Secret != nil:
		dropUsers(s.Secret.Items)
	case s.DownwardAPI != nil:
		dropFileUsers(s.DownwardAPI.Items)
	case s.ConfigMap != nil:
		dropUsers(s.ConfigMap.Items)
	case s.ServiceAccountToken != nil:
		s.ServiceAccountToken.User = nil
	case s.ClusterTrustBundle != nil:
		s.ClusterTrustBundle.User = nil
	case s.PodCertificate != nil:
		s.PodCertificate.User = nil
	}
}

func dropUsers(items []corev1.KeyToPath) {
	for i := range items {
		items[i].User = nil
	}
}

func dropFileUsers(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		items[i].User = nil
	}
}

// dropContainer is about VolumeBindMountOptions, ContainerStopSignals, H2CContainerProbe and GRPCContainerProbeTLS.
func dropContainer(c *corev1.Container) {
	for i := range c.VolumeMounts {
		c.VolumeMounts[i].BindMountOptions = nil
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil && p.HTTPGet != nil {
			p.HTTPGet.Protocol = nil
		}
		if p != nil && p.GRPC != nil {
			p.GRPC.Mode = nil
		}
	}
	l := c.Lifecycle
	if l == nil {
		return
	}
	for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
		if h != nil && h.HTTPGet != nil {
			h.HTTPGet.Protocol = nil
		}
	}
	if l.StopSignal != nil {
		l.StopSignal = nil
		if l.PostStart == nil && l.PreStop == nil {
			c.Lifecycle = nil
		}
	}
}
