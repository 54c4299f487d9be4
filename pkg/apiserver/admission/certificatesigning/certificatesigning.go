// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificatesigning lets only those issue certificates, or report that they do not, who hold the verb "sign" on
// the signer. Touch it when that check changes.
package certificatesigning

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
	"minik8s.io/minik8s/pkg/registry/certificates/signing"
)

// Name of the plugin.
const Name = "CertificateSigning"

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

// Validate implements admission.ValidationInterface. The old request says who the signer is: the new one may lie.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certificatesv1.Resource("certificatesigningrequests") || a.GetSubresource() != "status" {
		return nil
	}
	r, err := object.New[*certificatesv1.CertificateSigningRequest](a)
	if err != nil {
		return err
	}
	old, err := object.Old[*certificatesv1.CertificateSigningRequest](a)
	if err != nil {
		return err
	}
	if bytes.Equal(r.Status.Certificate, old.Status.Certificate) && apiequality.Semantic.DeepEqual(r.Status.Conditions, old.Status.Conditions) {
		return nil
	}
	if !signing.Allows(ctx, p.authorizer, a.GetUserInfo(), "sign", old.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
	}
	return nil
}
