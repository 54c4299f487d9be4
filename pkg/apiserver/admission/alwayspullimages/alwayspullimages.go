// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package alwayspullimages makes nodes ask the image registry, with the pod's own credentials, before every start of a
// container, so that nobody runs private images which others have pulled. Off by default. Touch it when pods can refer to
// images in a new way.
package alwayspullimages

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "AlwaysPullImages"

type plugin struct{ *admission.Handler }

var (
	_ admission.MutationInterface   = plugin{}
	_ admission.ValidationInterface = plugin{}
)

// New returns the plugin.
func New() admission.Interface {
	return plugin{admission.NewHandler(admission.Create, admission.Update)}
}

// Admit implements admission.MutationInterface.
func (plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := relevant(a)
	if err != nil || pod == nil {
		return err
	}
	visit(&pod.Spec, func(p *corev1.PullPolicy, _ *field.Path) { *p = corev1.PullAlways })
	return nil
}

// Validate implements admission.ValidationInterface: later plugins may have changed what Admit did.
func (plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := relevant(a)
	if err != nil || pod == nil {
		return err
	}
	visit(&pod.Spec, func(p *corev1.PullPolicy, path *field.Path) {
		if *p != corev1.PullAlways && err == nil {
			err = admission.NewForbidden(a, field.NotSupported(path, *p, []corev1.PullPolicy{corev1.PullAlways}))
		}
	})
	return err
}

// relevant returns the pod that is to be looked at, nil if there is none: an update that brings no new image keeps what it
// has, since pull policies cannot change.
func relevant(a admission.Attributes) (*corev1.Pod, error) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" && a.GetSubresource() != "ephemeralcontainers" {
		return nil, nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil || a.GetOperation() != admission.Update {
		return pod, err
	}
	old, err := object.Old[*corev1.Pod](a)
	if err != nil {
		return nil, err
	}
	if images(&old.Spec).IsSuperset(images(&pod.Spec)) {
		return nil, nil
	}
	return pod, nil
}

func images(s *corev1.PodSpec) sets.Set[string] {
	all := sets.New[string]()
	for _, c := range s.InitContainers {
		all.Insert(c.Image)
	}
	for _, c := range s.Containers {
		all.Insert(c.Image)
	}
	for _, c := range s.EphemeralContainers {
		all.Insert(c.Image)
	}
	for _, v := range s.Volumes {
		if v.Image != nil {
			all.Insert(v.Image.Reference)
		}
	}
	return all
}

func visit(s *corev1.PodSpec, f func(p *corev1.PullPolicy, path *field.Path)) {
	spec := field.NewPath("spec")
	for i := range s.InitContainers {
		f(&s.InitContainers[i].ImagePullPolicy, spec.Child("initContainers").Index(i).Child("imagePullPolicy"))
	}
	for i := range s.Containers {
		f(&s.Containers[i].ImagePullPolicy, spec.Child("containers").Index(i).Child("imagePullPolicy"))
	}
	for i := range s.EphemeralContainers {
		f(&s.EphemeralContainers[i].ImagePullPolicy, spec.Child("ephemeralContainers").Index(i).Child("imagePullPolicy"))
	}
	for i := range s.Volumes {
		if v := s.Volumes[i].Image; v != nil {
			f(&v.PullPolicy, spec.Child("volumes").Index(i).Child("image", "pullPolicy"))
		}
	}
}
