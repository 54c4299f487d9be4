// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podcertificaterequest serves PodCertificateRequests, by which a kubelet asks a signer for a certificate of a pod.
// Touch it when their rules change (KEP-4317).
package podcertificaterequest

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/certificates/signing"
)

var docs = certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()

// Resource describes podcertificaterequests.
var Resource = &registry.Resource[*certificatesv1.PodCertificateRequest]{
	Kind:                   certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"),
	Name:                   "podcertificaterequests",
	New:                    func() *certificatesv1.PodCertificateRequest { return &certificatesv1.PodCertificateRequest{} },
	NewList:                func() runtime.Object { return &certificatesv1.PodCertificateRequestList{} },
	Default:                setDefaults,
	Validate:               validate,
	ValidateUpdate:         validateUpdate,
	RequireResourceVersion: true,
	Status: &registry.Status[*certificatesv1.PodCertificateRequest]{
		KeepMetadata: true,
		Validate:     validateStatus,
		Authorize:    authorize,
	},
	Fields: registry.Fields[*certificatesv1.PodCertificateRequest]{
		"spec.signerName": func(r *certificatesv1.PodCertificateRequest) string { return r.Spec.SignerName },
		"spec.podName":    func(r *certificatesv1.PodCertificateRequest) string { return r.Spec.PodName },
		"spec.nodeName":   func(r *certificatesv1.PodCertificateRequest) string { return string(r.Spec.NodeName) },
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("PodName", "string", docs["podName"]),
		registry.Column("ServiceAccountName", "string", docs["serviceAccountName"]),
		registry.Column("NodeName", "string", docs["nodeName"]),
		registry.Column("SignerName", "string", docs["signerName"]),
		registry.Column("State", "string", "Is the request Pending, Issued, Denied, or Failed?"),
		registry.Column("UnverifiedUserAnnotations", "string", docs["unverifiedUserAnnotations"]),
	},
	Row: func(r *certificatesv1.PodCertificateRequest) []any {
		s := &r.Spec
		return []any{r.Name, s.PodName, s.ServiceAccountName, string(s.NodeName), s.SignerName, state(r), labels.FormatLabels(s.UnverifiedUserAnnotations)}
	},
}

func setDefaults(r *certificatesv1.PodCertificateRequest) {
	if r.Spec.MaxExpirationSeconds == nil {
		r.Spec.MaxExpirationSeconds = new(int32(day))
	}
}

// authorize lets only those change the status who may sign for the signer.
func authorize(ctx context.Context, c registry.Config, r, old *certificatesv1.PodCertificateRequest, found field.ErrorList) field.ErrorList {
	if len(found) > 0 || apiequality.Semantic.DeepEqual(r.Status, old.Status) {
		return nil
	}
	path, signer := field.NewPath("spec", "signerName"), old.Spec.SignerName
	u, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("cannot determine calling user to perform \"sign\" check"))}
	}
	if !signing.Allows(ctx, c.Authorizer, u, "sign", signer) {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", u.GetName(), signer))}
	}
	return nil
}

func state(r *certificatesv1.PodCertificateRequest) string {
	text := "Pending"
	for _, c := range r.Status.Conditions {
		if outcomes.Has(c.Type) {
			text = c.Type
		}
	}
	return text
}
