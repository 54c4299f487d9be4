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

// addressAnnotation of a request is the address that a machine wants to join with, or one of each family with a comma between them.
const addressAnnotation = "minik8s.io/node-ip"

// joinRule decides about the first certificate of machines that join by a token. A token lets its holder add nodes, and not take
// over one that is there, so the name and the address must be nobody's. Who may join is registered, then approved, and whoever may
// not is told why. Requests of others, such as those of nodes that renew, are upstream's to decide.
type joinRule struct {
	client  kubernetes.Interface
	config  Config
	servers []netip.Addr // addresses of the API server
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
	who.ips, err = parseAddresses(request.Annotations[addressAnnotation])
	if err == nil && len(who.ips) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return who, refused{fmt.Errorf("the annotation %s is not the address of the machine: %w", addressAnnotation, err)}
	}
	return who, nil
}

// fingerprint of a public key.
func fingerprint(publicKey []byte) string { return fmt.Sprintf("%x", sha256.Sum256(publicKey)) }

// check refuses what no machine can be called or have for its address.
func (j joinRule) check(who joiner) error {
	if err := checkJoin(j.config, j.servers, who.name, who.ips); err != nil {
		return refused{err}
	}
	var used []netip.Prefix
	for _, subnet := range []string{j.config.Networking.PodSubnet, j.config.Networking.ServiceSubnet, j.config.Networking.NodeSubnet} {
		ranges, err := parseRanges(subnet) // none of a cluster that has no room for nodes of its machine
		if err != nil {
			return err
		}
		used = append(used, ranges...)
	}
	for _, ip := range who.ips {
		if !ip.IsGlobalUnicast() {
			return refused{fmt.Errorf("%s is not an address by which others reach a machine", ip)}
		}
		if i := slices.IndexFunc(used, func(p netip.Prefix) bool { return p.Contains(ip) }); i >= 0 {
			return refused{fmt.Errorf("%s is in %s, where the cluster's pods, its Services or the nodes of its machine are", ip, used[i])}
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
		theirs := strings.Split(known.address, ",")
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				theirs = append(theirs, a.Address)
			}
		}
		for _, ip := range who.ips {
			if slices.Contains(theirs, ip.String()) {
				return refused{fmt.Errorf("%s is the address of node %q", ip, n.Name)}
			}
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
