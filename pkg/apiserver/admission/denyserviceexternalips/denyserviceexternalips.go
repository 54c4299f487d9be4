// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package denyserviceexternalips refuses new external IPs of Services, by which who may write Services could draw the
// traffic for any address to themselves (CVE-2020-8554). Off by default. Touch it when what is refused changes.
package denyserviceexternalips

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "DenyServiceExternalIPs"

type plugin struct{ *admission.Handler }

var _ admission.ValidationInterface = plugin{}

// New returns the plugin.
func New() admission.Interface {
	return plugin{admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements admission.ValidationInterface. What is there already may stay or go.
func (plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("services") || a.GetSubresource() != "" {
		return nil
	}
	service, err := object.New[*corev1.Service](a)
	if err != nil {
		return err
	}
	had := sets.New[string]()
	if a.GetOperation() == admission.Update {
		old, err := object.Old[*corev1.Service](a)
		if err != nil {
			return err
		}
		had.Insert(old.Spec.ExternalIPs...)
	}
	if !had.HasAll(service.Spec.ExternalIPs...) {
		return admission.NewForbidden(a, errors.New("Use of external IPs is denied by admission control")) //nolint:staticcheck // upstream's words
	}
	return nil
}
