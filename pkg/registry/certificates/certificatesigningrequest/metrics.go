// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequest

import (
	"context"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

func counter(name, help string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "apiserver", Subsystem: "certificates_registry", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, []string{"signerName"})
}

var (
	durationRequested = counter("csr_requested_duration_total", "Total number of issued CSRs with a requested duration, sliced by signer (only kubernetes.io signer names are specifically identified)")
	durationHonored   = counter("csr_honored_duration_total", "Total number of issued CSRs with a requested duration that was honored, sliced by signer (only kubernetes.io signer names are specifically identified)")
)

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(durationRequested, durationHonored) })

// count counts certificates, as they are issued, whose requestors said how long they want them.
func count(_ context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
	r, before := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	issued := len(before.Status.Certificate) == 0 && len(r.Status.Certificate) > 0
	asked := before.Spec.ExpirationSeconds
	return func(_ context.Context, kept bool) {
		if !kept || !issued || asked == nil || dryrun.IsDryRun(options.DryRun) {
			return
		}
		signer := before.Spec.SignerName
		if !strings.HasPrefix(signer, "kubernetes.io/") {
			signer = "other"
		}
		durationRequested.WithLabelValues(signer).Inc()
		if honors(r.Status.Certificate, time.Duration(*asked)*time.Second) {
			durationHonored.WithLabelValues(signer).Inc()
		}
	}, nil
}

// honors reports whether a certificate lives about as long as was asked for. Signers date it back, and round.
func honors(certificate []byte, asked time.Duration) bool {
	certs, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		return false
	}
	return (certs[0].NotAfter.Sub(certs[0].NotBefore) - asked).Abs() < 5*time.Minute+asked/20
}
