// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificatesigningrequestapproving approves the requests of kubelets for the certificates by which they
// authenticate, if RBAC lets whoever asks have them. Touch it when new nodes wait for people.
package certificatesigningrequestapproving

import (
	"context"
	"crypto/x509"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/apis/certificates/certificaterequest"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one request at a time.
type Reconciler struct {
	Client client.Client
	// Allowed asks the API server whether somebody may do something.
	Allowed func(context.Context, authorizationv1.SubjectAccessReviewSpec) (bool, error)
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	clientset, err := kubernetes.NewForConfigAndClient(env.RESTConfig, env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the clientset: %w", err)
	}
	allowed := func(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		review, err := clientset.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&certificatesv1.CertificateSigningRequest{}).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Allowed: allowed}))
}

// way is one to get an approval: the right to create a subresource, which exists for this only.
type way struct{ subresource, message string }

// ways are those that a request can go. A node may renew its own certificate with less rights than it takes to get one
// for any node.
func ways(r *certificatesv1.CertificateSigningRequest, content *x509.CertificateRequest) []way {
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName ||
		certificaterequest.ValidateKubeletClient(content, r.Spec.Usages) != nil {
		return nil
	}
	anyNode := way{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}
	if r.Spec.Username != content.Subject.CommonName {
		return []way{anyNode}
	}
	return []way{{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}, anyNode}
}

// Reconcile approves the request in req if it can. One that could be, but whose author lacks the right, is tried again:
// the right may come.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var request certificatesv1.CertificateSigningRequest
	if err := r.Client.Get(ctx, req.NamespacedName, &request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	decided := certificaterequest.Has(&request, certificatesv1.CertificateApproved) ||
		certificaterequest.Has(&request, certificatesv1.CertificateDenied)
	if decided || len(request.Status.Certificate) > 0 {
		return reconcile.Result{}, nil
	}
	content, err := certificaterequest.Parse(request.Spec.Request)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("unable to parse csr %q: %w", request.Name, err)
	}
	var tried []string
	for _, w := range ways(&request, content) {
		tried = append(tried, w.subresource)
		allowed, err := r.Allowed(ctx, review(&request, w.subresource))
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("asking whether csr %q may be approved: %w", request.Name, err)
		}
		if allowed {
			return reconcile.Result{}, r.approve(ctx, &request, w.message)
		}
	}
	if len(tried) > 0 {
		return reconcile.Result{}, fmt.Errorf("recognized csr %q as %v but subject access review was not approved", request.Name, tried)
	}
	return reconcile.Result{}, nil
}

// review asks whether the author of a request may create a subresource.
func review(r *certificatesv1.CertificateSigningRequest, subresource string) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range r.Spec.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Version: "*", Verb: "create",
			Resource: "certificatesigningrequests", Subresource: subresource,
		},
	}
}

func (r *Reconciler) approve(ctx context.Context, request *certificatesv1.CertificateSigningRequest, message string) error {
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
	})
	if err := r.Client.SubResource("approval").Update(ctx, request); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("approving csr %q: %w", request.Name, err)
	}
	return nil
}
