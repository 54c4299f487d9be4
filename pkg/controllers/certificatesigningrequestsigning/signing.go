// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificatesigningrequestsigning issues the certificates of approved requests for the signers of Kubernetes
// itself, from the cluster's CA. Touch it for what such a certificate may say and how long it lasts.
package certificatesigningrequestsigning

import (
	"context"
	"crypto/x509"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/apis/certificates/certificaterequest"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// validation returns what keeps a request from being signed.
type validation func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error

// signers are those that this controller stands for.
var signers = map[string]validation{
	certificatesv1.KubeletServingSignerName:             certificaterequest.ValidateKubeletServing,
	certificatesv1.KubeAPIServerClientKubeletSignerName: certificaterequest.ValidateKubeletClient,
	certificatesv1.KubeAPIServerClientSignerName:        validateClient,
	// From a time before there were signers; what it signs, nothing has to trust.
	certificatesv1beta1.LegacyUnknownSignerName: func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil },
}

func validateClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	authenticates := false
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		case certificatesv1.UsageClientAuth:
			authenticates = true
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !authenticates {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// Reconciler works on one request at a time.
type Reconciler struct {
	Client client.Client
	CA     *Authority
}

// Setup adds the controller to the manager. Without a CA nothing is signed.
func Setup(env setup.Env) error {
	if len(env.SigningCA.Cert) == 0 || len(env.SigningCA.Key) == 0 {
		return nil
	}
	ca, err := NewAuthority(env.SigningCA, env.Settings.ClusterSigningDuration.Duration, env.Clock)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&certificatesv1.CertificateSigningRequest{}).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, CA: ca}))
}

// Reconcile signs the request in req if it is approved, or says why it never will be signed.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var request certificatesv1.CertificateSigningRequest
	if err := r.Client.Get(ctx, req.NamespacedName, &request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	validate, ours := signers[request.Spec.SignerName]
	settled := len(request.Status.Certificate) > 0 || certificaterequest.Has(&request, certificatesv1.CertificateFailed)
	if !ours || settled || !certificaterequest.Approved(&request) {
		return reconcile.Result{}, nil
	}
	content, err := certificaterequest.Parse(request.Spec.Request)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("unable to parse csr %q: %w", request.Name, err)
	}
	if err := validate(content, request.Spec.Usages); err != nil {
		request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue,
			Reason: "SignerValidationFailure", Message: err.Error(),
			LastUpdateTime: metav1.NewTime(r.CA.clock.Now()),
		})
	} else {
		request.Status.Certificate, err = r.CA.Sign(content, request.Spec.Usages, request.Spec.ExpirationSeconds)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("signing csr %q: %w", request.Name, err)
		}
	}
	if err := r.Client.Status().Update(ctx, &request); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("updating csr %q: %w", request.Name, err)
	}
	return reconcile.Result{}, nil
}
