// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"minik8s.io/minik8s/test/differential/compare"
	"minik8s.io/minik8s/test/differential/report"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// documents compares discovery and OpenAPI, and takes the types of objects from upstream's.
func (r *runner) documents(ctx context.Context) error {
	if err := r.discovery(ctx); err != nil {
		return err
	}
	if err := r.openAPI3(ctx); err != nil {
		return err
	}
	if r.Only != nil {
		return nil
	}
	return r.openAPI2(ctx)
}

func (r *runner) discovery(ctx context.Context) error {
	if err := r.discover(ctx); err != nil || r.Only != nil {
		return err
	}
	for _, path := range []string{"/api", "/apis"} {
		for _, accept := range []string{"", aggregated} {
			q := request{method: http.MethodGet, path: path, accept: accept}
			u, o, err := r.ask(ctx, q)
			if err != nil {
				return err
			}
			r.addNamed("discovery", q, u, o, map[string]string{"groups": "name", "items": "metadata.name"})
		}
	}
	prefixes := map[string]bool{}
	for _, res := range r.resources {
		prefixes[res.prefix()] = true
	}
	for _, prefix := range slices.Sorted(maps.Keys(prefixes)) {
		q := request{method: http.MethodGet, path: prefix}
		u, o, err := r.ask(ctx, q)
		if err != nil {
			return err
		}
		r.addNamed("discovery", q, u, o, map[string]string{"resources": "name"})
		if group := strings.Split(prefix, "/"); len(group) == 4 {
			if _, _, err := r.check(ctx, "discovery", "", request{method: http.MethodGet, path: "/apis/" + group[2]}); err != nil {
				return err
			}
		}
	}
	for _, path := range []string{"/", "/version", "/healthz", "/livez", "/readyz", "/readyz?verbose", "/openid/v1/jwks", "/.well-known/openid-configuration", "/nowhere", "/api/v2", "/apis/nowhere.io", "/apis/nowhere.io/v1"} {
		q := request{method: http.MethodGet, path: path}
		u, o, err := r.ask(ctx, q)
		if err != nil {
			return err
		}
		u.Body, o.Body = elements(u.Body, "paths"), elements(o.Body, "paths")
		r.report.Add(report.Request{Kind: "paths", Method: q.method, Path: path}, compare.Answers(u, o, nil))
	}
	return nil
}

// elements makes objects of a text of several lines and of a list of texts, so that each line is compared for itself.
func elements(body any, key string) any {
	if all := list(body, key); all != nil {
		m := map[string]any{}
		for _, item := range all {
			m[fmt.Sprint(item)] = true
		}
		return m
	}
	s, ok := body.(string)
	if !ok || !strings.Contains(s, "\n") {
		return body
	}
	m := map[string]any{"kind": "text"}
	for line := range strings.Lines(s) {
		m[strings.TrimSpace(line)] = true
	}
	return m
}

// addNamed compares two documents whose lists are ordered, but known by a name.
func (r *runner) addNamed(kind string, q request, u, o compare.Answer, lists map[string]string) {
	for key, name := range lists {
		u.Body, o.Body = keyed(u.Body, key, name), keyed(o.Body, key, name)
	}
	r.report.Add(report.Request{Kind: kind, Method: q.method, Path: q.path, Accept: q.accept}, prefixed(q.path, compare.Answers(u, o, nil)))
}

// prefixed puts where the document is before the paths in it: what is in several documents is told for each.
func prefixed(path string, all []compare.Difference) []compare.Difference {
	for i := range all {
		all[i].Path = path + " " + all[i].Path
	}
	return all
}

// keyed turns a list of objects in a document into a map by name, with the order beside it.
func keyed(body any, key, name string) any {
	items := list(body, key)
	if items == nil {
		return body
	}
	m := map[string]any{}
	var order []any
	for _, item := range items {
		n := text(item, strings.Split(name, ".")...)
		m[n] = item
		order = append(order, n)
	}
	doc := maps.Clone(body.(map[string]any))
	doc[key], doc["order of "+key] = m, order
	return doc
}

// openAPI3 compares the documents of all group versions.
func (r *runner) openAPI3(ctx context.Context) error {
	u, o, err := r.ask(ctx, request{method: http.MethodGet, path: "/openapi/v3"})
	if err != nil {
		return err
	}
	up, _ := get(u.Body, "paths").(map[string]any)
	ours, _ := get(o.Body, "paths").(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if up[name] == nil {
			r.report.Add(report.Request{Kind: "openapi/v3", Method: http.MethodGet, Path: "/openapi/v3"},
				[]compare.Difference{{Check: "served", Path: name, Upstream: "-", Ours: "served"}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(up)) {
		q := request{method: http.MethodGet, path: "/openapi/v3/" + name}
		a, b, err := r.ask(ctx, q)
		if err != nil {
			return err
		}
		if err := r.addTypes(a); err != nil {
			return err
		}
		if r.Only != nil {
			continue
		}
		example := report.Request{Kind: "openapi/v3", Method: q.method, Path: q.path}
		if ours[name] == nil {
			r.report.Add(example, []compare.Difference{{Check: "served", Path: name, Upstream: "served", Ours: "-"}})
			continue
		}
		r.report.Add(example, compare.Documents(a, b))
	}
	return nil
}

func (r *runner) addTypes(a compare.Answer) error {
	data, err := json.Marshal(a.Body)
	if err != nil {
		return err
	}
	return r.types.Add(data)
}

func (r *runner) openAPI2(ctx context.Context) error {
	q := request{method: http.MethodGet, path: "/openapi/v2"}
	u, o, err := r.ask(ctx, q)
	if err != nil {
		return err
	}
	if u.Code != http.StatusOK {
		return fmt.Errorf("upstream answers %d for /openapi/v2", u.Code)
	}
	r.report.Add(report.Request{Kind: "openapi/v2", Method: q.method, Path: q.path}, compare.Documents(u, o))
	return nil
}
