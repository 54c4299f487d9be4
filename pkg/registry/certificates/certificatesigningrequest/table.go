// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequest

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"minik8s.io/minik8s/pkg/registry"
)

// docs are of v1beta1, as upstream's columns are.
var docs = certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc()

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.AgeColumn,
	registry.Column("SignerName", "string", docs["signerName"]),
	registry.Column("Requestor", "string", docs["request"]),
	registry.Column("RequestedDuration", "string", docs["expirationSeconds"]),
	registry.Column("Condition", "string", certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
}

func row(r *certificatesv1.CertificateSigningRequest) []any {
	signer, requested := "<none>", "<none>"
	if r.Spec.SignerName != "" {
		signer = r.Spec.SignerName
	}
	if s := r.Spec.ExpirationSeconds; s != nil {
		requested = duration.HumanDuration(time.Duration(*s) * time.Second)
	}
	return []any{r.Name, registry.Age(r.CreationTimestamp), signer, r.Spec.Username, requested, condition(r)}
}

// condition sums up how far a request has come.
func condition(r *certificatesv1.CertificateSigningRequest) string {
	text := "Pending"
	switch {
	case len(indices(r, certificatesv1.CertificateDenied)) > 0:
		text = "Denied"
	case len(indices(r, certificatesv1.CertificateApproved)) > 0:
		text = "Approved"
	}
	if len(indices(r, certificatesv1.CertificateFailed)) > 0 {
		text += ",Failed"
	}
	if len(r.Status.Certificate) > 0 {
		text += ",Issued"
	}
	return text
}
