// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry"
)

// kubeletPort is used for nodes that do not report one.
const kubeletPort = 10250

// DefaultAddressTypes is upstream's order of preference for reaching a kubelet.
var DefaultAddressTypes = []corev1.NodeAddressType{
	corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeInternalIP, corev1.NodeExternalDNS, corev1.NodeExternalIP,
}

// ConnectionInfo finds kubelets by what their Node objects report.
type ConnectionInfo struct {
	stores    *registry.Stores
	transport http.RoundTripper
	preferred []corev1.NodeAddressType
}

var _ registry.Kubelet = (*ConnectionInfo)(nil)

// NewKubelet returns a finder of kubelets that trusts and authenticates by transport. preferred is the order in which
// kinds of addresses are tried; nil means DefaultAddressTypes.
func NewKubelet(stores *registry.Stores, transport http.RoundTripper, preferred []corev1.NodeAddressType) registry.Kubelet {
	if len(preferred) == 0 {
		preferred = DefaultAddressTypes
	}
	return &ConnectionInfo{stores: stores, transport: transport, preferred: preferred}
}

// Location implements registry.Kubelet. It fails with NotFound if there is no such node.
func (c *ConnectionInfo) Location(ctx context.Context, name string) (*url.URL, error) {
	nodes, err := c.stores.Get(Resource.GroupResource())
	if err != nil {
		return nil, err
	}
	obj, err := nodes.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return kubeletURL(obj.(*corev1.Node), c.preferred)
}

// Transport implements registry.Kubelet.
func (c *ConnectionInfo) Transport() http.RoundTripper { return c.transport }

func kubeletURL(n *corev1.Node, preferred []corev1.NodeAddressType) (*url.URL, error) {
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port <= 0 {
		port = kubeletPort
	}
	for _, kind := range preferred {
		for _, a := range n.Status.Addresses {
			if a.Type == kind && a.Address != "" {
				return &url.URL{Scheme: "https", Host: net.JoinHostPort(a.Address, strconv.Itoa(port))}, nil
			}
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no preferred addresses found; known addresses: %v", n.Status.Addresses))
}
