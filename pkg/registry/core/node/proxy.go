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
	"minik8s.io/minik8s/pkg/registry/destination"
)

// ProxyREST is the proxy subresource: requests go on to the kubelet, or to another port of the node if the name is
// given as [SCHEME:]NODE:PORT.
type ProxyREST struct {
	kubelet registry.Kubelet
	// toKubelet shows the API server's credentials, toOthers none: whatever listens on another port must not see them. Both
	// connect to judged addresses only, other than those for logs and streams, which go to what proves to be the kubelet.
	toKubelet, toOthers *http.Transport
}

// newProxyREST returns the subresource; kubelet is nil if the server has no connection to nodes.
func newProxyREST(kubelet registry.Kubelet) *ProxyREST {
	r := &ProxyREST{kubelet: kubelet, toOthers: destination.Transport()}
	if kubelet != nil {
		if t, ok := kubelet.Transport().(*http.Transport); ok {
			r.toKubelet = destination.Fenced(t)
		}
	}
	return r
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
func (r *ProxyREST) Destroy() {
	r.toOthers.CloseIdleConnections()
	if r.toKubelet != nil {
		r.toKubelet.CloseIdleConnections()
	}
}

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
	if r.toKubelet == nil {
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
	if _, err := destination.Judge(ctx, net.DefaultResolver.LookupNetIP, location.Hostname()); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	transport := r.toKubelet
	if port != "" && port != location.Port() {
		location, transport = &url.URL{Scheme: scheme, Host: net.JoinHostPort(location.Hostname(), port)}, r.toOthers
	}
	location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, opts.Path)
	return proxy.NewUpgradeAwareHandler(location, transport, true, false, proxy.NewErrorResponder(responder)), nil
}
