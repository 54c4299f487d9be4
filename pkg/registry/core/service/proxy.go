// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// ProxyREST is the proxy subresource: requests go on to a random ready endpoint of the service. The name may be
// SERVICE, SERVICE:PORT or SCHEME:SERVICE:PORT, the port by name or number.
type ProxyREST struct {
	services  *registry.Store[*corev1.Service]
	stores    *registry.Stores
	transport *http.Transport
}

func newProxyREST(s *registry.Store[*corev1.Service], c registry.Config) *ProxyREST {
	// The certificates of pods are not the cluster's, so they cannot be verified (as upstream).
	t := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // see above
	return &ProxyREST{services: s, stores: c.Stores, transport: t}
}

var _ rest.Connecter = (*ProxyREST)(nil)

// AddConversions lets the query of a proxy request be read.
func AddConversions(scheme *runtime.Scheme) error {
	return scheme.AddConversionFunc((*url.Values)(nil), (*corev1.ServiceProxyOptions)(nil), func(in, out any, _ conversion.Scope) error {
		out.(*corev1.ServiceProxyOptions).Path = in.(*url.Values).Get("path")
		return nil
	})
}

// New implements rest.Storage.
func (r *ProxyREST) New() runtime.Object { return &corev1.ServiceProxyOptions{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *ProxyREST) Destroy() { r.transport.CloseIdleConnections() }

// ConnectMethods implements rest.Connecter.
func (r *ProxyREST) ConnectMethods() []string {
	return []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
}

// NewConnectOptions implements rest.Connecter.
func (r *ProxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &corev1.ServiceProxyOptions{}, true, "path"
}

// Connect implements rest.Connecter.
func (r *ProxyREST) Connect(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	opts, ok := options.(*corev1.ServiceProxyOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", id))
	}
	svc, err := r.services.Object(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	slices, err := r.stores.Get(discoveryv1.Resource("endpointslices"))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	list, err := slices.List(ctx, &internalversion.ListOptions{
		LabelSelector: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name}), ResourceVersion: "0",
	})
	if err != nil {
		return nil, err
	}
	hosts, found := targets(svc, port, list.(*discoveryv1.EndpointSliceList).Items)
	switch {
	case !found:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %q found for service %q", port, name))
	case len(hosts) == 0:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", id))
	}
	if scheme == "" {
		scheme = "http"
	}
	location := &url.URL{Scheme: scheme, Host: hosts[rand.IntN(len(hosts))], Path: utilnet.JoinPreservingTrailingSlash("", opts.Path)}
	return proxy.NewUpgradeAwareHandler(location, r.transport, true, false, proxy.NewErrorResponder(responder)), nil
}

// targets are the ready endpoints (host:port) behind a port of the service, given by name or number; "" means the port
// without a name, or the only one. found is false if the service has no such port.
func targets(s *corev1.Service, port string, slices []discoveryv1.EndpointSlice) (hosts []string, found bool) {
	name := port
	for _, p := range s.Spec.Ports {
		if p.Name == port || strconv.Itoa(int(p.Port)) == port || port == "" && len(s.Spec.Ports) == 1 {
			name, found = p.Name, true
			break
		}
	}
	if !found {
		return nil, false
	}
	for _, slice := range slices {
		if slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, p := range slice.Ports {
			if p.Name == nil || *p.Name != name || p.Port == nil {
				continue
			}
			for _, e := range slice.Endpoints {
				if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					hosts = append(hosts, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	return hosts, true
}
