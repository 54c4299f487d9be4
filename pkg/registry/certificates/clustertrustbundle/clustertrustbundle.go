// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package clustertrustbundle serves ClusterTrustBundles: X.509 trust anchors for all of the cluster, of a signer or of
// nobody in particular. Touch it when their rules change.
package clustertrustbundle

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes clustertrustbundles.
var Resource = &registry.Resource[*certificatesv1.ClusterTrustBundle]{
	Kind:          certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"),
	Name:          "clustertrustbundles",
	ClusterScoped: true,
	New:           func() *certificatesv1.ClusterTrustBundle { return &certificatesv1.ClusterTrustBundle{} },
	NewList:       func() runtime.Object { return &certificatesv1.ClusterTrustBundleList{} },
	// Names depend on the signer: validate looks at them.
	ValidateName:           func(string, bool) []string { return nil },
	Validate:               validate,
	ValidateUpdate:         validateUpdate,
	RequireResourceVersion: true,
	Fields: registry.Fields[*certificatesv1.ClusterTrustBundle]{
		"spec.signerName": func(b *certificatesv1.ClusterTrustBundle) string { return b.Spec.SignerName },
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("SignerName", "string", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
	},
	Row: func(b *certificatesv1.ClusterTrustBundle) []any {
		if b.Spec.SignerName == "" {
			return []any{b.Name, "<none>"}
		}
		return []any{b.Name, b.Spec.SignerName}
	},
}
