// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"minik8s.io/minik8s/pkg/apis/core/container"
	"minik8s.io/minik8s/pkg/apis/core/qos"
)

// resizePart changes cpu and memory of containers in place (KEP-1287).
func resizePart(typer runtime.ObjectTyper) part {
	each := fieldpath.MatchAnyPathElement()
	return part{
		ObjectTyper: typer,
		restrict:    restrictResize,
		validate:    validateResize,
		owned: fieldpath.NewIncludeMatcherFilter(
			fieldpath.MakePrefixMatcherOrDie("spec", "containers", each, "resources"),
			fieldpath.MakePrefixMatcherOrDie("spec", "containers", each, "resizePolicy"),
			fieldpath.MakePrefixMatcherOrDie("spec", "initContainers", each, "resources"),
			fieldpath.MakePrefixMatcherOrDie("spec", "initContainers", each, "resizePolicy"),
		),
	}
}

// restrictResize leaves alone a pod whose containers are not the old ones; validation refuses it then.
func restrictResize(p, old *corev1.Pod) {
	if !sameContainers(p, old) {
		return
	}
	containers, inits := p.Spec.Containers, p.Spec.InitContainers
	p.Spec = *old.Spec.DeepCopy()
	keepRest(p, old)
	take := func(dst, src []corev1.Container) {
		for i := range dst {
			dst[i].Resources, dst[i].ResizePolicy = src[i].Resources, src[i].ResizePolicy
		}
	}
	take(p.Spec.Containers, containers)
	take(p.Spec.InitContainers, inits)
}

func sameContainers(p, old *corev1.Pod) bool {
	same := func(a, b corev1.Container) bool { return a.Name == b.Name }
	return slices.EqualFunc(p.Spec.Containers, old.Spec.Containers, same) && slices.EqualFunc(p.Spec.InitContainers, old.Spec.InitContainers, same)
}

func validateResize(p, old *corev1.Pod) field.ErrorList {
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if !sameContainers(p, old) {
		return field.ErrorList{field.Forbidden(specPath, "only cpu and memory resources are mutable")}
	}
	var errs field.ErrorList
	if old.Status.QOSClass != qos.Class(&p.Spec) {
		errs = append(errs, field.Invalid(specPath, p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !resizable(old) {
		errs = append(errs, field.Forbidden(specPath, "Pod running on node without support for resize"))
	}
	for i := range p.Spec.Containers {
		errs = append(errs, validateContainerResize(&p.Spec.Containers[i], &old.Spec.Containers[i], "only cpu and memory resources are mutable", specPath.Child("containers").Index(i))...)
	}
	for i := range p.Spec.InitContainers {
		c, o := &p.Spec.InitContainers[i], &old.Spec.InitContainers[i]
		if !container.Restartable(c) {
			if !apiequality.Semantic.DeepEqual(c, o) {
				errs = append(errs, field.Forbidden(specPath, "resources for non-sidecar init containers are immutable"))
			}
			continue
		}
		errs = append(errs, validateContainerResize(c, o, "only cpu and memory resources for sidecar containers are mutable", specPath.Child("initContainers").Index(i))...)
	}
	return errs
}

// resizable tells whether the node of a pod can resize it, as seen from its reporting actual resources. Before anything
// runs, nobody knows, and it is assumed.
func resizable(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.Resources != nil
		}
	}
	return true
}

func validateContainerResize(c, old *corev1.Container, immutable string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if removed(c.Resources.Requests, old.Resources.Requests) {
		errs = append(errs, field.Forbidden(path.Child("resources", "requests"), "resource requests cannot be removed"))
	}
	if removed(c.Resources.Limits, old.Resources.Limits) {
		errs = append(errs, field.Forbidden(path.Child("resources", "limits"), "resource limits cannot be removed"))
	}
	fixed := apiequality.Semantic.DeepEqual(others(c.Resources.Requests), others(old.Resources.Requests)) &&
		apiequality.Semantic.DeepEqual(others(c.Resources.Limits), others(old.Resources.Limits)) &&
		apiequality.Semantic.DeepEqual(c.Resources.Claims, old.Resources.Claims) &&
		apiequality.Semantic.DeepEqual(c.ResizePolicy, old.ResizePolicy)
	if !fixed {
		errs = append(errs, field.Forbidden(specPath, immutable))
	}
	return errs
}

func removed(now, old corev1.ResourceList) bool {
	for name := range old {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// others is the list without what a resize may change.
func others(list corev1.ResourceList) corev1.ResourceList {
	rest := maps.Clone(list)
	delete(rest, corev1.ResourceCPU)
	delete(rest, corev1.ResourceMemory)
	return rest
}
