// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificateapproval lets only those approve or deny certificate requests who hold the verb "approve" on the
// signer. Touch it when that check changes.
package certificateapproval

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
	"minik8s.io/minik8s/pkg/registry/certificates/signing"
)

// Name of the plugin.
const Name = "CertificateApproval"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	authorizer authorizer.UnconditionalAuthorizer
}

var (
	_ admission.ValidationInterface            = (*Plugin)(nil)
	_ initializer.WantsUnconditionalAuthorizer = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface { return &Plugin{Handler: admission.NewHandler(admission.Update)} }

// SetUnconditionalAuthorizer implements initializer.WantsUnconditionalAuthorizer.
func (p *Plugin) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) { p.authorizer = a }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.authorizer == nil {
		return errors.New(Name + " requires an authorizer")
	}
	return nil
}

// Validate implements admission.ValidationInterface. The old request counts: the new one may lie about its signer.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certificatesv1.Resource("certificatesigningrequests") || a.GetSubresource() != "approval" {
		return nil
	}
	r, err := object.Old[*certificatesv1.CertificateSigningRequest](a)
	if err != nil {
		return err
	}
	if !signing.Allows(ctx, p.authorizer, a.GetUserInfo(), "approve", r.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q", r.Spec.SignerName))
	}
	return nil
}
