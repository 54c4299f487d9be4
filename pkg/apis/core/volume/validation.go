// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/downwardapi"
	"minik8s.io/minik8s/pkg/apis/core/localpath"
	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/volumesource"
)

const badMode = "must be a number between 0 and 0777 (octal), both inclusive"

// sources are the JSON names of the sources that are set, in the order of the API.
func sources(v *corev1.VolumeSource) []string {
	var names []string
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		if !s.Field(i).IsNil() {
			name, _, _ := strings.Cut(s.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// Validate checks the volumes of a pod and returns the valid ones by name, for the mounts to refer to.
func Validate(volumes []corev1.Volume, path *field.Path) (map[string]corev1.VolumeSource, field.ErrorList) {
	valid := map[string]corev1.VolumeSource{}
	var errs field.ErrorList
	for i := range volumes {
		v, p := &volumes[i], path.Index(i)
		e := validateSource(&v.VolumeSource, p)
		if v.Name == "" {
			e = append(e, field.Required(p.Child("name"), ""))
		}
		if v.Name != "" {
			for _, msg := range validation.IsDNS1123Label(v.Name) {
				e = append(e, field.Invalid(p.Child("name"), v.Name, msg))
			}
		}
		if _, dup := valid[v.Name]; dup {
			e = append(e, field.Duplicate(p.Child("name"), v.Name))
		}
		if len(e) == 0 {
			valid[v.Name] = v.VolumeSource
		}
		errs = append(errs, e...)
	}
	return valid, errs
}

func validateSource(v *corev1.VolumeSource, path *field.Path) field.ErrorList {
	names := sources(v)
	if len(names) == 0 {
		return field.ErrorList{field.Required(path, "must specify a volume type")}
	}
	var errs field.ErrorList
	for _, extra := range names[1:] {
		errs = append(errs, field.Forbidden(path.Child(extra), "may not specify more than 1 volume type"))
	}
	p := path.Child(names[0])
	switch names[0] {
	case "emptyDir":
		if l := v.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			errs = append(errs, field.Forbidden(p.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
		}
	case "hostPath":
		errs = append(errs, volumesource.ValidateHostPath(v.HostPath, p)...)
	case "secret":
		errs = append(errs, required(v.Secret.SecretName, p.Child("secretName"))...)
		errs = append(errs, validateMode(v.Secret.DefaultMode, p.Child("defaultMode"))...)
		errs = append(errs, validateKeys(v.Secret.Items, p.Child("items"))...)
	case "configMap":
		errs = append(errs, required(v.ConfigMap.Name, p.Child("name"))...)
		errs = append(errs, validateMode(v.ConfigMap.DefaultMode, p.Child("defaultMode"))...)
		errs = append(errs, validateKeys(v.ConfigMap.Items, p.Child("items"))...)
	case "downwardAPI":
		errs = append(errs, validateMode(v.DownwardAPI.DefaultMode, p.Child("defaultMode"))...)
		for i := range v.DownwardAPI.Items {
			errs = append(errs, validateFile(&v.DownwardAPI.Items[i], p)...)
		}
	case "projected":
		errs = append(errs, validateMode(v.Projected.DefaultMode, p.Child("defaultMode"))...)
		errs = append(errs, validateProjections(v.Projected.Sources, p)...)
	case "persistentVolumeClaim":
		errs = append(errs, required(v.PersistentVolumeClaim.ClaimName, p.Child("claimName"))...)
	case "ephemeral":
		if t := v.Ephemeral.VolumeClaimTemplate; t == nil {
			errs = append(errs, field.Required(p.Child("volumeClaimTemplate"), ""))
		} else {
			errs = append(errs, persistentvolumeclaim.ValidateTemplate(t, p.Child("volumeClaimTemplate"), persistentvolumeclaim.Leniency{})...)
		}
	}
	return errs
}

func required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func validateMode(mode *int32, path *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(path, *mode, badMode)}
	}
	return nil
}

func validateKeys(items []corev1.KeyToPath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		p := path.Index(i)
		errs = append(errs, required(item.Key, p.Child("key"))...)
		errs = append(errs, required(item.Path, p.Child("path"))...)
		errs = append(errs, localpath.ValidateNonReserved(item.Path, p.Child("path"))...)
		errs = append(errs, validateMode(item.Mode, p.Child("mode"))...)
	}
	return errs
}

func validateFile(f *corev1.DownwardAPIVolumeFile, path *field.Path) field.ErrorList {
	errs := required(f.Path, path.Child("path"))
	errs = append(errs, localpath.ValidateNonReserved(f.Path, path.Child("path"))...)
	switch {
	case f.FieldRef != nil:
		errs = append(errs, downwardapi.ValidateField(f.FieldRef, downwardapi.VolumeFields, path.Child("fieldRef"))...)
		if f.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case f.ResourceFieldRef != nil:
		errs = append(errs, downwardapi.ValidateResource(f.ResourceFieldRef, true, path.Child("resourceFieldRef"))...)
	default:
		errs = append(errs, field.Required(path, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(errs, validateMode(f.Mode, path.Child("mode"))...)
}

func validateProjections(projections []corev1.VolumeProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := sets.New[string]()
	take := func(file, shown string) {
		if file != "" && taken.Has(file) {
			errs = append(errs, field.Invalid(path, shown, "conflicting duplicate paths"))
		}
		taken.Insert(file)
	}
	for i, s := range projections {
		p := path.Child("sources").Index(i)
		n := 0
		if s.Secret != nil {
			n++
			errs = append(errs, required(s.Secret.Name, p.Child("secret", "name"))...)
			errs = append(errs, validateKeys(s.Secret.Items, p.Child("secret", "items"))...)
			for _, item := range s.Secret.Items {
				take(item.Path, s.Secret.Name)
			}
		}
		if s.ConfigMap != nil {
			n++
			errs = append(errs, required(s.ConfigMap.Name, p.Child("configMap", "name"))...)
			errs = append(errs, validateKeys(s.ConfigMap.Items, p.Child("configMap", "items"))...)
			for _, item := range s.ConfigMap.Items {
				take(item.Path, s.ConfigMap.Name)
			}
		}
		if s.DownwardAPI != nil {
			n++
			for j := range s.DownwardAPI.Items {
				errs = append(errs, validateFile(&s.DownwardAPI.Items[j], p.Child("downwardAPI"))...)
				take(s.DownwardAPI.Items[j].Path, s.DownwardAPI.Items[j].Path)
			}
		}
		if t := s.ServiceAccountToken; t != nil {
			n++
			errs = append(errs, validateToken(t, path, p.Child("serviceAccountToken"))...)
		}
		if s.ClusterTrustBundle != nil {
			n++
		}
		if s.PodCertificate != nil {
			n++
		}
		if n > 1 {
			errs = append(errs, field.Forbidden(p, "may not specify more than 1 volume type per source"))
		}
	}
	return errs
}

// validateToken reports a bad path at the volume (volumePath), as clients know it.
func validateToken(t *corev1.ServiceAccountTokenProjection, volumePath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := t.ExpirationSeconds; s != nil {
		if *s < 10*60 {
			errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *s, "may not specify a duration less than 10 minutes"))
		}
		if *s > 1<<32 {
			errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	if t.Path == "" {
		return append(errs, field.Required(volumePath.Child("path"), ""))
	}
	return append(errs, localpath.ValidateNonReserved(t.Path, volumePath.Child("path"))...)
}
