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

	"minik8s.io/minik8s/pkg/apis/core/container"
	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/apis/core/qos"
)

// resizePart changes cpu and memory of containers in place (KEP-1287).
func resizePart(typer runtime.ObjectTyper) part {
	return part{
		ObjectTyper: typer,
		restrict:    restrictResize,
		refuse:      refuseResize,
		validate:    validateResize,
	}
}

// restrictResize leaves alone a pod whose containers are not the old ones; validation refuses it then.
func restrictResize(p, old *corev1.Pod) {
	if len(p.Spec.Containers) == len(old.Spec.Containers) && len(p.Spec.InitContainers) == len(old.Spec.InitContainers) {
		resources := p.Spec.Resources
		containers, inits := resizeOnly(p.Spec.Containers, old.Spec.Containers), resizeOnly(p.Spec.InitContainers, old.Spec.InitContainers)
		p.Spec = *old.Spec.DeepCopy()
		p.Spec.Resources, p.Spec.Containers, p.Spec.InitContainers = resources, containers, inits
		keepRest(p, old)
	}
	keepResources(p, old)
	podspec.SetPodLevelDefaults(&p.Spec)
}

// resizeOnly are the old containers with the resources of the new ones, or the new ones if others than these.
func resizeOnly(containers, old []corev1.Container) []corev1.Container {
	if !sameNames(containers, old) {
		return containers
	}
	merged := slices.Clone(old)
	for i := range merged {
		merged[i].Resources, merged[i].ResizePolicy = containers[i].Resources, containers[i].ResizePolicy
	}
	return merged
}

func sameNames(a, b []corev1.Container) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Container) bool { return a.Name == b.Name })
}

func refuseResize(old *corev1.Pod) string {
	switch {
	case isMirror(old):
		return "static pods cannot be resized"
	case old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows:
		return "windows pods cannot be resized"
	}
	return ""
}

const onlyCPUAndMemory = "only cpu and memory resources are mutable"

func validateResize(p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	class := old.Status.QOSClass
	if class == "" {
		class = qos.Class(&old.Spec)
	}
	if class != qos.Class(&p.Spec) {
		errs = append(errs, field.Invalid(specPath, p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !resizable(old) {
		errs = append(errs, field.Forbidden(specPath, "Pod running on node without support for resize"))
	}
	errs = append(errs, validatePodLevelResize(p.Spec.Resources, old.Spec.Resources)...)
	order := validateOrder(p.Spec.Containers, old.Spec.Containers, "containers")
	order = append(order, validateOrder(p.Spec.InitContainers, old.Spec.InitContainers, "initContainers")...)
	if errs = append(errs, order...); len(order) > 0 {
		return errs
	}
	for i := range p.Spec.InitContainers {
		c, o, at := &p.Spec.InitContainers[i], &old.Spec.InitContainers[i], specPath.Child("initContainers").Index(i)
		errs = append(errs, validateKept(&c.Resources, &o.Resources, at.Child("resources"), "resource")...)
		if !onlyResized(c, o) {
			errs = append(errs, field.Forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable"))
		}
		restarts := func(r corev1.ContainerResizePolicy) bool { return r.RestartPolicy == corev1.RestartContainer }
		if !container.Restartable(c) && slices.ContainsFunc(c.ResizePolicy, restarts) && !apiequality.Semantic.DeepEqual(c, o) {
			errs = append(errs, field.Forbidden(at, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
		}
	}
	for i := range p.Spec.Containers {
		c, o := &p.Spec.Containers[i], &old.Spec.Containers[i]
		errs = append(errs, validateKept(&c.Resources, &o.Resources, specPath.Child("containers").Index(i).Child("resources"), "resource")...)
		if !onlyResized(c, o) {
			errs = append(errs, field.Forbidden(specPath, onlyCPUAndMemory))
		}
	}
	return errs
}

// validatePodLevelResize checks the resources of the pod as a whole (KEP-5419), which may come but not go.
func validatePodLevelResize(r, old *corev1.ResourceRequirements) field.ErrorList {
	if r == nil || old == nil && len(r.Requests)+len(r.Limits) == 0 {
		return nil // they were kept, if there were any
	}
	was := corev1.ResourceRequirements{}
	if old != nil {
		was = *old
	}
	errs := validateKept(r, &was, specPath.Child("resources"), "pod-level resource")
	if !fixed(r, &was) {
		errs = append(errs, field.Forbidden(specPath, "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

func validateOrder(containers, old []corev1.Container, name string) field.ErrorList {
	path := specPath.Child(name)
	if len(containers) != len(old) {
		return field.ErrorList{field.Forbidden(path, name+" may not be added or removed on resize")}
	}
	var errs field.ErrorList
	for i := range old {
		if containers[i].Name != old[i].Name {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"), name+" may not be renamed or reordered on resize"))
		}
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

// validateKept lets amounts change but not vanish.
func validateKept(r, old *corev1.ResourceRequirements, path *field.Path, what string) field.ErrorList {
	var errs field.ErrorList
	if removed(r.Requests, old.Requests) {
		errs = append(errs, field.Forbidden(path.Child("requests"), what+" requests cannot be removed"))
	}
	if removed(r.Limits, old.Limits) {
		errs = append(errs, field.Forbidden(path.Child("limits"), what+" limits cannot be removed"))
	}
	return errs
}

// onlyResized tells whether containers differ in nothing but cpu and memory.
func onlyResized(c, old *corev1.Container) bool {
	same := *c
	same.Resources = old.Resources
	return apiequality.Semantic.DeepEqual(&same, old) && fixed(&c.Resources, &old.Resources)
}

// fixed tells whether resources differ in nothing but cpu and memory.
func fixed(r, old *corev1.ResourceRequirements) bool {
	return apiequality.Semantic.DeepEqual(others(r.Requests), others(old.Requests)) &&
		apiequality.Semantic.DeepEqual(others(r.Limits), others(old.Limits)) &&
		apiequality.Semantic.DeepEqual(r.Claims, old.Claims)
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
