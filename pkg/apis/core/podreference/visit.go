// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podreference

import corev1 "k8s.io/api/core/v1"

// Visit calls f with the kind and name of every object of its own namespace that a pod refers to, some of them more than
// once: Secret, ConfigMap, PersistentVolumeClaim, ServiceAccount, ResourceClaim.
func Visit(p *corev1.Pod, f func(kind, name string)) {
	visit := func(kind, name string) {
		if name != "" {
			f(kind, name)
		}
	}
	visit("ServiceAccount", p.Spec.ServiceAccountName)
	for _, s := range p.Spec.ImagePullSecrets {
		visit("Secret", s.Name)
	}
	for i := range p.Spec.InitContainers {
		visitEnv(p.Spec.InitContainers[i].EnvFrom, p.Spec.InitContainers[i].Env, visit)
	}
	for i := range p.Spec.Containers {
		visitEnv(p.Spec.Containers[i].EnvFrom, p.Spec.Containers[i].Env, visit)
	}
	for i := range p.Spec.EphemeralContainers {
		visitEnv(p.Spec.EphemeralContainers[i].EnvFrom, p.Spec.EphemeralContainers[i].Env, visit)
	}
	for i := range p.Spec.Volumes {
		visitVolume(p, &p.Spec.Volumes[i], visit)
	}
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			visit("ResourceClaim", *c.ResourceClaimName)
		}
	}
	for _, c := range p.Status.ResourceClaimStatuses {
		if c.ResourceClaimName != nil {
			visit("ResourceClaim", *c.ResourceClaimName)
		}
	}
	if c := p.Status.ExtendedResourceClaimStatus; c != nil {
		visit("ResourceClaim", c.ResourceClaimName)
	}
}

func visitEnv(from []corev1.EnvFromSource, env []corev1.EnvVar, visit func(kind, name string)) {
	for _, e := range from {
		if e.SecretRef != nil {
			visit("Secret", e.SecretRef.Name)
		}
		if e.ConfigMapRef != nil {
			visit("ConfigMap", e.ConfigMapRef.Name)
		}
	}
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			visit("Secret", r.Name)
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			visit("ConfigMap", r.Name)
		}
	}
}

func visitVolume(p *corev1.Pod, v *corev1.Volume, visit func(kind, name string)) {
	local := func(r *corev1.LocalObjectReference) {
		if r != nil {
			visit("Secret", r.Name)
		}
	}
	switch {
	case v.Secret != nil:
		visit("Secret", v.Secret.SecretName)
	case v.ConfigMap != nil:
		visit("ConfigMap", v.ConfigMap.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				visit("Secret", s.Secret.Name)
			}
			if s.ConfigMap != nil {
				visit("ConfigMap", s.ConfigMap.Name)
			}
		}
	case v.PersistentVolumeClaim != nil:
		visit("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		visit("PersistentVolumeClaim", p.Name+"-"+v.Name)
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		visit("Secret", v.AzureFile.SecretName)
	case v.CephFS != nil:
		local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		local(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		local(v.StorageOS.SecretRef)
	}
}
