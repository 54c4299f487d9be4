// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/destination"
)

// ProxyREST is the proxy subresource: requests go on to a port of the pod, named as [SCHEME:]POD[:PORT].
type ProxyREST struct {
	pods      *registry.Store[*corev1.Pod]
	transport *http.Transport
}

var _ rest.Connecter = (*ProxyREST)(nil)

func newProxyREST(pods *registry.Store[*corev1.Pod]) *ProxyREST {
	return &ProxyREST{pods: pods, transport: destination.Transport()}
}

// New implements rest.Storage.
func (r *ProxyREST) New() runtime.Object { return &corev1.PodProxyOptions{} }

// Destroy implements rest.Storage.
func (r *ProxyREST) Destroy() { r.transport.CloseIdleConnections() }

// ConnectMethods implements rest.Connecter.
func (r *ProxyREST) ConnectMethods() []string {
	return []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
}

// NewConnectOptions implements rest.Connecter.
func (r *ProxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &corev1.PodProxyOptions{}, true, "path"
}

// Connect implements rest.Connecter.
func (r *ProxyREST) Connect(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*corev1.PodProxyOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", id))
	}
	p, err := r.pods.Object(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	location, err := locate(p, scheme, port)
	if err != nil {
		return nil, err
	}
	location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, o.Path)
	return proxy.NewUpgradeAwareHandler(location, r.transport, true, false, proxy.NewErrorResponder(responder)), nil
}

// locate tells where a port of a pod is; the first declared one if port is "".
func locate(p *corev1.Pod, scheme, port string) (*url.URL, error) {
	for _, c := range p.Spec.Containers {
		if port == "" && len(c.Ports) > 0 {
			port = strconv.Itoa(int(c.Ports[0].ContainerPort))
		}
	}
	host := p.Status.PodIP
	if len(p.Status.PodIPs) > 0 {
		host = p.Status.PodIPs[0].IP
	}
	// A pod's status must not lead the API server to itself or to its machine's metadata service.
	ip, err := netip.ParseAddr(host)
	if err != nil || !destination.Allowed(ip) {
		return nil, apierrors.NewBadRequest("address not allowed")
	}
	u := &url.URL{Scheme: scheme, Host: host}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case ip.Is6():
		u.Host = "[" + host + "]"
	}
	return u, nil
}
