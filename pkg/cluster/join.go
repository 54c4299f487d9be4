// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/pki"
)

// joinExtension is the entry of a node's kubeconfig that tells it about the cluster.
const joinExtension = "minik8s.io/node"

// Join returns a kubeconfig by which the agent on another machine becomes a node: its identity, and what it has to
// know of the cluster. The Node is registered with a range for its pods. nodeIP is the machine's address, or one of each family with a comma
// between them.
func Join(ctx context.Context, c Config, name, nodeIP string) ([]byte, error) {
	ips, err := parseAddresses(nodeIP)
	if err == nil && len(ips) == 0 {
		err = errors.New("none is given")
	}
	if err != nil {
		return nil, fmt.Errorf("--node-ip must be the address by which the API server reaches the node: %w", err)
	}
	creds, err := readCredentials(c)
	if err != nil {
		return nil, err
	}
	admin, err := creds.Client("kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	client, err := clientOf(admin, "minik8s")
	if err != nil {
		return nil, err
	}
	servers, err := nodeIPs(c)
	if err != nil {
		return nil, err
	}
	if err := checkJoin(c, servers, name, ips); err != nil {
		return nil, err
	}
	if c.Kubelet.PodCIDR, err = register(ctx, client, c, joiner{name: name, ips: ips}); err != nil {
		return nil, err
	}
	// After the node was registered: what is older does not count (package removednode).
	identity, err := creds.ca.Issue(joinRequest(name, ips))
	if err != nil {
		return nil, err
	}
	url := "https://" + net.JoinHostPort(servers[0].String(), strconv.Itoa(c.APIPort))
	return nodeKubeconfig(c.Name, "", url, creds.ca.Cert, identity, told(c, KubeletConfig{NodeName: name, NodeIP: pairText(ips), PodCIDR: c.Kubelet.PodCIDR}))
}

// told is the configuration of a node elsewhere, as far as the cluster gives it.
func told(c Config, node KubeletConfig) Config {
	return Config{APIVersion: APIVersion, Kind: Kind, Networking: c.Networking, DNS: c.DNS, Kubelet: node}
}

// nodeKubeconfig is what ReadJoin reads; by names the user in it, unless it is empty, and about is what the node is told.
func nodeKubeconfig(name, by, url string, ca []byte, identity pki.Pair, about Config) ([]byte, error) {
	data, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	k := kubeconfig(name, url, ca, identity)
	if current := k.Contexts[k.CurrentContext]; by != "" {
		k.AuthInfos = map[string]*clientcmdapi.AuthInfo{by: k.AuthInfos[current.AuthInfo]}
		current.AuthInfo = by
	}
	k.Clusters[k.Contexts[k.CurrentContext].Cluster].Extensions = map[string]runtime.Object{joinExtension: &runtime.Unknown{Raw: data, ContentType: runtime.ContentTypeJSON}}
	return clientcmd.Write(*k)
}

// joinLifetime is how long a machine may take to join with the kubeconfig that was made for it, as with upstream's bootstrap
// tokens. Its first deed is to get certificates of its own.
const joinLifetime = 24 * time.Hour

func joinRequest(name string, ips []netip.Addr) pki.Request {
	r := pki.Request{CommonName: nodeUser(name), Organizations: []string{nodeGroup}, Hosts: []string{name}, Client: true, Lifetime: joinLifetime}
	for _, ip := range ips {
		r.Hosts = append(r.Hosts, ip.String())
	}
	return r
}

// checkJoin refuses addresses of other families than the cluster's, and names and addresses that are the control plane's: the certificate
// would be good for playing its part. So it would be with those of the further nodes of its machine, whose certificates count also while
// their Node is missing.
func checkJoin(c Config, servers []netip.Addr, name string, ips []netip.Addr) error {
	services, err := settledRanges("networking.serviceSubnet", c.Networking.ServiceSubnet)
	if err != nil {
		return err
	}
	if have, want := addressFamilies(ips), rangeFamilies(services); !slices.Equal(have, want) {
		return &Problem{
			Cause:  fmt.Sprintf("the cluster has addresses of %s, and the machine is to join with %s", named(want), pairText(ips)),
			Remedy: "give an address of each family, in this order, with a comma between them (--node-ip)",
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	taken := servingHosts(c.Networking.DNSDomain, apiAddresses(services, servers), host, c.APIServer.CertSANs)
	if c.NodeCount() > 0 {
		taken = append(taken, c.Kubelet.NodeName)
	}
	further, err := nodesDir(c).List()
	if err != nil {
		return err
	}
	for _, n := range further {
		taken = append(append(taken, n.Name), strings.Split(pairText(n.IPs()), ",")...)
	}
	for _, h := range append([]string{name}, strings.Split(pairText(ips), ",")...) {
		if slices.Contains(taken, h) {
			return &Problem{Cause: fmt.Sprintf("%s is a name or address of the control plane, or of a node of its machine", h), Remedy: "give the name and the address of the machine that shall join"}
		}
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return &Problem{Cause: fmt.Sprintf("%q is no name for a node", name), Remedy: problems[0]}
	}
	return nil
}

// joiner is a machine that asks to be registered.
type joiner struct {
	name string
	ips  []netip.Addr
	// key is the fingerprint of its key if it joins by a token, besideKey if it is a further node of the control plane's machine; ""
	// if an administrator makes its kubeconfig, who may also make another one for a node that is there.
	key string
}

// besideKey is noted in place of a key of nodes whose keys never leave the process.
const besideKey = "beside"

// joinedNode is what the cluster keeps of a node that has joined, in the ConfigMap policy.JoinedNodes. Of both families, there are commas
// between addresses and between ranges.
type joinedNode struct{ address, pods, key string }

func (j joinedNode) String() string { return strings.TrimSpace(j.address + " " + j.pods + " " + j.key) }

func parseJoined(s string) (j joinedNode) {
	for i, field := range strings.Fields(s) {
		if i < 3 {
			*[]*string{&j.address, &j.pods, &j.key}[i] = field
		}
	}
	return j
}

// register notes the addresses of a node and gives it a range of each family for its pods: those which its Node has, or a free one, with which the
// Node is made. Of two that register nodes at the same time one notes its range first, and the other one looks again.
func register(ctx context.Context, client kubernetes.Interface, c Config, j joiner) (pods string, err error) {
	var known bool
	for {
		pods, known, err = note(ctx, client, c, j)
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("choosing a pod range for node %q: %w", j.name, err)
	}
	if known {
		return pods, nil
	}
	_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: j.name}, Spec: corev1.NodeSpec{PodCIDRs: strings.Split(pods, ",")},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("node %q is being registered by somebody else, too: try again", j.name)
	}
	if err != nil {
		return "", fmt.Errorf("registering node %q: %w", j.name, err)
	}
	return pods, nil
}

// note chooses the pod range of a node and writes it down with its address. It fails with a conflict if somebody else noted
// something meanwhile.
func note(ctx context.Context, client kubernetes.Interface, c Config, j joiner) (pods string, known bool, _ error) {
	own, cluster, err := nodePods(c)
	if err != nil {
		return "", false, err
	}
	all := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	joined, err := all.Get(ctx, policy.JoinedNodes, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		joined, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: policy.JoinedNodes}}, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("looking for the nodes that have joined: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", false, fmt.Errorf("listing nodes: %w", err)
	}
	if j.key != "" {
		if err := mayClaim(j, nodes.Items, joined.Data); err != nil {
			return "", false, err
		}
	}
	gateways, err := gatewaySubnets(c)
	if err != nil {
		return "", false, fmt.Errorf("router.gatewaySubnet: %w", err)
	}
	space := podSpace{all: cluster, own: own, gateways: gateways}
	if pods, known, err = space.rangeOf(j.name, nodes.Items, joined.Data); err != nil {
		return "", false, err
	}
	if joined.Data == nil {
		joined.Data = map[string]string{}
	}
	joined.Data[j.name] = joinedNode{pairText(j.ips), pods, j.key}.String()
	if !missing {
		_, err = all.Update(ctx, joined, metav1.UpdateOptions{})
		return pods, known, err
	}
	if _, err = all.Create(ctx, joined, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		err = apierrors.NewConflict(corev1.Resource("configmaps"), policy.JoinedNodes, err)
	}
	return pods, known, err
}

