// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificatesigningrequest serves CertificateSigningRequests: somebody asks a signer for a certificate, somebody
// else approves or denies, the signer answers in the status. Touch it when their rules change.
package certificatesigningrequest

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes certificatesigningrequests.
var Resource = &registry.Resource[*certificatesv1.CertificateSigningRequest]{
	Kind:             certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
	Name:             "certificatesigningrequests",
	ShortNames:       []string{"csr"},
	ClusterScoped:    true,
	New:              func() *certificatesv1.CertificateSigningRequest { return &certificatesv1.CertificateSigningRequest{} },
	NewList:          func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
	ValidateName:     func(string, bool) []string { return nil },
	PrepareForCreate: setRequestor,
	PrepareForUpdate: keepSpec,
	Validate:         validate,
	ValidateUpdate:   validateUpdate,
	Status: &registry.Status[*certificatesv1.CertificateSigningRequest]{
		PrepareForUpdate: prepareStatus,
		Validate:         validateStatus,
		ResetFields:      []string{"spec", "status.conditions"},
		BeginUpdate:      count,
	},
	ResetFields: []string{"spec", "status"},
	Fields: registry.Fields[*certificatesv1.CertificateSigningRequest]{
		"spec.signerName": func(r *certificatesv1.CertificateSigningRequest) string { return r.Spec.SignerName },
	},
	Columns: columns,
	Row:     row,
	Configure: func(*registry.Store[*certificatesv1.CertificateSigningRequest], registry.Config) error {
		registerMetrics()
		return nil
	},
	Subresources: func(s *registry.Store[*certificatesv1.CertificateSigningRequest], _ registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"approval": newApprovalREST(s)}, nil
	},
}

// setRequestor notes who asks: approvers decide by it.
func setRequestor(ctx context.Context, r *certificatesv1.CertificateSigningRequest) {
	r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = "", "", nil, nil
	u, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return
	}
	r.Spec.Username, r.Spec.UID, r.Spec.Groups = u.GetName(), u.GetUID(), u.GetGroups()
	for k, v := range u.GetExtra() {
		if r.Spec.Extra == nil {
			r.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		r.Spec.Extra[k] = v
	}
}

// keepSpec makes the request immutable: what was approved is what is signed.
func keepSpec(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) { r.Spec = old.Spec }

// prepareStatus keeps approvals as they were; if some are added or removed, validation says so.
func prepareStatus(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) {
	for _, kind := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		is, was := indices(r, kind), indices(old, kind)
		if len(is) != len(was) {
			continue
		}
		for i := range is {
			r.Status.Conditions[is[i]] = old.Status.Conditions[was[i]]
		}
	}
	setTimes(r, old)
}

// indices are those of the conditions of a type.
func indices(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) []int {
	var found []int
	for i, c := range r.Status.Conditions {
		if c.Type == kind {
			found = append(found, i)
		}
	}
	return found
}

// setTimes fills in the times that the client left out.
func setTimes(r, old *certificatesv1.CertificateSigningRequest) {
	now := metav1.Now()
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, was := range old.Status.Conditions {
			if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
				break
			}
		}
	}
}
