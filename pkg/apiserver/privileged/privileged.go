// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package privileged refuses privileged containers in the whole cluster, as kube-apiserver without --allow-privileged does.
// Touch it when containers get another way to ask for privilege.
package privileged

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	psa "k8s.io/pod-security-admission/admission"
)

type plugin struct{ *admission.Handler }

var _ admission.ValidationInterface = plugin{}

// New returns what refuses.
func New() admission.Interface {
	return plugin{admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements admission.ValidationInterface. The answer is that of a failed validation, as upstream's is.
func (plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	extractor := psa.DefaultPodSpecExtractor{}
	if a.GetSubresource() != "" && a.GetSubresource() != "ephemeralcontainers" || !extractor.HasPodSpec(a.GetResource().GroupResource()) {
		return nil
	}
	path, ok := specPath(a.GetKind().Kind)
	if !ok {
		return nil
	}
	_, spec, err := extractor.ExtractPodSpec(a.GetObject())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if spec == nil {
		return nil
	}
	errs := check(spec, path)
	if len(errs) == 0 {
		return nil
	}
	name := a.GetName()
	if m, err := meta.Accessor(a.GetObject()); err == nil && name == "" {
		name = m.GetName()
	}
	return apierrors.NewInvalid(a.GetKind().GroupKind(), name, errs)
}

// specPath is where a kind has its pod spec.
func specPath(kind string) (*field.Path, bool) {
	switch kind {
	case "Pod":
		return field.NewPath("spec"), true
	case "PodTemplate":
		return field.NewPath("template", "spec"), true
	case "CronJob":
		return field.NewPath("spec", "jobTemplate", "spec", "template", "spec"), true
	case "ReplicationController", "ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "Job":
		return field.NewPath("spec", "template", "spec"), true
	}
	return nil, false
}

func check(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	look := func(path *field.Path, c *corev1.SecurityContext) {
		if c != nil && c.Privileged != nil && *c.Privileged {
			errs = append(errs, field.Forbidden(path.Child("securityContext", "privileged"), "disallowed by cluster policy"))
		}
	}
	for i := range spec.InitContainers {
		look(path.Child("initContainers").Index(i), spec.InitContainers[i].SecurityContext)
	}
	for i := range spec.Containers {
		look(path.Child("containers").Index(i), spec.Containers[i].SecurityContext)
	}
	for i := range spec.EphemeralContainers {
		look(path.Child("ephemeralContainers").Index(i), spec.EphemeralContainers[i].SecurityContext)
	}
	return errs
}
