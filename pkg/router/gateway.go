// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
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

// definitionsTime is for how long a definition that is not served is looked at again and again: it has to be accepted first.
const definitionsTime = time.Minute

// installed knows which kinds of the Gateway API the API server has. The zero value knows none.
type installed struct {
	client discovery.DiscoveryInterface
	// defined are the definitions that there were when somebody last asked what is served of them.
	defined string
	since   time.Time
	served  []string
}

// look finds out what is served, if the definitions are not those of last time or are still on their way. again says that they are.
func (i *installed) look(definitions []any) (again bool, err error) {
	var names, versions []string
	for _, d := range definitions {
		d := d.(*metav1.PartialObjectMetadata)
		if name, ok := strings.CutSuffix(d.Name, "."+gatewayv1.GroupName); ok {
			names, versions = append(names, name), append(versions, d.Name+"@"+d.ResourceVersion)
		}
	}
	slices.Sort(versions)
	defined := strings.Join(versions, " ")
	if defined != i.defined {
		i.defined, i.since = defined, time.Now()
	} else if time.Since(i.since) > definitionsTime || i.all(names) {
		return false, nil
	}
	if len(names) == 0 {
		i.served = nil
		return false, nil
	}
	list, err := i.client.ServerResourcesForGroupVersion(gatewayv1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		i.served = nil
		return true, nil
	}
	if err != nil {
		i.defined = "" // ask again
		return true, fmt.Errorf("finding out which kinds of the Gateway API there are: %w", err)
	}
	i.served = nil
	for _, r := range list.APIResources {
		i.served = append(i.served, r.Name)
	}
	return !i.all(names), nil
}

// all tells whether those of some names are served that the router reads.
func (i *installed) all(names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return kind(n) != nil && !slices.Contains(i.served, n) })
}

// kinds are those that are served, nil if one is missing without which there is no point.
func (i *installed) kinds() []string {
	for _, k := range neededKinds {
		if !slices.Contains(i.served, k) {
			return nil
		}
	}
	return append(slices.Clone(neededKinds), slices.DeleteFunc(slices.Clone(optionalKinds), func(k string) bool { return !slices.Contains(i.served, k) })...)
}

// gatewayObjects watches the Gateway API as far as it is installed, and used. ready says that in has what there is.
func (r *Router) gatewayObjects(ctx context.Context) (in gateway.Input, used, ready bool, err error) {
	if !r.watch.definitions.HasSynced() {
		return in, false, false, nil
	}
	again, err := r.look(r.watch.definitions.GetStore().List())
	if again {
		time.AfterFunc(time.Second, r.watch.poke)
	}
	if err != nil {
		return in, false, false, err
	}
	kinds := r.kinds()
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
	if !gateway.Used(in.Classes, Controller) {
		kinds = []string{"gatewayclasses"}
		return in, false, true, nil
	}
	ready, err = r.listGateways(ctx, &in, kinds)
	return in, true, ready, err
}

// listGateways fills in what there is of the kinds that are served.
func (r *Router) listGateways(ctx context.Context, in *gateway.Input, kinds []string) (bool, error) {
	all := []client.Object{&corev1.Namespace{}}
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
	in.Address, in.Subnet = r.Address, r.Subnet
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
