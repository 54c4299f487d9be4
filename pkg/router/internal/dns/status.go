// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

// Statuses are the objects whose status is to be another one, with that one. failed are the ports that cannot be opened. Conditions of
// types that nobody sets here stay.
func (o *Output) Statuses(failed map[netip.AddrPort]error) []client.Object {
	var changed []client.Object
	for _, r := range o.results {
		next := r.object.DeepCopy()
		o.status(r, &next.Status, failed)
		if !equality.Semantic.DeepEqual(r.object.Status, next.Status) {
			changed = append(changed, next)
		}
	}
	return changed
}

func (o *Output) status(r *result, s *v1alpha1.DnsStatus, failed map[netip.AddrPort]error) {
	set := func(kind, reason, text string, problem finding) {
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: text, ObservedGeneration: r.object.Generation, LastTransitionTime: o.input.Now,
		}
		if problem.reason != "" {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, problem.reason, problem.text
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	s.ObservedGeneration, s.Addresses, s.URL = r.object.Generation, nil, ""
	s.Conditions = slices.Clone(s.Conditions)
	set(v1alpha1.Accepted, v1alpha1.ReasonAccepted, "the host and its paths are this object's", r.conflict)
	unresolved := r.unresolved
	if unresolved.reason != "" {
		unresolved.text += ": create what is missing, or change the path; until then its requests are answered by 503"
	}
	set(v1alpha1.ResolvedRefs, v1alpha1.ReasonResolvedRefs, "all Services and ports are there", unresolved)
	var away finding
	open := table.Open(o.input.HTTP, o.input.Twin, failed)
	switch {
	case !r.served:
		away = finding{v1alpha1.ReasonNotAccepted, "nothing of it is accepted, and so nothing is served"}
	case len(open) == 0:
		away = finding{v1alpha1.ReasonListenFailed, failed[o.input.HTTP].Error() + ": end what has the port, or give the router another one (router.httpPort)"}
	default:
		s.URL = o.url(r.object.Spec.Host)
		for _, a := range open {
			s.Addresses = append(s.Addresses, a.String())
		}
	}
	set(v1alpha1.Programmed, v1alpha1.ReasonProgrammed, "requests for the host are served", away)
}

func (o *Output) url(host string) string {
	if port := o.input.HTTP.Port(); port != 80 {
		host += ":" + strconv.Itoa(int(port))
	}
	return "http://" + host
}

// Problem is something that an object is to have an event about.
type Problem struct {
	Object       *v1alpha1.Dns
	Reason, Text string
}

// Problems are those of all objects.
func (o *Output) Problems(failed map[netip.AddrPort]error) []Problem {
	var all []Problem
	for _, r := range o.results {
		d := r.object.DeepCopy()
		d.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Dns")) // which events refer to
		for _, f := range []finding{r.conflict, r.unresolved} {
			if f.reason != "" {
				all = append(all, Problem{d, f.reason, f.text})
			}
		}
		for _, port := range []netip.AddrPort{o.input.HTTP, table.TwinOf(o.input.HTTP, o.input.Twin)} {
			if err := failed[port]; err != nil && r.served {
				all = append(all, Problem{d, v1alpha1.ReasonListenFailed, err.Error()})
			}
		}
	}
	return all
}
