// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package env has the defaults and validation of environment variables. Touch it when they get another source.
package env

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/downwardapi"
	"minik8s.io/minik8s/pkg/apis/core/localpath"
)

// SetDefaults fills in the sources of variables.
func SetDefaults(vars []corev1.EnvVar) {
	for i := range vars {
		if from := vars[i].ValueFrom; from != nil {
			downwardapi.SetDefaults(from.FieldRef)
			if f := from.FileKeyRef; f != nil && f.Optional == nil {
				f.Optional = new(bool)
			}
		}
	}
}

// Validate checks variables.
func Validate(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range vars {
		p := path.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), ""))
		} else {
			for _, msg := range validation.IsRelaxedEnvVarName(v.Name) {
				errs = append(errs, field.Invalid(p.Child("name"), v.Name, msg))
			}
		}
		errs = append(errs, validateSource(v, p.Child("valueFrom"))...)
	}
	return errs
}

func validateSource(v corev1.EnvVar, path *field.Path) field.ErrorList {
	from := v.ValueFrom
	if from == nil {
		return nil
	}
	var errs field.ErrorList
	n := 0
	if from.FieldRef != nil {
		n++
		errs = append(errs, downwardapi.ValidateField(from.FieldRef, downwardapi.EnvFields, path.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		n++
		errs = append(errs, downwardapi.ValidateResource(from.ResourceFieldRef, false, path.Child("resourceFieldRef"))...)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		n++
		errs = append(errs, validateKey(r.Name, r.Key, path.Child("configMapKeyRef"))...)
	}
	if r := from.SecretKeyRef; r != nil {
		n++
		errs = append(errs, validateKey(r.Name, r.Key, path.Child("secretKeyRef"))...)
	}
	if r := from.FileKeyRef; r != nil {
		n++
		errs = append(errs, validateFileKey(r, path.Child("fileKeyRef"))...)
	}
	switch {
	case n == 0:
		errs = append(errs, field.Invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		errs = append(errs, field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case n > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func validateKey(name, key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path.Child("name"), name, msg))
	}
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Child("key"), key, msg))
	}
	return errs
}

// validateFileKey checks a reference to a line of a file in an emptyDir (KEP-3721).
func validateFileKey(r *corev1.FileKeySelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Key == "" {
		errs = append(errs, field.Required(path.Child("key"), ""))
	} else {
		for _, msg := range validation.IsRelaxedEnvVarName(r.Key) {
			errs = append(errs, field.Invalid(path.Child("key"), r.Key, msg))
		}
	}
	if r.VolumeName == "" {
		errs = append(errs, field.Required(path.Child("volumeName"), ""))
	} else {
		for _, msg := range validation.IsDNS1123Label(r.VolumeName) {
			errs = append(errs, field.Invalid(path.Child("volumeName"), r.VolumeName, msg))
		}
	}
	if r.Path == "" {
		return append(errs, field.Required(path.Child("path"), ""))
	}
	return append(errs, localpath.ValidateNoBacksteps(r.Path, path.Child("path"))...)
}

// ValidateFrom checks sources that give many variables at once.
func ValidateFrom(sources []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, s := range sources {
		p := path.Index(i)
		if s.Prefix != "" {
			for _, msg := range validation.IsRelaxedEnvVarName(s.Prefix) {
				errs = append(errs, field.Invalid(p.Child("prefix"), s.Prefix, msg))
			}
		}
		n := 0
		if s.ConfigMapRef != nil {
			n++
			errs = append(errs, validateName(s.ConfigMapRef.Name, p.Child("configMapRef", "name"))...)
		}
		if s.SecretRef != nil {
			n++
			errs = append(errs, validateName(s.SecretRef.Name, p.Child("secretRef", "name"))...)
		}
		switch {
		case n == 0:
			errs = append(errs, field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case n > 1:
			errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

func validateName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, true) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}
