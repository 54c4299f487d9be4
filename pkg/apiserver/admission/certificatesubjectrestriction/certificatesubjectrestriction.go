// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificatesubjectrestriction refuses requests for client certificates of the group system:masters, which no role
// could take away again. Touch it when what is refused changes.
package certificatesubjectrestriction

import (
	"context"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
	"minik8s.io/minik8s/pkg/registry/certificates/signing"
)

// Name of the plugin.
const Name = "CertificateSubjectRestriction"

type plugin struct{ *admission.Handler }

var _ admission.ValidationInterface = plugin{}

// New returns the plugin.
func New() admission.Interface { return plugin{admission.NewHandler(admission.Create)} }

// Validate implements admission.ValidationInterface.
func (plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certificatesv1.Resource("certificatesigningrequests") || a.GetSubresource() != "" {
		return nil
	}
	r, err := object.New[*certificatesv1.CertificateSigningRequest](a)
	if err != nil {
		return err
	}
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	request, err := signing.ParseRequest(r.Spec.Request)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(request.Subject.Organization, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(a, fmt.Errorf("use of %s signer with %s group is not allowed", r.Spec.SignerName, user.SystemPrivilegedGroup))
	}
	return nil
}
