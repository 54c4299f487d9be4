// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csidriver

import (
	"context"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	minTokenSeconds  = 10 * 60
	maxTokenSeconds  = 1 << 32
	minUpdateSeconds = 10
)

var (
	groupPolicies  = sets.New(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy)
	lifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
)

func validate(_ context.Context, d *storagev1.CSIDriver) field.ErrorList {
	s, path := &d.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if !groupPolicies.Has(*s.FSGroupPolicy) {
		errs = append(errs, field.NotSupported(path.Child("fsGroupPolicy"), *s.FSGroupPolicy, sets.List(groupPolicies)))
	}
	errs = append(errs, validateTokens(s.TokenRequests, path.Child("tokenRequests"))...)
	for _, m := range s.VolumeLifecycleModes {
		if !slices.Contains(lifecycleModes, m) {
			errs = append(errs, field.NotSupported(path.Child("volumeLifecycleModes"), m, lifecycleModes))
		}
	}
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < minUpdateSeconds {
		errs = append(errs, field.Invalid(path.Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds"))
	}
	if s.ServiceAccountTokenInSecrets != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(path.Child("serviceAccountTokenInSecrets"), *s.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

func validateTokens(requests []storagev1.TokenRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	audiences := sets.New[string]()
	for i, r := range requests {
		p := path.Index(i)
		if audiences.Has(r.Audience) {
			errs = append(errs, field.Duplicate(p.Child("audience"), r.Audience))
			continue
		}
		audiences.Insert(r.Audience)
		switch n := r.ExpirationSeconds; {
		case n == nil:
		case *n < minTokenSeconds:
			errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *n, "may not specify a duration less than 10 minutes"))
		case *n > maxTokenSeconds:
			errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *n, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

func validateUpdate(ctx context.Context, d, old *storagev1.CSIDriver) field.ErrorList {
	path := field.NewPath("spec")
	errs := validate(ctx, d)
	errs = append(errs, apivalidation.ValidateImmutableField(d.Spec.AttachRequired, old.Spec.AttachRequired, path.Child("attachedRequired"))...)
	return append(errs, apivalidation.ValidateImmutableField(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, path.Child("volumeLifecycleModes"))...)
}
