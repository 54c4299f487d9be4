// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apis/certificates/certificaterequest"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
)

// addressAnnotation of a request is the address that a machine wants to join with.
const addressAnnotation = "minik8s.io/node-ip"

// joinRule decides about the first certificate of machines that join by a token. A token lets its holder add nodes, and not take
// over one that is there, so the name and the address must be nobody's. Who may join is registered, then approved, and whoever may
// not is told why. Requests of others, such as those of nodes that renew, are upstream's to decide.
type joinRule struct {
	client kubernetes.Interface
	config Config
	server netip.Addr // address of the API server
}

// refused is why a machine may not join, in contrast to what went wrong on the way.
type refused struct{ error }

func (j joinRule) judge(ctx context.Context, request *certificatesv1.CertificateSigningRequest) error {
	by := request.Spec.Username
	if !strings.HasPrefix(by, api.BootstrapUserPrefix) || !slices.Contains(request.Spec.Groups, policy.JoiningGroup) {
		return nil
	}
	who, err := readJoiner(request)
	if err == nil {
		err = j.check(who)
	}
	if err == nil {
		_, err = register(ctx, j.client, j.config, who)
	}
	decision := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Reason: "AutoApproved", Message: "Auto approving kubelet client certificate of a node that joins by a bootstrap token.",
	}
	if no, is := errors.AsType[refused](err); is {
		klog.FromContext(ctx).Info("A machine may not join", "request", request.Name, "user", by, "node", who.name, "reason", no.Error())
		decision = certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateDenied, Reason: "JoinRefused", Message: no.Error()}
	} else if err != nil {
		return err
	}
	return decide(ctx, j.client, request, decision)
}

// readJoiner reads who wants to join.
func readJoiner(request *certificatesv1.CertificateSigningRequest) (joiner, error) {
	content, err := certificaterequest.Parse(request.Spec.Request)
	if err == nil {
		err = content.CheckSignature() // the key is what the machine is known by
	}
	if err == nil {
		err = certificaterequest.ValidateKubeletClient(content, request.Spec.Usages)
	}
	if err != nil {
		return joiner{}, refused{err}
	}
	who := joiner{name: strings.TrimPrefix(content.Subject.CommonName, nodeUser("")), key: fingerprint(content.RawSubjectPublicKeyInfo)}
	if who.ip, err = netip.ParseAddr(request.Annotations[addressAnnotation]); err != nil {
		return who, refused{fmt.Errorf("the annotation %s is not the address of the machine: %w", addressAnnotation, err)}
	}
	who.ip = who.ip.Unmap()
	return who, nil
}

// fingerprint of a public key.
func fingerprint(publicKey []byte) string { return fmt.Sprintf("%x", sha256.Sum256(publicKey)) }

// check refuses what no machine can be called or have for its address.
func (j joinRule) check(who joiner) error {
	if err := checkJoin(j.config, j.server, who.name, who.ip); err != nil {
		return refused{err}
	}
	if !who.ip.IsGlobalUnicast() || who.ip.Zone() != "" {
		return refused{fmt.Errorf("%s is not an address by which others reach a machine", who.ip)}
	}
	for _, subnet := range []string{j.config.Networking.PodSubnet, j.config.Networking.ServiceSubnet, j.config.Networking.NodeSubnet} {
		if subnet == "" { // of a cluster that has no room for nodes of its machine
			continue
		}
		p, err := netip.ParsePrefix(subnet)
		if err != nil {
			return err
		}
		if p.Contains(who.ip) {
			return refused{fmt.Errorf("%s is in %s, where the cluster's pods, its Services or the nodes of its machine are", who.ip, p)}
		}
	}
	return nil
}

// mayClaim refuses the name and the address of a node that is there, unless it is the same node, whose earlier try had no answer.
// joined is the content of policy.JoinedNodes.
func mayClaim(who joiner, nodes []corev1.Node, joined map[string]string) error {
	for i := range nodes {
		n, known := &nodes[i], parseJoined(joined[nodes[i].Name])
		if n.Name == who.name {
			if known.key != who.key {
				return refused{fmt.Errorf("the cluster has a node %q already: choose another name (--node-name), or remove that node first", who.name)}
			}
			continue
		}
		internal := slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
			return a.Type == corev1.NodeInternalIP && a.Address == who.ip.String()
		})
		if internal || known.address == who.ip.String() {
			return refused{fmt.Errorf("%s is the address of node %q", who.ip, n.Name)}
		}
	}
	return nil
}

// withJoining is which controllers run: with upstream's defaults also those that tokens need, as installers of upstream have it.
func withJoining(controllers []string) []string {
	if len(controllers) == 0 {
		controllers = []string{"*"}
	}
	if !slices.Contains(controllers, "*") {
		return controllers
	}
	return append(slices.Clone(controllers), "bootstrap-signer-controller", "token-cleaner-controller")
}
