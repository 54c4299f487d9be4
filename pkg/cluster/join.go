// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/provisioner"
)

// joinExtension is the entry of a node's kubeconfig that tells it about the cluster.
const joinExtension = "minik8s.io/node"

// Join returns a kubeconfig by which the agent on another machine becomes a node: its identities, and what it has to
// know of the cluster. The Node is registered with a range for its pods.
func Join(ctx context.Context, c Config, name string, ip netip.Addr) ([]byte, error) {
	creds, err := loadCredentials(filepath.Join(c.DataDir, "pki"), Server(c))
	if err != nil {
		return nil, err
	}
	admin, err := creds.Client("kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	client, _, err := clientOf(admin, "minik8s")
	if err != nil {
		return nil, err
	}
	if c.Kubelet.PodCIDR, err = claimPods(ctx, client, c, name); err != nil {
		return nil, err
	}
	server, err := nodeIP(c)
	if err != nil {
		return nil, err
	}
	identity, err := creds.ca.Issue(nodeRequest(name, ip))
	if err != nil {
		return nil, err
	}
	url := "https://" + net.JoinHostPort(server.String(), strconv.Itoa(c.APIPort))
	k := kubeconfig(c.Name, url, creds.ca.Cert, identity)
	for _, user := range []string{proxyUser, provisioner.User} {
		pair, err := creds.ca.Issue(pki.Request{CommonName: user})
		if err != nil {
			return nil, err
		}
		k.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
		k.Contexts[user] = &api.Context{Cluster: k.Contexts[k.CurrentContext].Cluster, AuthInfo: user}
	}
	about, err := json.Marshal(Config{
		APIVersion: APIVersion, Kind: Kind, Networking: c.Networking,
		Kubelet: KubeletConfig{NodeName: name, NodeIP: ip.String(), PodCIDR: c.Kubelet.PodCIDR},
	})
	if err != nil {
		return nil, err
	}
	k.Clusters[k.Contexts[k.CurrentContext].Cluster].Extensions = map[string]runtime.Object{joinExtension: &runtime.Unknown{Raw: about, ContentType: runtime.ContentTypeJSON}}
	return clientcmd.Write(*k)
}

// claimPods returns the pod range of a node, and registers the Node with one that is free if it has none.
func claimPods(ctx context.Context, client kubernetes.Interface, c Config, name string) (string, error) {
	own, cluster, err := nodePods(c)
	if err != nil {
		return "", err
	}
	// Two claims at the same time may choose the same range; the one that sees an older Node with it tries again.
	for {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("listing nodes: %w", err)
		}
		taken := map[string]bool{own.String(): true}
		for _, n := range nodes.Items {
			if n.Name == name && n.Spec.PodCIDR != "" {
				return n.Spec.PodCIDR, nil
			}
			taken[n.Spec.PodCIDR] = true
		}
		free, err := nextRange(cluster, own.Bits(), taken)
		if err != nil {
			return "", err
		}
		made, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: free, PodCIDRs: []string{free}},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("node %q is registered without a pod range: delete it first", name)
		}
		if err != nil {
			return "", fmt.Errorf("registering node %q: %w", name, err)
		}
		lost, err := older(ctx, client, made)
		if err != nil || !lost {
			return free, err
		}
		if err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(made.UID))}); err != nil {
			return "", fmt.Errorf("giving the range of node %q back: %w", name, err)
		}
	}
}

// older reports whether another Node has the same range and was there before.
func older(ctx context.Context, client kubernetes.Interface, n *corev1.Node) (bool, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("listing nodes: %w", err)
	}
	for _, o := range nodes.Items {
		if o.Name == n.Name || o.Spec.PodCIDR != n.Spec.PodCIDR {
			continue
		}
		if o.CreationTimestamp.Before(&n.CreationTimestamp) || o.CreationTimestamp.Equal(&n.CreationTimestamp) && o.Name < n.Name {
			return true, nil
		}
	}
	return false, nil
}

// nextRange returns the first range of the given size in cluster that is not taken.
func nextRange(cluster netip.Prefix, bits int, taken map[string]bool) (string, error) {
	for p := netip.PrefixFrom(cluster.Masked().Addr(), bits); cluster.Contains(p.Addr()); {
		if !taken[p.String()] {
			return p.String(), nil
		}
		next, ok := after(p)
		if !ok {
			break
		}
		p = next
	}
	return "", fmt.Errorf("no pod range is left in %s: make networking.podSubnet larger", cluster)
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
	m := &Membership{ca: k.Clusters[current.Cluster].CertificateAuthorityData}
	if err := json.Unmarshal(about.Raw, &m.Config); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	user := k.AuthInfos[current.AuthInfo]
	if user == nil {
		return nil, errors.New("the node's kubeconfig has no user")
	}
	m.serving = pki.Pair{Cert: user.ClientCertificateData, Key: user.ClientKeyData}
	if m.kubelet, err = clientcmd.NewNonInteractiveClientConfig(*k, k.CurrentContext, nil, nil).ClientConfig(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if m.proxy, err = clientcmd.NewNonInteractiveClientConfig(*k, proxyUser, nil, nil).ClientConfig(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if m.provisioner, err = clientcmd.NewNonInteractiveClientConfig(*k, provisioner.User, nil, nil).ClientConfig(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return m, nil
}
