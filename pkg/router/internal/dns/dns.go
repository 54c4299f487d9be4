// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dns translates Dns objects into the router's table, and says what of them is served. It is a function of objects. Touch it
// when a Dns is to mean something else.
package dns

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

// Input is what a translation is made of.
type Input struct {
	Objects []*v1alpha1.Dns
	// HTTP is where the router listens, and Twin another address of it; not valid if there is none.
	HTTP netip.AddrPort
	Twin netip.Addr
	// Limits are those of every route.
	Limits   table.Action
	Resolver *resolve.Resolver
	Now      metav1.Time
}

// Output is what comes of it. The zero value is that of no objects.
type Output struct {
	table.Contents
	input   Input
	results []*result
}

// result is what is found out about an object.
type result struct {
	object *v1alpha1.Dns
	// conflict says why not all of it is accepted, unresolved why not all paths have a backend; the reason is that of the condition.
	conflict, unresolved finding
	served               bool
}

// finding is a reason with a text; the zero value: there is nothing to say.
type finding struct{ reason, text string }

// add takes one more text. The first reason stays.
func (f *finding) add(reason, text string) {
	if f.reason == "" {
		f.reason, f.text = reason, text
		return
	}
	f.text += "; " + text
}

// place is a path of a host.
type place struct{ host, path string }

// Translate does what the package is for. A host is that of the namespace of its oldest object, and a path that of the oldest object of
// that namespace. Requests for a path whose Service or port is not there are answered by 503 with a text that says so, and never by a
// less specific path.
func Translate(in Input) *Output {
	t := &translation{Output: &Output{input: in}, owners: map[string]*v1alpha1.Dns{}, taken: map[place]*v1alpha1.Dns{}}
	objects := slices.DeleteFunc(slices.Clone(in.Objects), func(d *v1alpha1.Dns) bool { return d.DeletionTimestamp != nil })
	slices.SortStableFunc(objects, func(a, b *v1alpha1.Dns) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, d := range objects {
		t.results = append(t.results, t.translate(d))
	}
	if len(t.Entries) > 0 {
		t.Ports = []table.Port{{Address: in.HTTP, Protocol: table.HTTP}}
	}
	return t.Output
}

type translation struct {
	*Output
	owners map[string]*v1alpha1.Dns
	taken  map[place]*v1alpha1.Dns
}

func (t *translation) translate(d *v1alpha1.Dns) *result {
	r := &result{object: d}
	host := strings.ToLower(d.Spec.Host)
	if owner := t.owners[host]; owner != nil && owner.Namespace != d.Namespace {
		r.conflict.add(v1alpha1.ReasonHostConflict, fmt.Sprintf("host %s is that of Dns %s, which is older and of another namespace: choose another host, or delete that one",
			host, client.ObjectKeyFromObject(owner)))
		return r
	}
	if t.owners[host] == nil {
		t.owners[host] = d
	}
	for i, p := range d.Spec.Paths {
		at := place{host, cmp.Or(p.SubPath, "/")}
		if by := t.taken[at]; by != nil {
			r.conflict.add(v1alpha1.ReasonPathConflict, fmt.Sprintf("path %s of host %s is that of Dns %s, which is older: choose another subPath, or delete it in one of them",
				at.path, host, client.ObjectKeyFromObject(by)))
			continue
		}
		t.taken[at], r.served = d, true
		t.route(r, at, p, i)
	}
	return r
}

func (t *translation) route(r *result, at place, p v1alpha1.DnsPath, number int) {
	d := r.object
	service := types.NamespacedName{Namespace: d.Namespace, Name: p.Service}
	port := resolve.Port{Number: p.Port.IntVal}
	if p.Port.Type == intstr.String {
		port = resolve.Port{Name: p.Port.StrVal}
	}
	backend, err := t.input.Resolver.Backend(service, port)
	if err != nil {
		text := fmt.Sprintf("path %s: %v", at.path, err)
		r.unresolved.add(t.reason(service, err), text)
		backend = table.NewBackend("", table.HTTP1, nil)
		backend.Absent = text
	}
	action := t.input.Limits
	action.Backends = []table.WeightedBackend{{Weight: 1, Backend: backend}}
	if at.path != "/" {
		root := "/"
		action.Rewrite = &table.Rewrite{Path: &table.PathChange{Prefix: &root}}
	}
	t.Entries = append(t.Entries, table.Entry{Port: t.input.HTTP, Host: at.host, Route: &table.Route{
		Match:  table.Match{Kind: table.Prefix, Path: at.path},
		Origin: table.Origin{Kind: "Dns", Namespace: d.Namespace, Name: d.Name, Created: d.CreationTimestamp.Time, Rule: number},
		Action: action,
	}})
}

func (t *translation) reason(service types.NamespacedName, err error) string {
	switch {
	case errors.Is(err, resolve.ErrUnsupported):
		return v1alpha1.ReasonUnsupportedService
	case t.input.Resolver.Services[service] == nil:
		return v1alpha1.ReasonServiceNotFound
	}
	return v1alpha1.ReasonPortNotFound
}