// podSpace is what the ranges of pods are parts of, one of each family. Its own ranges are those of the control plane's node, and gateways
// have addresses of Gateways.
type podSpace struct{ all, own, gateways []netip.Prefix }

// rangeOf is the pod range of a node, or one of each family; known says that its Node has it already. Ranges that
// were noted are taken, also those of nodes that are not there: they may be about to be registered. Only when no other is left,
// those are given again.
func (s podSpace) rangeOf(name string, nodes []corev1.Node, joined map[string]string) (pods string, known bool, _ error) {
	taken := map[string]bool{}
	take := func(pods string) {
		for p := range strings.SplitSeq(pods, ",") {
			taken[p] = true
		}
	}
	take(pairText(s.own))
	for i := range nodes {
		n := &nodes[i]
		if n.Name == name && n.Spec.PodCIDR == "" {
			return "", false, fmt.Errorf("node %q is registered without a pod range: delete it first", name)
		}
		if n.Name == name {
			return podCIDRs(n), true, nil
		}
		take(podCIDRs(n))
	}
	registered := maps.Clone(taken)
	for other, text := range joined {
		if other != name {
			take(parseJoined(text).pods)
		}
	}
	if free, err := s.next(taken); err == nil {
		return free, false, nil
	}
	free, err := s.next(registered)
	return free, false, err
}

