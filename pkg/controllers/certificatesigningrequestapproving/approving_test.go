// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequestapproving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

// content is the request of a kubelet.
func content(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func request(t *testing.T, user string, change ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: content(t), SignerName: "kubernetes.io/kube-apiserver-client-kubelet", Usages: []certificatesv1.KeyUsage{"digital signature", "client auth"},
			Username: user, UID: "u", Groups: []string{"g"}, Extra: map[string]certificatesv1.ExtraValue{"k": {"v"}},
		},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

// granting allows one subresource and notes what was asked for.
func granting(subresource string, asked *[]authorizationv1.SubjectAccessReviewSpec) func(context.Context, authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	return func(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
		*asked = append(*asked, spec)
		return spec.ResourceAttributes.Subresource == subresource, nil
	}
}

var key = reconcile.Request{NamespacedName: types.NamespacedName{Name: "r"}}

func TestReconcile_Approves(t *testing.T) {
	for _, tt := range []struct{ user, right, message string }{
		{"system:node:a", "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."},
		{"system:node:a", "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."},
		{"system:bootstrap:abcdef", "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."},
	} {
		t.Run(tt.user+" "+tt.right, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{request(t, tt.user)},
				Request: key,
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Allowed: granting(tt.right, new([]authorizationv1.SubjectAccessReviewSpec))}
				},
				Want: func(ctx context.Context, c client.Client) error {
					var got certificatesv1.CertificateSigningRequest
					if err := c.Get(ctx, key.NamespacedName, &got); err != nil {
						return err
					}
					want := []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: "True", Reason: "AutoApproved", Message: tt.message}}
					if diff := cmp.Diff(want, got.Status.Conditions); diff != "" {
						return fmt.Errorf("conditions (-want +got):\n%s", diff)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Leaves(t *testing.T) {
	type csr = certificatesv1.CertificateSigningRequest
	for name, tt := range map[string]struct {
		request *csr
		right   string
		asks    int
		wantErr bool
	}{
		"without right":  {request: request(t, "system:node:a"), asks: 2, wantErr: true},
		"right to renew": {request: request(t, "somebody"), right: "selfnodeclient", asks: 1, wantErr: true},
		"another signer": {request: request(t, "system:node:a", func(r *csr) { r.Spec.SignerName = "kubernetes.io/kube-apiserver-client" })},
		"another use":    {request: request(t, "system:node:a", func(r *csr) { r.Spec.Usages = append(r.Spec.Usages, "server auth") })},
		"denied": {request: request(t, "system:node:a", func(r *csr) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Denied"}}
		})},
		"approved by others": {request: request(t, "system:node:a", func(r *csr) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved"}}
		})},
		"issued":     {request: request(t, "system:node:a", func(r *csr) { r.Status.Certificate = []byte("C") })},
		"no request": {request: request(t, "system:node:a", func(r *csr) { r.Spec.Request = []byte("R") }), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tt.request).Build()
			var asked []authorizationv1.SubjectAccessReviewSpec
			_, err := (&Reconciler{Client: c, Allowed: granting(tt.right, &asked)}).Reconcile(t.Context(), key)
			if (err != nil) != tt.wantErr || len(asked) != tt.asks {
				t.Errorf("asked %d times, error %v", len(asked), err)
			}
			var got csr
			if err := c.Get(t.Context(), key.NamespacedName, &got); err != nil || got.ResourceVersion != "999" {
				t.Errorf("request is %+v, %v", got.Status, err)
			}
		})
	}
}

func TestReview(t *testing.T) {
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "system:node:a", UID: "u", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: "certificates.k8s.io", Version: "*", Resource: "certificatesigningrequests", Subresource: "nodeclient", Verb: "create",
		},
	}
	if diff := cmp.Diff(want, review(request(t, "system:node:a"), "nodeclient")); diff != "" {
		t.Errorf("review (-want +got):\n%s", diff)
	}
}
