// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package env computes the environment of a container from its spec and what that refers to, and expands $(VAR)
// references; touch it when the API gains a source of variables.
package env

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"minik8s.io/minik8s/pkg/kubelet/internal/downward"
)

// Source looks up what variables refer to. Missing objects give errors that satisfy apierrors.IsNotFound and read
// `configmap "x" not found`.
type Source interface {
	ConfigMap(namespace, name string) (*corev1.ConfigMap, error)
	Secret(namespace, name string) (*corev1.Secret, error)
	// EnvFile returns the content of a file in a volume of the pod, and where it is on the node. The error is a *NoVolumeError if the pod
	// has no such volume.
	EnvFile(pod *corev1.Pod, volume, path string) (content []byte, at string, err error)
	// NodeAllocatable stands in for missing limits.
	NodeAllocatable() corev1.ResourceList
}

// Make returns the environment as sorted NAME=value, so that the same input always makes the same container. services
// are those of the pod's namespace and default/kubernetes. An error is what the container waits with, in reason
// CreateContainerConfigError.
//
// Later sources win over earlier ones: services, envFrom in order, env in order. A value of env may refer to anything
// before it.
func Make(pod *corev1.Pod, c *corev1.Container, podIP string, podIPs []string, hostIPs []string, services []*corev1.Service, src Source) ([]string, error) {
	vars := map[string]string{}
	if err := addFrom(vars, pod, c, src); err != nil {
		return nil, err
	}
	links := serviceVars(pod, services)
	lookup := func(name string) (string, bool) {
		if v, ok := vars[name]; ok {
			return v, true
		}
		v, ok := links[name]
		return v, ok
	}
	if len(podIPs) == 0 && podIP != "" {
		podIPs = []string{podIP}
	}
	r := resolver{pod: pod, container: c, ips: downward.IPs{Pod: podIPs, Host: hostIPs}, src: src}
	for i := range c.Env {
		e := &c.Env[i]
		if e.Value != "" || e.ValueFrom == nil {
			vars[e.Name] = expand(e.Value, lookup)
			continue
		}
		value, ok, err := r.resolve(e.ValueFrom)
		if err != nil {
			return nil, err
		}
		if ok {
			vars[e.Name] = value
		}
	}
	for k, v := range links {
		if _, ok := vars[k]; !ok {
			vars[k] = v
		}
	}
	list := make([]string, 0, len(vars))
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		list = append(list, k+"="+vars[k])
	}
	return list, nil
}

func addFrom(vars map[string]string, pod *corev1.Pod, c *corev1.Container, src Source) error {
	for i := range c.EnvFrom {
		from := &c.EnvFrom[i]
		switch {
		case from.ConfigMapRef != nil:
			cm, err := src.ConfigMap(pod.Namespace, from.ConfigMapRef.Name)
			if err != nil {
				if apierrors.IsNotFound(err) && isTrue(from.ConfigMapRef.Optional) {
					continue
				}
				return err
			}
			for k, v := range cm.Data {
				vars[from.Prefix+k] = v
			}
		case from.SecretRef != nil:
			secret, err := src.Secret(pod.Namespace, from.SecretRef.Name)
			if err != nil {
				if apierrors.IsNotFound(err) && isTrue(from.SecretRef.Optional) {
					continue
				}
				return err
			}
			for k, v := range secret.Data {
				vars[from.Prefix+k] = string(v)
			}
		}
	}
	return nil
}

// resolver answers valueFrom; ok is false if an optional thing is missing, then the variable is not set at all.
type resolver struct {
	pod       *corev1.Pod
	container *corev1.Container
	ips       downward.IPs
	src       Source
}

func (r *resolver) resolve(from *corev1.EnvVarSource) (value string, ok bool, err error) {
	ns := r.pod.Namespace
	switch {
	case from.FieldRef != nil:
		value, err = downward.Field(r.pod, from.FieldRef.FieldPath, r.ips)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = downward.Resource(r.pod, r.container.Name, from.ResourceFieldRef, r.src.NodeAllocatable())
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := r.src.ConfigMap(ns, ref.Name)
		if err != nil {
			return optional(ref.Optional, apierrors.IsNotFound(err), err)
		}
		if value, ok = cm.Data[ref.Key]; !ok {
			return optional(ref.Optional, true, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, ns, ref.Name))
		}
		return value, true, nil
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := r.src.Secret(ns, ref.Name)
		if err != nil {
			return optional(ref.Optional, apierrors.IsNotFound(err), err)
		}
		data, ok := secret.Data[ref.Key]
		if !ok {
			return optional(ref.Optional, true, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, ns, ref.Name))
		}
		return string(data), true, nil
	case from.FileKeyRef != nil:
		return r.file(from.FileKeyRef)
	}
	return "", false, fmt.Errorf("environment variable source of container %q is not supported by this kubelet", r.container.Name)
}

func optional(flag *bool, missing bool, err error) (string, bool, error) {
	if missing && isTrue(flag) {
		return "", false, nil
	}
	return "", false, err
}

func isTrue(b *bool) bool { return b != nil && *b }
