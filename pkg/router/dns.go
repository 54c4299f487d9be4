// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/router/internal/dns"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

// dnsObjects watches Dns objects if they are defined. ready says that what there is is known.
func (r *Router) dnsObjects(ctx context.Context) (objects []*v1alpha1.Dns, ready bool, err error) {
	known, err := r.look(&r.dnsAPI)
	if err != nil || !known {
		return nil, false, err
	}
	if !slices.Contains(r.dnsAPI.served, v1alpha1.Resource.Resource) {
		return nil, true, r.watch.leave(ctx, &v1alpha1.Dns{})
	}
	if synced, err := r.watch.ask(ctx, &v1alpha1.Dns{}); err != nil || !synced {
		return nil, false, err
	}
	list := &v1alpha1.DnsList{}
	if err := r.list(ctx, list); err != nil {
		return nil, false, err
	}
	return pointers(list.Items), true, nil
}

func (r *Router) translateDNS(objects []*v1alpha1.Dns, limits table.Action, resolver *resolve.Resolver) {
	r.named = dns.Translate(dns.Input{
		Objects: objects, HTTP: netip.AddrPortFrom(r.Address, r.HTTPPort), Twin: r.Second, Limits: limits, Resolver: resolver, Now: metav1.Now(),
	})
}

func dnsProblems(out *dns.Output, failed map[netip.AddrPort]error) []problem {
	var problems []problem
	for _, p := range out.Problems(failed) {
		problems = append(problems, problem{p.Object, p.Reason, p.Text})
	}
	return problems
}
