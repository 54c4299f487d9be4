// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apis/certificates/certificaterequest"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
)

// servingRule approves the requests of joined nodes for certificates to serve with, if they are about the addresses that the
// nodes have joined with. Upstream leaves that to people or to the provider, who knows the machines; here it was said when the
// machine joined. Others are left to people.
type servingRule struct{ client kubernetes.Interface }

func (s servingRule) judge(ctx context.Context, request *certificatesv1.CertificateSigningRequest) error {
	joined, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, policy.JoinedNodes, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		joined, err = &corev1.ConfigMap{}, nil
	}
	if err != nil {
		return fmt.Errorf("looking for the addresses of nodes: %w", err)
	}
	if refusal := servingRefusal(request, joined.Data); refusal != nil {
		klog.FromContext(ctx).Info("Not approving the certificate of a node", "request", request.Name, "user", request.Spec.Username, "reason", refusal)
		return nil
	}
	return decide(ctx, s.client, request, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Reason: "AutoApproved",
		Message: "Auto approving kubelet serving certificate for the address that the node has joined with.",
	})
}

// servingRefusal says why a request is not approved, nil if it is: it must be the node's own, and about its name and the address
// that it has joined with. joined is the content of policy.JoinedNodes.
func servingRefusal(request *certificatesv1.CertificateSigningRequest, joined map[string]string) error {
	content, err := certificaterequest.Parse(request.Spec.Request)
	if err != nil {
		return err
	}
	if err := certificaterequest.ValidateKubeletServing(content, request.Spec.Usages); err != nil {
		return err
	}
	if request.Spec.Username != content.Subject.CommonName || !slices.Contains(request.Spec.Groups, nodeGroup) {
		return fmt.Errorf("%q asks for a certificate of %q", request.Spec.Username, content.Subject.CommonName)
	}
	return foreignName(content, joined)
}

func foreignName(content *x509.CertificateRequest, joined map[string]string) error {
	for name, known := range joined {
		if content.Subject.CommonName != nodeUser(name) {
			continue
		}
		for _, dns := range content.DNSNames {
			if dns != name {
				return fmt.Errorf("%q is not the node's name", dns)
			}
		}
		for _, ip := range content.IPAddresses {
			if own := parseJoined(known).address; !slices.Contains(strings.Split(own, ","), ip.String()) {
				return fmt.Errorf("the node has joined with address %q, not %s", own, ip)
			}
		}
		return nil
	}
	return fmt.Errorf("%q is no node that has joined", content.Subject.CommonName)
}
