// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/router/internal/gateway"
	"minik8s.io/minik8s/pkg/router/internal/ingress"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

// headerTime is how long a backend may take to begin its answer once it has the request, as nginx has it.
const headerTime = time.Minute

// listenFailed is the reason of the event of an Ingress whose port cannot be opened.
const listenFailed = "ListenFailed"

// pass makes a table of what is there, serves it, and has written what is to be said and made of it.
func (r *Router) pass(ctx context.Context) error {
	if synced, err := r.watch.ask(ctx, &networkingv1.Ingress{}, &networkingv1.IngressClass{}); err != nil || !synced {
		return err
	}
	ingresses, classes := &networkingv1.IngressList{}, &networkingv1.IngressClassList{}
	if err := r.list(ctx, ingresses, classes); err != nil {
		return err
	}
	in := ingress.Input{
		Ingresses: pointers(ingresses.Items), Classes: pointers(classes.Items), Controller: Controller,
		HTTP: netip.AddrPortFrom(r.Address, r.HTTPPort), HTTPS: netip.AddrPortFrom(r.Address, r.HTTPSPort),
		Limits: table.Action{HeaderTimeout: headerTime},
	}
	used := len(ingress.Served(in.Ingresses, in.Classes, Controller)) > 0
	gateways, gatewaysUsed, gatewaysReady, gatewaysErr := r.gatewayObjects(ctx)
	if gatewaysReady {
		r.gatewaysUsed = gatewaysUsed
	}
	names, namesReady, namesErr := r.dnsObjects(ctx)
	if namesReady {
		r.dnsUsed = len(names) > 0
	}
	left := gatewaysReady && gateways.Classes != nil && !r.tidy // something may be of Gateways that are not used any more
	objects, ready, err := r.objects(ctx, used || gatewaysUsed || r.gatewaysUsed || r.dnsUsed, left)
	if err != nil || !ready {
		return err
	}
	if gatewaysReady {
		if objects.Namespaces, err = r.namespaces(ctx, gatewaysUsed); err != nil {
			return err
		}
		if objects.ConfigMaps, ready, err = r.configMaps(ctx, gatewaysUsed && gateway.NeedsConfigMaps(gateways)); err != nil || !ready {
			return err
		}
	}
	in.Resolver = resolve.New(objects, &r.keys)
	served := ingress.Translate(in)
	if namesReady {
		r.translateDNS(names, in.Limits, in.Resolver)
	}
	served.Contents = served.With(r.named.Contents)
	if gatewaysReady {
		gateways.Resolver = in.Resolver
		r.completeGateways(&gateways, in.Limits, served.Ports)
		r.attached = gateway.Translate(gateways)
	}
	if err := r.take(r.attached.Addresses()); err != nil {
		klog.FromContext(ctx).Error(err, "Addresses of Gateways cannot be had") // their ports will fail, and say so
	}
	// Gateways and Dns objects that cannot be read now are served as they were, and keep no Ingress waiting.
	contents := served.With(r.attached.Contents)
	contents.Twins[r.Address] = r.Second
	failed := r.serve(ctx, table.Build(contents))
	changes := statuses(ingressStatuses(served.Served, table.Open(in.HTTP, r.Second, failed)))
	problems := append(ingressProblems(served, in, r.Second, failed), dnsProblems(r.named, failed)...)
	if gatewaysReady {
		own, taken := gatewayServices(r.attached.Services(), objects)
		own = append(own, statuses(r.attached.Statuses(failed))...)
		changes, problems = append(changes, own...), append(problems, taken...)
		if before := r.tidy; gateways.Classes != nil { // else the kinds are not there
			if r.tidy = !gatewaysUsed && len(own) == 0; r.tidy && !before {
				r.watch.poke() // to leave what is not watched any more
			}
		}
	}
	if namesReady {
		changes = append(changes, statuses(r.named.Statuses(failed))...)
	}
	r.reporter.report(changes)
	r.told.tell(r.Recorder, problems)
	return errors.Join(gatewaysErr, namesErr)
}

// namespaces are the labels of all namespaces. They are watched only if Gateways are used, and then already.
func (r *Router) namespaces(ctx context.Context, used bool) (map[string]map[string]string, error) {
	if !used {
		return nil, r.watch.leave(ctx, &corev1.Namespace{})
	}
	list := &corev1.NamespaceList{}
	if err := r.list(ctx, list); err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for i := range list.Items {
		all[list.Items[i].Name] = list.Items[i].Labels
	}
	return all, nil
}

