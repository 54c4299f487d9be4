// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	streamproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/destination"
)

// ProxyREST is the proxy subresource: requests go on to a random ready endpoint of the service that is a pod. The name may be
// SERVICE, SERVICE:PORT or SCHEME:SERVICE:PORT, the port by name or number; no port means the one without a name.
type ProxyREST struct {
	services  *registry.Store[*corev1.Service]
	stores    *registry.Stores
	transport *http.Transport
	// family is preferred among the endpoints: the primary one of the cluster.
	family corev1.IPFamily
}

func newProxyREST(s *registry.Store[*corev1.Service], c registry.Config) *ProxyREST {
	r := &ProxyREST{services: s, stores: c.Stores, transport: destination.Transport(), family: corev1.IPv4Protocol}
	if len(c.ServiceIPRanges) > 0 && c.ServiceIPRanges[0].Addr().Is6() {
		r.family = corev1.IPv6Protocol
	}
	return r
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
	location, err := r.locate(ctx, id)
	if err != nil {
		return nil, err
	}
	location.Path = utilnet.JoinPreservingTrailingSlash("", opts.Path)
	return proxy.NewUpgradeAwareHandler(location, r.transport, true, false, proxy.NewErrorResponder(responder)), nil
}

// locate chooses an endpoint for [SCHEME:]SERVICE[:PORT]. It fails with ServiceUnavailable if there is none.
func (r *ProxyREST) locate(ctx context.Context, id string) (*url.URL, error) {
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", id))
	}
	if number, err := strconv.ParseInt(port, 10, 64); err == nil {
		svc, err := r.services.Object(ctx, name, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
		if i < 0 {
			return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
		}
		port = svc.Spec.Ports[i].Name
	}
	endpoints, err := r.endpoints(ctx, name)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	pods, err := r.stores.Get(corev1.Resource("pods"))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	host, err := streamproxy.RandomEndpoint(name, endpoints, port, r.family, func(e *discoveryv1.Endpoint) bool {
		if err := ownedByPod(ctx, pods, e); err != nil {
			klog.FromContext(ctx).V(2).Info("Endpoint of a proxy request is passed over", "service", name, "reason", err.Error())
			return false
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: scheme, Host: host}, nil
}

// endpoints are the slices of a service.
func (r *ProxyREST) endpoints(ctx context.Context, service string) ([]*discoveryv1.EndpointSlice, error) {
	store, err := r.stores.Get(discoveryv1.Resource("endpointslices"))
	if err != nil {
		return nil, err
	}
	list, err := store.List(ctx, &internalversion.ListOptions{
		LabelSelector: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}), ResourceVersion: "0",
	})
	if err != nil {
		return nil, err
	}
	items := list.(*discoveryv1.EndpointSliceList).Items
	out := make([]*discoveryv1.EndpointSlice, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out, nil
}

// ownedByPod looks whether an endpoint is a pod of the request's namespace with the address that will be dialled. Who may
// write EndpointSlices could else reach, through the server, whatever it can reach.
func ownedByPod(ctx context.Context, pods rest.Getter, e *discoveryv1.Endpoint) error {
	ref := e.TargetRef
	switch {
	case ref == nil || len(e.Addresses) == 0:
		return errors.New("endpoint has no target ref")
	case apirequest.NamespaceValue(ctx) != ref.Namespace:
		return errors.New("endpoint namespace doesn't match context namespace")
	}
	obj, err := pods.Get(ctx, ref.Name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("the store of pods has a %T", obj)
	}
	if !slices.Contains(pod.Status.PodIPs, corev1.PodIP{IP: e.Addresses[0]}) {
		return fmt.Errorf("pod ip(s) doesn't match endpoint ip: %v vs %s (%s/%s)", pod.Status.PodIPs, e.Addresses[0], ref.Namespace, ref.Name)
	}
	return nil
}
