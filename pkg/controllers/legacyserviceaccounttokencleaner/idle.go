// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package legacyserviceaccounttokencleaner

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// LastUsedLabel says on which day the API server saw the token last.
	LastUsedLabel = "kubernetes.io/legacy-token-last-used"
	// InvalidSinceLabel makes the API server refuse the token; it says since which day.
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// day is that before which a token has to have been used last, as it is written in labels.
func day(now time.Time) string { return now.Add(-cleanUpPeriod).Format(time.DateOnly) }

// idle tells whether a Secret is a token that is older than the clean-up period and has not been used in it.
func idle(secret *corev1.Secret, now time.Time) bool {
	old := secret.CreationTimestamp.Time.Before(now.Add(-cleanUpPeriod))
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil || !old {
		return false
	}
	last, noted := secret.Labels[LastUsedLabel]
	if !noted {
		return true
	}
	_, err := time.Parse(time.DateOnly, last)
	return err == nil && last < day(now)
}

// generated tells whether the cluster made the Secret for the account: people do not enter theirs there.
func generated(secret *corev1.Secret, account *corev1.ServiceAccount) bool {
	if uid := secret.Annotations[corev1.ServiceAccountUIDKey]; uid != "" && uid != string(account.UID) {
		return false
	}
	return slices.ContainsFunc(account.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret.Name })
}

// uses tells whether a pod refers to a Secret of its namespace.
func uses(pod *corev1.Pod, secret string) bool {
	spec := &pod.Spec
	if slices.Contains(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret}) {
		return true
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if inEnv(containers[i].EnvFrom, containers[i].Env, secret) {
				return true
			}
		}
	}
	for i := range spec.EphemeralContainers {
		if inEnv(spec.EphemeralContainers[i].EnvFrom, spec.EphemeralContainers[i].Env, secret) {
			return true
		}
	}
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return inVolume(&v, secret) })
}

func inEnv(from []corev1.EnvFromSource, env []corev1.EnvVar, secret string) bool {
	return slices.ContainsFunc(from, func(e corev1.EnvFromSource) bool {
		return e.SecretRef != nil && e.SecretRef.Name == secret
	}) || slices.ContainsFunc(env, func(e corev1.EnvVar) bool {
		return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name == secret
	})
}

func inVolume(v *corev1.Volume, secret string) bool {
	var ref *corev1.LocalObjectReference
	switch {
	case v.Secret != nil:
		return v.Secret.SecretName == secret
	case v.AzureFile != nil:
		return v.AzureFile.SecretName == secret
	case v.Projected != nil:
		return slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool {
			return p.Secret != nil && p.Secret.Name == secret
		})
	case v.CSI != nil:
		ref = v.CSI.NodePublishSecretRef
	case v.CephFS != nil:
		ref = v.CephFS.SecretRef
	case v.Cinder != nil:
		ref = v.Cinder.SecretRef
	case v.FlexVolume != nil:
		ref = v.FlexVolume.SecretRef
	case v.ISCSI != nil:
		ref = v.ISCSI.SecretRef
	case v.RBD != nil:
		ref = v.RBD.SecretRef
	case v.ScaleIO != nil:
		ref = v.ScaleIO.SecretRef
	case v.StorageOS != nil:
		ref = v.StorageOS.SecretRef
	}
	return ref != nil && ref.Name == secret
}
