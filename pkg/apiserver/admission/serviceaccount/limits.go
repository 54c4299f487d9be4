// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// validateMirror keeps mirror pods, which nodes make, from reaching for credentials.
func validateMirror(pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return errors.New("a mirror pod may not reference service accounts")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			return errors.New("a mirror pod may not reference secrets")
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			switch {
			case s.ServiceAccountToken != nil:
				return errors.New("a mirror pod may not use ServiceAccountToken volume projections")
			case s.Secret != nil:
				return errors.New("a mirror pod may not reference secrets")
			}
		}
	}
	return nil
}

func secretsOf(account *corev1.ServiceAccount) sets.Set[string] {
	all := sets.New[string]()
	for _, s := range account.Secrets {
		all.Insert(s.Name)
	}
	return all
}

// limitSecrets refuses a new pod that uses secrets which its account does not list.
func limitSecrets(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	allowed := secretsOf(account)
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && !allowed.Has(v.Secret.SecretName) {
			return fmt.Errorf("volume with secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", v.Secret.SecretName, account.Name)
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if err := limitEnvironment(account, "init container", c.Name, c.EnvFrom, c.Env); err != nil {
			return err
		}
	}
	for _, c := range pod.Spec.Containers {
		if err := limitEnvironment(account, "container", c.Name, c.EnvFrom, c.Env); err != nil {
			return err
		}
	}
	pulls := sets.New[string]()
	for _, s := range account.ImagePullSecrets {
		pulls.Insert(s.Name)
	}
	for i, s := range pod.Spec.ImagePullSecrets {
		if !pulls.Has(s.Name) {
			return fmt.Errorf("imagePullSecrets[%d].name=\"%s\" is not allowed because service account %s does not reference that imagePullSecret", i, s.Name, account.Name)
		}
	}
	return nil
}

// limitEphemeral refuses ephemeral containers that do. What else the pod uses was looked at when it was made.
func limitEphemeral(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	for _, c := range pod.Spec.EphemeralContainers {
		if err := limitEnvironment(account, "ephemeral container", c.Name, c.EnvFrom, c.Env); err != nil {
			return err
		}
	}
	return nil
}

func limitEnvironment(account *corev1.ServiceAccount, what, name string, from []corev1.EnvFromSource, env []corev1.EnvVar) error {
	allowed := secretsOf(account)
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !allowed.Has(e.ValueFrom.SecretKeyRef.Name) {
			return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret",
				what, name, e.Name, e.ValueFrom.SecretKeyRef.Name, account.Name)
		}
	}
	for _, e := range from {
		if e.SecretRef != nil && !allowed.Has(e.SecretRef.Name) {
			return fmt.Errorf("%s %s with envFrom referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret",
				what, name, e.SecretRef.Name, account.Name)
		}
	}
	return nil
}
