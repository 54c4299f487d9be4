// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumeattachment

import (
	"context"
	"math"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolume"
	"minik8s.io/minik8s/pkg/apis/core/volumesource"
	"minik8s.io/minik8s/pkg/registry"
)

const (
	maxMetadata = 256 << 10
	maxMessage  = 1024
)

func validate(_ context.Context, a *storagev1.VolumeAttachment) field.ErrorList {
	spec, path := &a.Spec, field.NewPath("spec")
	errs := volumesource.ValidateDriverName(spec.Attacher, path.Child("attacher"))
	errs = append(errs, validateSource(&spec.Source, path.Child("source"))...)
	for _, msg := range apivalidation.NameIsDNSSubdomain(spec.NodeName, false) {
		errs = append(errs, field.Invalid(path.Child("nodeName"), spec.NodeName, msg))
	}
	status := field.NewPath("status")
	size := 0
	for k, v := range a.Status.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > maxMetadata {
		errs = append(errs, field.TooLong(status.Child("attachmentMetadata"), "", maxMetadata))
	}
	errs = append(errs, validateError(a.Status.AttachError, status.Child("attachError"))...)
	errs = append(errs, validateError(a.Status.DetachError, status.Child("detachError"))...)
	if name := spec.Source.PersistentVolumeName; name != nil {
		for _, msg := range apivalidation.NameIsDNSSubdomain(*name, false) {
			errs = append(errs, field.Invalid(path.Child("source", "persistentVolumeName"), *name, msg))
		}
	}
	return errs
}

func validateSource(s *storagev1.VolumeAttachmentSource, path *field.Path) field.ErrorList {
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	inline, name := s.InlineVolumeSpec, s.PersistentVolumeName
	switch {
	case inline == nil && name == nil:
		return field.ErrorList{field.Required(path, one)}
	case inline != nil && name != nil:
		return field.ErrorList{field.Forbidden(path, one)}
	case inline != nil:
		return persistentvolume.ValidateInline(inline, path.Child("inlineVolumeSpec"))
	case *name == "":
		return field.ErrorList{field.Required(path.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")}
	}
	return nil
}

func validateError(e *storagev1.VolumeError, path *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	if len(e.Message) > maxMessage {
		errs = append(errs, field.TooLong(path.Child("message"), "", maxMessage))
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(path.Child("errorCode"), *e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}

func validateUpdate(ctx context.Context, a, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := append(validate(ctx, a), registry.ValidateMetadata(a, false, apivalidation.NameIsDNSSubdomain)...)
	return append(errs, apivalidation.ValidateImmutableField(a.Spec, old.Spec, field.NewPath("spec"))...)
}
