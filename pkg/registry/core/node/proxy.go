// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// ProxyREST is the proxy subresource: requests go on to the kubelet, or to another port of the node if the name is
// given as [SCHEME:]NODE:PORT.
type ProxyREST struct {
	nodes   *registry.Store[*corev1.Node]
	kubelet registry.Kubelet
}

var _ rest.Connecter = (*ProxyREST)(nil)

// AddConversions lets the query of a proxy request be read.
func AddConversions(scheme *runtime.Scheme) error {
	return scheme.AddConversionFunc((*url.Values)(nil), (*corev1.NodeProxyOptions)(nil), func(in, out any, _ conversion.Scope) error {
		out.(*corev1.NodeProxyOptions).Path = in.(*url.Values).Get("path")
		return nil
	})
}

// New implements rest.Storage.
func (r *ProxyREST) New() runtime.Object { return &corev1.NodeProxyOptions{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *ProxyREST) Destroy() {}

// ConnectMethods implements rest.Connecter.
func (r *ProxyREST) ConnectMethods() []string {
	return []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
}

// NewConnectOptions implements rest.Connecter.
func (r *ProxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &corev1.NodeProxyOptions{}, true, "path"
}

// Connect implements rest.Connecter.
func (r *ProxyREST) Connect(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	opts, ok := options.(*corev1.NodeProxyOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	if r.kubelet == nil {
		return nil, apierrors.NewServiceUnavailable("this API server has no connection to nodes")
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", id))
	}
	location, err := r.kubelet.Location(ctx, name)
	if err != nil {
		return nil, err
	}
	transport := r.kubelet.Transport()
	if port != "" && port != location.Port() {
		// Whatever listens there is not the kubelet and must not see the API server's credentials.
		if scheme == "" {
			scheme = "http"
		}
		location = &url.URL{Scheme: scheme, Host: net.JoinHostPort(location.Hostname(), port)}
		transport = http.DefaultTransport
	}
	if err := proxyable(location.Hostname()); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, opts.Path)
	return proxy.NewUpgradeAwareHandler(location, transport, true, false, proxy.NewErrorResponder(responder)), nil
}

// proxyable refuses addresses by which a node object could turn the proxy against the API server's own machine's
// metadata services. Loopback is allowed: a single-machine cluster's kubelet listens there.
func proxyable(host string) error {
	ip := net.ParseIP(host)
	if ip != nil && (ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsInterfaceLocalMulticast() || ip.IsUnspecified()) {
		return fmt.Errorf("address not allowed")
	}
	return nil
}
