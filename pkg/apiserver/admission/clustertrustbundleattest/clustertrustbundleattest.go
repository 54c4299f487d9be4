// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package clustertrustbundleattest lets only those write trust bundles of a signer who hold the verb "attest" on it. Touch it
// when that check changes.
package clustertrustbundleattest

import (
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
const Name = "ClusterTrustBundleAttest"

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
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update)}
}

// SetUnconditionalAuthorizer implements initializer.WantsUnconditionalAuthorizer.
func (p *Plugin) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) { p.authorizer = a }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.authorizer == nil {
		return errors.New(Name + " requires an authorizer")
	}
	return nil
}

// Validate implements admission.ValidationInterface. The new bundle counts: validation refuses another signer.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != certificatesv1.Resource("clustertrustbundles") {
		return nil
	}
	b, err := object.New[*certificatesv1.ClusterTrustBundle](a)
	if err != nil {
		return err
	}
	if b.Spec.SignerName == "" {
		return nil
	}
	if a.GetOperation() == admission.Update {
		old, err := object.Old[*certificatesv1.ClusterTrustBundle](a)
		if err != nil {
			return err
		}
		if onlyCollected(b, old) {
			return nil
		}
	}
	if !signing.Allows(ctx, p.authorizer, a.GetUserInfo(), "attest", b.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to attest for signerName %q", b.Spec.SignerName))
	}
	return nil
}

// onlyCollected reports that nothing changes but what garbage collection and storage migration write.
func onlyCollected(b, old *certificatesv1.ClusterTrustBundle) bool {
	b = b.DeepCopy()
	b.OwnerReferences, b.Finalizers, b.ManagedFields = old.OwnerReferences, old.Finalizers, old.ManagedFields
	return apiequality.Semantic.DeepEqual(b, old)
}