// podCIDRs are the pod ranges of a node.
func podCIDRs(n *corev1.Node) string {
	if len(n.Spec.PodCIDRs) == 0 {
		return n.Spec.PodCIDR
	}
	return strings.Join(n.Spec.PodCIDRs, ",")
}

// next returns the first range of each family as large as its own that is not taken.
func (s podSpace) next(taken map[string]bool) (string, error) {
	var pods []string
	for i := range s.all {
		p, err := s.nextOf(s.all[i], s.own[i].Bits(), taken)
		if err != nil {
			return "", err
		}
		pods = append(pods, p)
	}
	return strings.Join(pods, ","), nil
}

func (s podSpace) nextOf(all netip.Prefix, bits int, taken map[string]bool) (string, error) {
	for p := netip.PrefixFrom(all.Masked().Addr(), bits); all.Contains(p.Addr()); {
		if !taken[p.String()] && !slices.ContainsFunc(s.gateways, p.Overlaps) {
			return p.String(), nil
		}
		next, ok := after(p)
		if !ok {
			break
		}
		p = next
	}
	beside := ""
	if i := slices.IndexFunc(s.gateways, all.Overlaps); i >= 0 {
		beside = fmt.Sprintf(" beside the addresses of Gateways, %s (router.gatewaySubnet)", s.gateways[i])
	}
	return "", fmt.Errorf("no pod range is left in %s%s: make networking.podSubnet larger", all, beside)
}

// after is the range that follows p.
func after(p netip.Prefix) (netip.Prefix, bool) {
	b := p.Masked().Addr().AsSlice()
	for i, carry := (p.Bits()-1)/8, byte(1)<<(7-(p.Bits()-1)%8); i >= 0; i, carry = i-1, 1 {
		b[i] += carry
		if b[i] >= carry {
			a, ok := netip.AddrFromSlice(b)
			return netip.PrefixFrom(a, p.Bits()), ok
		}
	}
	return netip.Prefix{}, false
}

// ReadJoin reads what Join wrote.
func ReadJoin(path string) (*Membership, error) {
	k, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the node's kubeconfig: %w", err)
	}
	current := k.Contexts[k.CurrentContext]
	if current == nil || k.Clusters[current.Cluster] == nil {
		return nil, fmt.Errorf("%s has no current context", path)
	}
	about, ok := k.Clusters[current.Cluster].Extensions[joinExtension].(*runtime.Unknown)
	if !ok {
		return nil, &Problem{Cause: path + " is not the kubeconfig of a node", Remedy: "make one where the cluster runs, with: minik8s kubeconfig --node NAME --node-ip ADDRESS"}
	}
	m := &Membership{host: k.Clusters[current.Cluster].Server, ca: k.Clusters[current.Cluster].CertificateAuthorityData}
	if err := json.Unmarshal(about.Raw, &m.Config); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	user := k.AuthInfos[current.AuthInfo]
	if user == nil {
		return nil, errors.New("the node's kubeconfig has no user")
	}
	m.by = current.AuthInfo
	m.joined = pki.Pair{Cert: user.ClientCertificateData, Key: user.ClientKeyData}
	return m, nil
}
