// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"minik8s.io/minik8s/test/differential/mutate"
	"minik8s.io/minik8s/test/differential/schema"
)

// written are the subresources that take the object itself, and let one part of it change. (/status is in updates.go.)
var written = []string{"approval", "ephemeralcontainers", "resize", "finalize"}

// posted are the subresources that take another kind of object.
var posted = []struct {
	resource, name string
	kind           schema.Kind
	object         map[string]any
}{
	{"pods", "binding", schema.Kind{Version: "v1", Kind: "Binding"},
		map[string]any{"target": map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node-1"}}},
	{"pods", "eviction", schema.Kind{Group: "policy", Version: "v1", Kind: "Eviction"},
		map[string]any{"deleteOptions": map[string]any{"gracePeriodSeconds": 1}}},
	{"serviceaccounts", "token", schema.Kind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"},
		map[string]any{"spec": map[string]any{"audiences": []any{"a"}, "expirationSeconds": 3600}}},
}

// subresources changes each of the other subresources of the seeds, without keeping anything.
func (r *runner) subresources(ctx context.Context) error {
	for _, s := range r.subjects {
		if s.upstream == nil || s.ours == nil {
			continue
		}
		for _, name := range s.resource.subresources {
			var err error
			switch {
			case slices.Contains(written, name):
				all := r.sample(mutate.All(s.upstream, s.typ, r.types, nil), name+s.Name)
				err = r.each(len(all), func(i int) error { return r.update(ctx, s, name, all[i], i) })
			case name == "scale":
				err = r.scale(ctx, s)
			default:
				err = r.post(ctx, s, name)
			}
			if err != nil {
				return fmt.Errorf("%s/%s: %w", s.Name, name, err)
			}
		}
	}
	return r.alive()
}

// scale changes the scale of an object, which is an object of its own.
func (r *runner) scale(ctx context.Context, s *subject) error {
	u, o, err := r.ask(ctx, request{method: http.MethodGet, path: s.objectPath("scale")})
	if err != nil || u.Code >= 300 || o.Code >= 300 {
		return err
	}
	scaled := *s
	scaled.upstream, _ = u.Body.(map[string]any)
	scaled.ours, _ = o.Body.(map[string]any)
	scaled.Object = map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale",
		"metadata": map[string]any{"name": s.ObjectName(), "namespace": s.namespace}, "spec": scaled.upstream["spec"],
	}
	scaled.typ = r.types.Kind(schema.Kind{Group: "autoscaling", Version: "v1", Kind: "Scale"})
	all := r.sample(mutate.All(scaled.upstream, scaled.typ, r.types, nil), "scale"+s.Name)
	return r.each(len(all), func(i int) error { return r.update(ctx, &scaled, "scale", all[i], i) })
}

// post sends what a subresource takes, and its mutations.
func (r *runner) post(ctx context.Context, s *subject, name string) error {
	for _, p := range posted {
		if p.resource != s.resource.name || p.name != name {
			continue
		}
		object := maps.Clone(p.object)
		object["apiVersion"], object["kind"] = groupVersion(p.kind.Group, p.kind.Version), p.kind.Kind
		object["metadata"] = map[string]any{"name": s.ObjectName()}
		all := r.sample(mutate.All(object, r.types.Kind(p.kind), r.types, nil), name+s.Name)
		return r.each(len(all), func(i int) error {
			q := request{method: http.MethodPost, path: s.objectPath(name) + "?dryRun=All", body: all[i].Apply(object)}
			_, _, err := r.check(ctx, s.resource.label()+"/"+name, all[i].String(), q)
			return err
		})
	}
	return nil
}

func groupVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}
