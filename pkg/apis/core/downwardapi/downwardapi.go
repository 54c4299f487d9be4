// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package downwardapi checks references from a pod to its own fields and resources. Touch it when another field may be
// referred to.
package downwardapi

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	// EnvFields are the fields that environment variables may show.
	EnvFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	// VolumeFields are the fields that files may show.
	VolumeFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}

	// known are the fields that have a path at all.
	known = append([]string{"spec.restartPolicy", "spec.schedulerName", "status.phase"}, append(slices.Clone(EnvFields), VolumeFields...)...)

	resources = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

// SetDefaults fills in the version of a field's path; nil is left alone.
func SetDefaults(f *corev1.ObjectFieldSelector) {
	if f != nil && f.APIVersion == "" {
		f.APIVersion = "v1"
	}
}

// SplitPath splits metadata.labels['key'] into the path and the key.
func SplitPath(path string) (base, key string, subscripted bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	base, key, ok = strings.Cut(rest, "['")
	if !ok || base == "" {
		return path, "", false
	}
	return base, key, true
}

// ValidateField checks a reference to one of the fields.
func ValidateField(f *corev1.ObjectFieldSelector, fields []string, path *field.Path) field.ErrorList {
	if f.APIVersion == "" {
		return field.ErrorList{field.Required(path.Child("apiVersion"), "")}
	}
	if f.FieldPath == "" {
		return field.ErrorList{field.Required(path.Child("fieldPath"), "")}
	}
	bad := func(format string, args ...any) field.ErrorList {
		return field.ErrorList{field.Invalid(path.Child("fieldPath"), f.FieldPath, "error converting fieldPath: "+fmt.Sprintf(format, args...))}
	}
	if f.APIVersion != "v1" {
		return bad("unsupported pod version: %s", f.APIVersion)
	}
	base, key, subscripted := SplitPath(f.FieldPath)
	if subscripted {
		switch base {
		case "metadata.annotations":
			return validateQualifiedName(strings.ToLower(key), path)
		case "metadata.labels":
			return validateQualifiedName(key, path)
		}
		return bad("field label does not support subscript: %s", f.FieldPath)
	}
	if base == "spec.host" { // the name that spec.nodeName once had
		base = "spec.nodeName"
	} else if !slices.Contains(known, base) {
		return bad("field label not supported: %s", f.FieldPath)
	}
	if !slices.Contains(fields, base) {
		return field.ErrorList{field.NotSupported(path.Child("fieldPath"), base, slices.Sorted(slices.Values(fields)))}
	}
	return nil
}

func validateQualifiedName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// ValidateResource checks a reference to a container's resource. In a volume the container must be named.
func ValidateResource(r *corev1.ResourceFieldSelector, inVolume bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	huge := strings.HasPrefix(r.Resource, "limits.hugepages-") || strings.HasPrefix(r.Resource, "requests.hugepages-")
	switch {
	case inVolume && r.ContainerName == "":
		errs = append(errs, field.Required(path.Child("containerName"), ""))
	case r.Resource == "":
		errs = append(errs, field.Required(path.Child("resource"), ""))
	case !huge && !slices.Contains(resources, r.Resource):
		errs = append(errs, field.NotSupported(path.Child("resource"), r.Resource, resources))
	}
	return append(errs, validateDivisor(r.Resource, r.Divisor, path.Child("divisor"))...)
}

func validateDivisor(name string, divisor resource.Quantity, path *field.Path) field.ErrorList {
	if divisor.IsZero() {
		return nil
	}
	_, of, _ := strings.Cut(name, ".")
	allowed := byteDivisors
	var what string
	switch {
	case of == "cpu":
		allowed, what = []string{"1m", "1"}, "cpu"
	case of == "memory":
		what = "memory"
	case of == "ephemeral-storage":
		what = "local ephemeral storage"
	case strings.HasPrefix(of, corev1.ResourceHugePagesPrefix):
		what = "hugepages"
	default:
		return nil
	}
	if slices.Contains(allowed, divisor.String()) {
		return nil
	}
	list := strings.Join(allowed, ", ")
	if of == "cpu" {
		list = strings.Join(allowed, " and ")
	}
	return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("only divisor's values %s are supported with the %s resource", list, what))}
}
