// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// binding is what a volume that names a claim adds to the index: who reaches it, and with which Secrets a kubelet mounts it.
type binding struct {
	claim   ref
	uid     types.UID // of the claim
	secrets []ref
}

// boundClaim is what the index knows of a claim that names a volume.
type boundClaim struct {
	uid    types.UID
	volume string
}

// setClaim replaces what is known of a claim; it forgets one that is not there any more or names no volume.
func (x *Index) setClaim(c *corev1.PersistentVolumeClaim, there bool) {
	key := ref{claim, c.Namespace, c.Name}
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.wake()
	if !there || c.Spec.VolumeName == "" {
		delete(x.claims, key)
		return
	}
	x.claims[key] = boundClaim{c.UID, c.Spec.VolumeName}
}

// setVolume replaces what a volume adds; nil removes it.
func (x *Index) setVolume(name string, b *binding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.wake()
	for _, s := range x.volumes[name].secrets {
		delete(x.mounting[s], name)
		if len(x.mounting[s]) == 0 {
			delete(x.mounting, s)
		}
	}
	if b == nil {
		delete(x.volumes, name)
		return
	}
	x.volumes[name] = *b
	for _, s := range b.secrets {
		if x.mounting[s] == nil {
			x.mounting[s] = map[string]bool{}
		}
		x.mounting[s][name] = true
	}
}

// bind tells what a volume adds, nil if it names no claim.
func bind(v *corev1.PersistentVolume) *binding {
	c := v.Spec.ClaimRef
	if c == nil {
		return nil
	}
	b := &binding{claim: ref{claim, c.Namespace, c.Name}, uid: c.UID}
	visitSecrets(&v.Spec.PersistentVolumeSource, func(namespace, name string) {
		if name == "" {
			return
		}
		if namespace == "" { // older objects mean the claim's
			namespace = c.Namespace
		}
		b.secrets = append(b.secrets, ref{secret, namespace, name})
	})
	return b
}

// visitSecrets calls f with the Secrets that a kubelet reads to mount a volume; those which only a driver's controller reads
// are left out.
func visitSecrets(s *corev1.PersistentVolumeSource, f func(namespace, name string)) {
	visit := func(r *corev1.SecretReference) {
		if r != nil {
			f(r.Namespace, r.Name)
		}
	}
	switch {
	case s.AzureFile != nil:
		namespace := ""
		if s.AzureFile.SecretNamespace != nil {
			namespace = *s.AzureFile.SecretNamespace
		}
		f(namespace, s.AzureFile.SecretName)
	case s.CephFS != nil:
		visit(s.CephFS.SecretRef)
	case s.Cinder != nil:
		visit(s.Cinder.SecretRef)
	case s.FlexVolume != nil:
		visit(s.FlexVolume.SecretRef)
	case s.RBD != nil:
		visit(s.RBD.SecretRef)
	case s.ScaleIO != nil:
		visit(s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		visit(s.ISCSI.SecretRef)
	case s.StorageOS != nil:
		if r := s.StorageOS.SecretRef; r != nil {
			f(r.Namespace, r.Name)
		}
	case s.CSI != nil:
		visit(s.CSI.NodePublishSecretRef)
		visit(s.CSI.NodeStageSecretRef)
		visit(s.CSI.NodeExpandSecretRef)
	}
}
