// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podcertificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// generate makes a key of a kind, as PEM, and an empty certificate request that proves who has it.
func generate(kind string) (private, request []byte, err error) {
	k, err := newKey(kind)
	if err != nil {
		return nil, nil, fmt.Errorf("while generating keypair: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, fmt.Errorf("while encoding private key: %w", err)
	}
	request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, k)
	if err != nil {
		return nil, nil, fmt.Errorf("while making certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), request, nil
}

func newKey(kind string) (crypto.Signer, error) {
	switch kind {
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, private, err := ed25519.GenerateKey(rand.Reader)
		return private, err
	}
	return nil, fmt.Errorf("unknown key type %q", kind)
}

func newRequest(pod *corev1.Pod, account *corev1.ServiceAccount, node *corev1.Node, p *corev1.PodCertificateProjection, csr []byte) *certificatesv1.PodCertificateRequest {
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    "req-",
			Namespace:       pod.Namespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: p.SignerName, PodName: pod.Name, PodUID: pod.UID,
			ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
			NodeName: types.NodeName(node.Name), NodeUID: node.UID,
			MaxExpirationSeconds: p.MaxExpirationSeconds, StubPKCS10Request: csr, UnverifiedUserAnnotations: p.UserAnnotations,
		},
	}
}

// decision is the condition by which a request has been decided, of no type if it has not been, and the certificate if one was
// issued, without its key.
func decision(r *certificatesv1.PodCertificateRequest) (metav1.Condition, issued) {
	final := []string{
		certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed,
		certificatesv1.PodCertificateRequestConditionTypeIssued,
	}
	i := slices.IndexFunc(r.Status.Conditions, func(c metav1.Condition) bool { return slices.Contains(final, c.Type) })
	if i < 0 {
		return metav1.Condition{}, issued{}
	}
	got := issued{Credentials: Credentials{Chain: clean(r.Status.CertificateChain)}}
	if t := r.Status.NotBefore; t != nil {
		got.notBefore = t.Time
	}
	if t := r.Status.BeginRefreshAt; t != nil {
		got.refreshAt = t.Time
	}
	if t := r.Status.NotAfter; t != nil {
		got.notAfter = t.Time
	}
	return r.Status.Conditions[i], got
}

// clean leaves nothing of a chain but certificates.
func clean(chain string) []byte {
	var text []byte
	for block, rest := pem.Decode([]byte(chain)); block != nil; block, rest = pem.Decode(rest) {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
	}
	return text
}