// configMaps are all that there are, with nothing but certificates of authorities. They are watched only if something refers to one.
func (r *Router) configMaps(ctx context.Context, used bool) (map[types.NamespacedName]*corev1.ConfigMap, bool, error) {
	if !used {
		return nil, true, r.watch.leave(ctx, &corev1.ConfigMap{})
	}
	if synced, err := r.watch.ask(ctx, &corev1.ConfigMap{}); err != nil || !synced {
		return nil, false, err
	}
	list := &corev1.ConfigMapList{}
	if err := r.list(ctx, list); err != nil {
		return nil, false, err
	}
	return named[corev1.ConfigMap](list.Items), true, nil
}

// serve serves a table, and tries again if a port cannot be opened.
func (r *Router) serve(ctx context.Context, t *table.Table) map[netip.AddrPort]error {
	failed := r.server.Serve(t)
	for _, err := range failed {
		klog.FromContext(ctx).Error(err, "A port cannot be opened")
	}
	if len(failed) > 0 {
		time.AfterFunc(retryInterval, r.watch.poke)
	}
	return failed
}

// objects lists what routes refer to, and watches it only if it is used. If only Services may be left of what was used, these are looked at.
func (r *Router) objects(ctx context.Context, used, left bool) (resolve.Objects, bool, error) {
	kinds, unused := []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}}, []client.Object{&corev1.Secret{}}
	switch {
	case used:
		kinds, unused = append(kinds, unused...), nil
	case !left:
		kinds, unused = nil, append(kinds, unused...)
	}
	if err := r.watch.leave(ctx, unused...); err != nil || kinds == nil {
		return resolve.Objects{}, true, err
	}
	if synced, err := r.watch.ask(ctx, kinds...); err != nil || !synced {
		return resolve.Objects{}, false, err
	}
	services, endpoints, secrets := &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &corev1.SecretList{}
	if err := r.list(ctx, services, endpoints); err != nil {
		return resolve.Objects{}, false, err
	}
	if used {
		if err := r.list(ctx, secrets); err != nil {
			return resolve.Objects{}, false, err
		}
	}
	o := resolve.Objects{
		Services: named[corev1.Service](services.Items), Secrets: named[corev1.Secret](secrets.Items),
		Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{},
	}
	for i := range endpoints.Items {
		s := &endpoints.Items[i]
		service := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
		o.Slices[service] = append(o.Slices[service], s)
	}
	return o, true, nil
}

// list reads from the cache. Nobody changes what it gives.
func (r *Router) list(ctx context.Context, lists ...client.ObjectList) error {
	for _, l := range lists {
		if err := r.watch.cache.List(ctx, l, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	return nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

func named[T any, P interface {
	*T
	client.Object
}](items []T) map[types.NamespacedName]*T {
	out := make(map[types.NamespacedName]*T, len(items))
	for i := range items {
		out[client.ObjectKeyFromObject(P(&items[i]))] = &items[i]
	}
	return out
}

// ingressStatuses are the Ingresses that do not say where they are served, with a status that does. One that is not served says
// so no more.
func ingressStatuses(served []*networkingv1.Ingress, at []netip.Addr) []client.Object {
	var want []networkingv1.IngressLoadBalancerIngress
	for _, a := range at {
		want = append(want, networkingv1.IngressLoadBalancerIngress{IP: a.String()})
	}
	same := func(a, b networkingv1.IngressLoadBalancerIngress) bool {
		return a.IP == b.IP && a.Hostname == b.Hostname
	}
	var changed []client.Object
	for _, i := range served {
		if slices.EqualFunc(i.Status.LoadBalancer.Ingress, want, same) {
			continue
		}
		i = i.DeepCopy()
		i.Status.LoadBalancer.Ingress = want
		changed = append(changed, i)
	}
	return changed
}

func ingressProblems(out ingress.Output, in ingress.Input, twin netip.Addr, failed map[netip.AddrPort]error) []problem {
	var problems []problem
	for _, p := range out.Problems {
		problems = append(problems, problem{p.Ingress, p.Reason, p.Text})
	}
	for _, i := range out.Served {
		for _, port := range []netip.AddrPort{in.HTTP, in.HTTPS} {
			for _, p := range []netip.AddrPort{port, table.TwinOf(port, twin)} {
				if err := failed[p]; err != nil && (port == in.HTTP || len(i.Spec.TLS) > 0) {
					problems = append(problems, problem{i, listenFailed, err.Error()})
				}
			}
		}
	}
	return problems
}
