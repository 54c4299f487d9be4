// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
	"minik8s.io/minik8s/pkg/registry/certificates/signing"
)

// admitSigningRequest lets a kubelet ask for certificates of a kubelet in its own name only.
func admitSigningRequest(name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return nil
	}
	r, err := object.New[*certificatesv1.CertificateSigningRequest](a)
	if err != nil {
		return err
	}
	if s := r.Spec.SignerName; s != certificatesv1.KubeletServingSignerName && s != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	request, err := signing.ParseRequest(r.Spec.Request)
	if err != nil {
		return fmt.Errorf("unable to parse csr: %w", err)
	}
	if request.Subject.CommonName != "system:node:"+name {
		return fmt.Errorf("can only create a node CSR with CN=system:node:%s", name)
	}
	return nil
}

// admitPodCertificateRequest lets a node ask for certificates of its own pods only, as what the pods are.
func (p *Plugin) admitPodCertificateRequest(ctx context.Context, name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return fmt.Errorf("unexpected operation %v", a.GetOperation())
	}
	if a.GetSubresource() != "" {
		return fmt.Errorf("unexpected subresource %v", a.GetSubresource())
	}
	r, err := object.New[*certificatesv1.PodCertificateRequest](a)
	if err != nil {
		return err
	}
	s, of := &r.Spec, fmt.Sprintf("%q", a.GetNamespace()+"/"+r.Spec.PodName)
	if string(s.NodeName) != name {
		return fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", s.NodeName, name)
	}
	node, err := p.nodes.Get(name)
	if err != nil {
		return behind("while retrieving node %q named in the PodCertificateRequest: %w", name, err)
	}
	if node.UID != s.NodeUID {
		return behind("PodCertificateRequest for pod %s names node UID %q, inconsistent with the running node (%q)", of, s.NodeUID, node.UID)
	}
	pod, err := p.pod(ctx, a.GetNamespace(), s.PodName, s.PodUID, name)
	if err != nil {
		return behind("while retrieving pod %s named in the PodCertificateRequest: %w", of, err)
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case pod.UID != s.PodUID:
		return behind("PodCertificateRequest for pod %s contains pod UID (%q) which differs from running pod %q", of, s.PodUID, pod.UID)
	case pod.Spec.NodeName != name:
		return fmt.Errorf("pod %s is not running on node %q named in the PodCertificateRequest", of, name)
	case mirror:
		return fmt.Errorf("pod %s is a mirror pod", of)
	case pod.Spec.ServiceAccountName != s.ServiceAccountName:
		return fmt.Errorf("PodCertificateRequest for pod %s contains serviceAccountName (%q) that differs from running pod (%q)", of, s.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	account, err := p.accounts.ServiceAccounts(a.GetNamespace()).Get(s.ServiceAccountName)
	if err != nil {
		return behind("while retrieving service account %q named in the PodCertificateRequest: %w", a.GetNamespace()+"/"+s.ServiceAccountName, err)
	}
	if account.UID != s.ServiceAccountUID {
		return behind("PodCertificateRequest for pod %s names service account UID %q, which differs from the running service account (%q)", of, s.ServiceAccountUID, account.UID)
	}
	if mounts(pod, s.SignerName) {
		return nil
	}
	switch allowed, err := p.mayRequest(ctx, a, s); {
	case allowed:
		return nil
	case err != nil:
		return fmt.Errorf("error authorizing %s to request podcertificaterequests for signer %q: %w", a.GetUserInfo().GetName(), s.SignerName, err)
	}
	return fmt.Errorf("pod %s does not mount a podCertificate projected volume for signer %q", of, s.SignerName)
}

// behind is the error if the objects in the cache disagree with the request: it may be the cache that is old, so that the
// kubelet should try again.
func behind(format string, args ...any) error {
	return apierrors.NewInternalError(fmt.Errorf(format, args...))
}

// mounts reports whether a pod has a volume with a certificate of the signer.
func mounts(pod *corev1.Pod, signer string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.PodCertificate != nil && s.PodCertificate.SignerName == signer
		})
	})
}

// mayRequest reports whether a rule lets the node ask this signer on behalf of the ServiceAccount. Rules cannot name a
// resource with a slash. An authorizer may allow in spite of an error.
func (p *Plugin) mayRequest(ctx context.Context, a admission.Attributes, s *certificatesv1.PodCertificateRequestSpec) (bool, error) {
	decision, _, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "request-serviceaccounts-podcertificate-signer",
		APIGroup: a.GetResource().Group, APIVersion: a.GetResource().Version, Resource: strings.ReplaceAll(s.SignerName, "/", ":"),
		Namespace: a.GetNamespace(), Name: s.ServiceAccountName, ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow, err
}
