// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/test/integration/framework"
)

// TestSigners checks that the right to write requests is not the right to decide them: that is given signer by signer.
func TestSigners(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	const role = "approver-of-example"
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests", "certificatesigningrequests/approval"}, Verbs: []string{"create", "update"}},
		{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"signers"}, ResourceNames: []string{"example.com/*"}, Verbs: []string{"approve"}},
	}
	if _, err := cluster.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "approver"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	approver := framework.ClientFor(t, cluster.User("approver", "approvers")).CertificatesV1().CertificateSigningRequests()
	for name, signer := range map[string]string{"mine": "example.com/s", "other": "example.org/s"} {
		framework.Eventually(t, "the role of the approver", func() error {
			r, err := approver.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					SignerName: signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
					Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, Username: "somebody else",
				},
			}, metav1.CreateOptions{})
			if err == nil && (r.Spec.Username != "approver" || len(r.Spec.Groups) != 2) {
				return errors.New("the request is said to be of " + r.Spec.Username)
			}
			return err
		})
		r, err := cluster.Client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
		_, err = approver.UpdateApproval(t.Context(), name, r, metav1.UpdateOptions{})
		if name == "mine" && err != nil || name == "other" && !apierrors.IsForbidden(err) {
			t.Errorf("approval of %s: %v", name, err)
		}
	}
}
