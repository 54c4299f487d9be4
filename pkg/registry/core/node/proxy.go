// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"

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
	// toOthers shows no credentials: what listens on another port than the kubelet's must not see them.
	toOthers *http.Transport

	mu        sync.Mutex
	fencing   *http.Transport // guarded by mu; the one to the kubelet that toKubelet is a fenced copy of
	toKubelet *http.Transport // guarded by mu
}

// newProxyREST returns the subresource; kubelet is nil if the server has no connection to nodes.
func newProxyREST(kubelet registry.Kubelet) *ProxyREST {
	return &ProxyREST{kubelet: kubelet, toOthers: destination.Transport()}
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
	r.mu.Lock()
	defer r.mu.Unlock()
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
	if _, err := destination.Judge(ctx, net.DefaultResolver.LookupNetIP, location.Hostname()); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	transport := r.toOthers
	if port == "" || port == location.Port() {
		if transport, err = r.fenced(); err != nil {
			return nil, err
		}
	} else {
		location = &url.URL{Scheme: scheme, Host: net.JoinHostPort(location.Hostname(), port)}
	}
	location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, opts.Path)
	return proxy.NewUpgradeAwareHandler(location, transport, true, false, proxy.NewErrorResponder(responder)), nil
}

// fenced shows the API server's certificate of the time. It connects to judged addresses only, other than the transport for
// logs and streams, which go to what proves to be the kubelet.
func (r *ProxyREST) fenced() (*http.Transport, error) {
	current, ok := r.kubelet.Transport().(*http.Transport)
	if !ok {
		return nil, apierrors.NewServiceUnavailable("this API server has no certificate for nodes at present")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fencing != current {
		if r.toKubelet != nil {
			r.toKubelet.CloseIdleConnections()
		}
		r.fencing, r.toKubelet = current, destination.Fenced(current)
	}
	return r.toKubelet, nil
}
