// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/gateway"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

// Kinds of the Gateway API: without the first nothing is served, the others may be missing.
var (
	neededKinds   = []string{"gatewayclasses", "gateways", "httproutes"}
	optionalKinds = []string{"backendtlspolicies", "grpcroutes", "listenersets", "referencegrants", "tcproutes", "tlsroutes", "udproutes"}
)

// kind returns an object of a resource of the Gateway API.
func kind(resource string) client.Object {
	return map[string]client.Object{
		"gatewayclasses": &gatewayv1.GatewayClass{}, "gateways": &gatewayv1.Gateway{}, "httproutes": &gatewayv1.HTTPRoute{},
		"grpcroutes": &gatewayv1.GRPCRoute{}, "tlsroutes": &gatewayv1.TLSRoute{}, "tcproutes": &gatewayv1.TCPRoute{}, "udproutes": &gatewayv1.UDPRoute{},
		"listenersets": &gatewayv1.ListenerSet{}, "backendtlspolicies": &gatewayv1.BackendTLSPolicy{}, "referencegrants": &gatewayv1.ReferenceGrant{},
	}[resource]
}

// gatewayKinds are those that are served, nil if one is missing without which there is no point.
func gatewayKinds(served []string) []string {
	for _, k := range neededKinds {
		if !slices.Contains(served, k) {
			return nil
		}
	}
	return append(slices.Clone(neededKinds), slices.DeleteFunc(slices.Clone(optionalKinds), func(k string) bool { return !slices.Contains(served, k) })...)
}

// gatewayObjects watches the Gateway API as far as it is installed, and used. ready says that in has what there is.
func (r *Router) gatewayObjects(ctx context.Context) (in gateway.Input, used, ready bool, err error) {
	known, err := r.look(&r.gatewayAPI)
	if err != nil || !known {
		return in, false, false, err
	}
	kinds := gatewayKinds(r.gatewayAPI.served)
	// What is not there any more, or not used, is not watched.
	var unused []client.Object
	defer func() {
		for _, k := range slices.Concat(neededKinds, optionalKinds) {
			if !slices.Contains(kinds, k) {
				unused = append(unused, kind(k))
			}
		}
		if lerr := r.watch.leave(ctx, unused...); err == nil {
			err = lerr
		}
	}()
	if len(kinds) == 0 {
		return in, false, true, nil
	}
	if synced, err := r.watch.ask(ctx, &gatewayv1.GatewayClass{}); err != nil || !synced {
		return in, false, false, err
	}
	classes := &gatewayv1.GatewayClassList{}
	if err := r.list(ctx, classes); err != nil {
		return in, false, false, err
	}
	in.Classes = pointers(classes.Items)
	used = gateway.Used(in.Classes, Controller)
	if !used && r.tidy {
		kinds = []string{"gatewayclasses"}
		return in, false, true, nil
	}
	ready, err = r.listGateways(ctx, &in, kinds, used)
	return in, used, ready, err
}

// listGateways fills in what there is of the kinds that are served. Unless they are used, that is for their statuses alone.
func (r *Router) listGateways(ctx context.Context, in *gateway.Input, kinds []string, used bool) (bool, error) {
	var all []client.Object
	if used {
		all = append(all, &corev1.Namespace{})
	}
	for _, k := range kinds {
		all = append(all, kind(k))
	}
	if synced, err := r.watch.ask(ctx, all...); err != nil || !synced {
		return false, err
	}
	var (
		gateways gatewayv1.GatewayList
		http     gatewayv1.HTTPRouteList
		grpc     gatewayv1.GRPCRouteList
		tls      gatewayv1.TLSRouteList
		tcp      gatewayv1.TCPRouteList
		udp      gatewayv1.UDPRouteList
		sets     gatewayv1.ListenerSetList
		policies gatewayv1.BackendTLSPolicyList
		grants   gatewayv1.ReferenceGrantList
	)
	lists := map[string]client.ObjectList{
		"gateways": &gateways, "httproutes": &http, "grpcroutes": &grpc, "tlsroutes": &tls, "tcproutes": &tcp, "udproutes": &udp,
		"listenersets": &sets, "backendtlspolicies": &policies, "referencegrants": &grants,
	}
	for _, k := range kinds {
		if lists[k] == nil {
			continue // the classes are known
		}
		if err := r.list(ctx, lists[k]); err != nil {
			return false, err
		}
	}
	in.Gateways, in.ListenerSets = pointers(gateways.Items), pointers(sets.Items)
	in.HTTPRoutes, in.GRPCRoutes = pointers(http.Items), pointers(grpc.Items)
	in.TLSRoutes, in.TCPRoutes, in.UDPRoutes = pointers(tls.Items), pointers(tcp.Items), pointers(udp.Items)
	in.BackendTLSPolicies, in.Grants = pointers(policies.Items), pointers(grants.Items)
	return true, nil
}

// complete adds what does not come from the API.
func (r *Router) completeGateways(in *gateway.Input, limits table.Action, taken []table.Port) {
	in.Controller, in.Limits, in.Taken, in.Now = Controller, limits, taken, metav1.Now()
	in.Address, in.Twin, in.Subnets = r.Address, r.Second, r.Subnets
	in.Port = func(port gatewayv1.PortNumber) uint16 {
		switch port {
		case 80:
			return r.HTTPPort
		case 443:
			return r.HTTPSPort
		}
		return uint16(port)
	}
}
