// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	corev1 "k8s.io/api/core/v1"
)

// Kind is the kind of an object, spelled as in messages.
type Kind string

// The kinds of objects that pods refer to.
const (
	ConfigMap Kind = "configmap"
	Secret    Kind = "secret"
)

// Ref names an object.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// Refs returns all that a pod refers to: volumes, environment variables and image pull secrets.
func Refs(pod *corev1.Pod) map[Ref]bool {
	refs := map[Ref]bool{}
	add := func(k Kind, name string) {
		if name != "" {
			refs[Ref{k, pod.Namespace, name}] = true
		}
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		add(Secret, s.Name)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.ConfigMap != nil:
			add(ConfigMap, v.ConfigMap.Name)
		case v.Secret != nil:
			add(Secret, v.Secret.SecretName)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					add(ConfigMap, s.ConfigMap.Name)
				}
				if s.Secret != nil {
					add(Secret, s.Secret.Name)
				}
			}
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			environment(list[i].EnvFrom, list[i].Env, add)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		environment(c.EnvFrom, c.Env, add)
	}
	return refs
}

func environment(from []corev1.EnvFromSource, vars []corev1.EnvVar, add func(Kind, string)) {
	for _, f := range from {
		if f.ConfigMapRef != nil {
			add(ConfigMap, f.ConfigMapRef.Name)
		}
		if f.SecretRef != nil {
			add(Secret, f.SecretRef.Name)
		}
	}
	for _, v := range vars {
		if v.ValueFrom == nil {
			continue
		}
		if r := v.ValueFrom.ConfigMapKeyRef; r != nil {
			add(ConfigMap, r.Name)
		}
		if r := v.ValueFrom.SecretKeyRef; r != nil {
			add(Secret, r.Name)
		}
	}
}
