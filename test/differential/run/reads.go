// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"minik8s.io/minik8s/test/differential/compare"
	"minik8s.io/minik8s/test/differential/report"
	"minik8s.io/minik8s/test/differential/schema"
)

// start lists what both servers hold from the start, of every kind that upstream can list, and says which object differs.
func (r *runner) start(ctx context.Context) error { return r.everything(ctx, named) }

// end does so after all that was done; what differs in the seeds has been told for each.
func (r *runner) end(ctx context.Context) error {
	return r.everything(ctx, func(body any) any { return body })
}

func (r *runner) everything(ctx context.Context, as func(body any) any) error {
	if err := r.discover(ctx); err != nil {
		return err
	}
	for _, res := range r.resources {
		if !res.served || !res.can("list") || !r.wanted(res.label()) {
			continue
		}
		q := request{method: http.MethodGet, path: res.path("")}
		u, o, err := r.ask(ctx, q)
		if err != nil {
			return err
		}
		u.Body, o.Body = as(u.Body), as(o.Body)
		r.report.Add(report.Request{Kind: res.label(), Method: q.method, Path: q.path}, compare.Answers(u, o, nil))
	}
	return nil
}

// named makes a plain object of a list: its items by name.
func named(body any) any {
	items := map[string]any{}
	for _, item := range list(body, "items") {
		items[strings.TrimPrefix(text(item, "metadata", "namespace")+"/"+text(item, "metadata", "name"), "/")] = item
	}
	return map[string]any{"kind": "there", "resourceVersion": text(body, "metadata", "resourceVersion"), "items": items}
}

// reads asks for every kind what goes wrong in reading, naming, media types and methods.
func (r *runner) reads(ctx context.Context) error {
	if err := r.discover(ctx); err != nil {
		return err
	}
	var all []resource
	for _, res := range r.resources {
		if res.served && r.wanted(res.label()) {
			all = append(all, res)
		}
	}
	return r.each(len(all), func(i int) error {
		res := all[i]
		label := res.label()
		var s *subject
		for _, candidate := range r.subjects {
			if candidate.resource.prefix() == res.prefix() && candidate.resource.name == res.name {
				s = candidate
			}
		}
		for _, q := range slices.Concat(lists(res, r.types), methods(res), bodies(res, s), targeted(res, s)) {
			if _, _, err := r.check(ctx, label, "", q); err != nil {
				return err
			}
		}
		return nil
	})
}

// lists are the parameters of a list.
func lists(res resource, types *schema.Set) []request {
	if !res.can("list") {
		return nil
	}
	get := func(path, accept string) request {
		return request{method: http.MethodGet, path: path, accept: accept}
	}
	base := res.path("")
	var all []request
	for _, accept := range []string{
		tableType, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
		"application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json;as=Table;v=v2;g=meta.k8s.io", "application/xml", "text/html", "*/*", "application/*",
		"application/vnd.kubernetes.protobuf;as=Nothing;v=v1;g=meta.k8s.io",
	} {
		all = append(all, get(base+"?limit=500", accept))
	}
	for _, query := range []string{
		"limit=1&labelSelector=none%3Dsuch", "limit=-1", "limit=x", "continue=bad", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
		"resourceVersion=abc", "resourceVersion=-1", "resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=Exact", "resourceVersion=1&resourceVersionMatch=Nonsense",
		"resourceVersion=0&resourceVersionMatch=NotOlderThan", "resourceVersion=0&continue=x", "labelSelector=a%3D%3D%3Db", "labelSelector=a+in+(b", "labelSelector=bad!key%3Dx",
		"labelSelector=a%3D" + strings.Repeat("b", 64), "fieldSelector=x", "fieldSelector=metadata.name%3Dnone", "fieldSelector=metadata.name!%3Dnone&labelSelector=a%3Dnone",
		"fieldSelector=metadata.namespace%3Dnone", "fieldSelector=metadata.uid%3Dx", "fieldSelector=metadata.name%3D%3D%3Dx", "timeoutSeconds=x", "watch=x&timeoutSeconds=1&labelSelector=none%3Dsuch", "includeObject=Bad", "unknown=1",
		"sendInitialEvents=true", "watch=1&resourceVersion=abc&timeoutSeconds=1", "watch=1&limit=x&timeoutSeconds=1&labelSelector=none%3Dsuch", "watch=1&resourceVersionMatch=NotOlderThan&timeoutSeconds=1&labelSelector=none%3Dsuch", "watch=1&continue=x&timeoutSeconds=1&labelSelector=none%3Dsuch",
		"watch=1&sendInitialEvents=true&timeoutSeconds=1&labelSelector=none%3Dsuch", "watch=1&resourceVersion=99999999&timeoutSeconds=1&labelSelector=none%3Dsuch", "shardSelector=x",
	} {
		if strings.HasPrefix(query, "watch=1") && !res.can("watch") {
			continue
		}
		all = append(all, get(base+"?"+query, ""))
		if strings.HasPrefix(query, "includeObject") {
			all = append(all, get(base+"?"+query, tableType))
		}
	}
	for _, field := range fields(types.Kind(schema.Kind{Group: res.group, Version: res.version, Kind: res.kind}), types) {
		all = append(all, get(base+"?fieldSelector="+url.QueryEscape(field+"=no-such-value"), ""))
	}
	return all
}

// fields are the plain fields of a kind that could be selected by, two levels deep.
func fields(t *schema.Type, types *schema.Set) []string {
	var all []string
	t = types.Resolve(t)
	if t == nil {
		return nil
	}
	for name, p := range t.Properties {
		p = types.Resolve(p)
		if p == nil || name == "metadata" {
			continue
		}
		if p.Properties == nil {
			all = append(all, name)
		}
		for sub, sp := range p.Properties {
			if sp = types.Resolve(sp); sp != nil && sp.Properties == nil && sp.Items == nil {
				all = append(all, name+"."+sub)
			}
		}
	}
	slices.Sort(all)
	return append(all, "reportingComponent", "source", "involvedObject.name", "regarding.name")
}

// methods are those that a path does not have, and names that are not there.
func methods(res resource) []request {
	base := res.path("default")
	var all []request
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions} {
		if method != http.MethodDelete && method != http.MethodPost {
			all = append(all, request{method: method, path: base + "?dryRun=All", body: map[string]any{}})
		}
		q := request{method: method, path: base + "/no-such-name?dryRun=All"}
		if method == http.MethodPost || method == http.MethodPut {
			q.body = map[string]any{"apiVersion": groupVersion(res.group, res.version), "kind": res.kind, "metadata": map[string]any{"name": "no-such-name"}}
		}
		if method == http.MethodPatch {
			for _, t := range []string{"merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml", "json", "nonsense"} {
				q.contentType, q.body = "application/"+t, map[string]any{}
				if t == "json-patch+json" {
					q.body = []any{}
				}
				all = append(all, q)
			}
			continue
		}
		all = append(all, q)
	}
	for _, sub := range res.subresources {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			q := request{method: method, path: base + "/no-such-name/" + sub + "?dryRun=All"}
			if method != http.MethodGet {
				q.body = map[string]any{}
			}
			if sub != "proxy" {
				all = append(all, q)
			}
		}
	}
	return append(all,
		request{method: http.MethodGet, path: base + "/no-such-name/no-such-subresource"},
		request{method: http.MethodGet, path: base + "/no-such-name", accept: tableType},
		request{method: http.MethodGet, path: base + "/Bad%20Name"},
		request{method: http.MethodGet, path: base + "/no-such-name?resourceVersion=x"},
		request{method: http.MethodDelete, path: base + "?dryRun=All&labelSelector=none%3Dsuch"},
		request{method: http.MethodDelete, path: base + "?dryRun=All&labelSelector=a%3D%3D%3Db"},
	)
}

// bodies are what cannot be an object of this kind.
func bodies(res resource, s *subject) []request {
	if s == nil {
		return nil
	}
	path := s.path() + "?dryRun=All"
	post := func(body any) request { return request{method: http.MethodPost, path: path, body: body} }
	with := func(changes map[string]any) map[string]any {
		o := maps.Clone(s.Object)
		m, _ := o["metadata"].(map[string]any)
		m = maps.Clone(m)
		maps.Copy(m, changes)
		o["metadata"] = m
		return o
	}
	object := with(nil)
	all := []request{
		post(""), post("{"), post("[]"), post("null"), post(`"text"`), post("{}"), post(`{"a":1,"a":2}`), post("kind: x"),
		post(map[string]any{"kind": res.kind}), post(map[string]any{"apiVersion": s.Object["apiVersion"]}),
		post(map[string]any{"apiVersion": s.Object["apiVersion"], "kind": res.kind}),
		post(map[string]any{"apiVersion": s.Object["apiVersion"], "kind": res.kind + "List", "items": []any{}}),
		post(map[string]any{"apiVersion": s.Object["apiVersion"], "kind": "Nonsense"}),
		post(map[string]any{"apiVersion": "nowhere.io/v1", "kind": res.kind}),
		post(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x"}}),
		post(map[string]any{"apiVersion": "a/b/c", "kind": res.kind}),
		post(with(map[string]any{"resourceVersion": "1"})), post(with(map[string]any{"uid": "11111111-1111-1111-1111-111111111111"})),
		post(with(map[string]any{"namespace": "elsewhere"})), post(with(map[string]any{"namespace": ""})),
		post(with(map[string]any{"name": "", "generateName": "made-"})), post(with(map[string]any{"name": ""})),
		post(with(map[string]any{"generateName": "Bad Name-"})),
		post(with(map[string]any{"name": "", "generateName": strings.Repeat("g", 300)})),
		post(with(map[string]any{"finalizers": []any{"bad finalizer", "example.com/fine", "orphan", "foregroundDeletion", "unqualified"}})),
		post(with(map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": true}, map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "v", "controller": true}}})),
		post(with(map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "u"}}})),
		post(with(map[string]any{"managedFields": []any{map[string]any{"manager": "m", "operation": "Bad", "apiVersion": "v1"}}})),
		post(with(map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 5})),
		post(with(map[string]any{"annotations": map[string]any{"big": strings.Repeat("x", 262145)}})),
		{method: http.MethodPost, path: path, contentType: "text/plain", body: object}, {method: http.MethodPost, path: path, contentType: "application/xml", body: object},
		{method: http.MethodPost, path: path, contentType: "application/yaml", body: object}, {method: http.MethodPost, path: path, accept: "application/xml", body: object},
		{method: http.MethodPost, path: path, accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", body: object},
		{method: http.MethodPost, path: s.path() + "?dryRun=Bad", body: object}, {method: http.MethodPost, path: path + "&fieldValidation=Bad", body: object},
		{method: http.MethodPost, path: path + "&fieldManager=" + strings.Repeat("m", 129), body: object},
		{method: http.MethodPost, path: path + "&fieldManager=bad%00manager", body: object}, {method: http.MethodPost, path: path + "&pretty=true", body: object},
		{method: http.MethodPost, path: path + "&unknown=1", body: object},
	}
	if res.namespaced {
		elsewhere := res.path("no-such-namespace") + "?dryRun=All"
		all = append(all, request{method: http.MethodPost, path: elsewhere, body: object},
			request{method: http.MethodPost, path: res.path("") + "?dryRun=All", body: object})
	}
	return all
}

// targeted are requests on the object of a seed.
func targeted(res resource, s *subject) []request {
	if s == nil || s.upstream == nil || s.ours == nil {
		return nil
	}
	path := s.objectPath()
	dry := path + "?dryRun=All"
	all := []request{
		{method: http.MethodPost, path: s.path() + "?dryRun=All", body: s.Object},
		{method: http.MethodGet, path: path + "?resourceVersion=99999999"},
		{method: http.MethodGet, path: path, accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
		{method: http.MethodGet, path: path, accept: "application/json;as=Table;v=v1beta1;g=meta.k8s.io"},
		{method: http.MethodGet, path: s.path() + "?fieldSelector=metadata.name%3D" + url.QueryEscape(s.ObjectName()), accept: tableType},
	}
	if res.can("watch") {
		all = append(all,
			request{method: http.MethodGet, path: s.path() + "?watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3D" + url.QueryEscape(s.ObjectName())},
			request{method: http.MethodGet, accept: tableType, path: s.path() + "?watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3D" + url.QueryEscape(s.ObjectName())},
			request{method: http.MethodGet, path: res.prefix() + "/watch" + strings.TrimPrefix(s.path(), res.prefix()) + "?timeoutSeconds=1&resourceVersion=0&labelSelector=none%3Dsuch"},
		)
	}
	if res.can("update") {
		for _, changes := range []map[string]any{
			{"resourceVersion": ""}, {"resourceVersion": "1"}, {"resourceVersion": "x"}, {"uid": "11111111-1111-1111-1111-111111111111"}, {"name": "other"}, {"namespace": "other"},
			{"uid": "", "resourceVersion": ""}, {"creationTimestamp": "2020-01-01T00:00:00Z"}, {"deletionTimestamp": "2020-01-01T00:00:00Z"}, {"managedFields": []any{map[string]any{}}}, {"managedFields": []any{}},
			{"generation": 77}, {"selfLink": "/x"},
		} {
			all = append(all, request{method: http.MethodPut, path: dry, body: withMetadata(s.upstream, changes), ours: withMetadata(s.ours, changes), known: compare.Strings(changes)})
		}
		all = append(all, request{method: http.MethodPut, path: s.path() + "/other-name?dryRun=All", body: withMetadata(s.upstream, map[string]any{"name": "other-name", "uid": "", "resourceVersion": ""}), known: compare.Strings(s.Object)},
			request{method: http.MethodPut, path: s.path() + "/other-name?dryRun=All", body: withMetadata(s.upstream, map[string]any{"name": "other-name", "uid": ""}), known: compare.Strings(s.Object)})
	}
	if res.can("delete") {
		for _, options := range []map[string]any{
			{"preconditions": map[string]any{"uid": "11111111-1111-1111-1111-111111111111"}}, {"preconditions": map[string]any{"resourceVersion": "1"}}, {"propagationPolicy": "Bad"}, {"propagationPolicy": "Foreground"},
			{"propagationPolicy": "Orphan"}, {"propagationPolicy": "Background"}, {"orphanDependents": true, "propagationPolicy": "Orphan"}, {"orphanDependents": true}, {"gracePeriodSeconds": -1}, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 5},
			{"dryRun": []any{"Bad"}}, {"dryRun": []any{"All", "All"}}, {"unknownField": 1}, {"ignoreStoreReadErrorWithClusterBreakingPotential": true},
		} {
			options["kind"], options["apiVersion"] = "DeleteOptions", "v1"
			if options["dryRun"] == nil {
				options["dryRun"] = []any{"All"} // with a body, the parameters of the request count for nothing
			}
			all = append(all, request{method: http.MethodDelete, path: dry, body: options})
		}
		all = append(all, request{method: http.MethodDelete, path: dry + "&propagationPolicy=Foreground"}, request{method: http.MethodDelete, path: dry + "&gracePeriodSeconds=x"},
			request{method: http.MethodDelete, path: dry, accept: tableType}, request{method: http.MethodDelete, path: s.path() + "?dryRun=All"})
	}
	if res.can("patch") {
		patch := func(kind string, body any) request {
			return request{method: http.MethodPatch, path: dry, contentType: "application/" + kind, body: body, known: compare.Strings(s.Object)}
		}
		all = append(all, patch("merge-patch+json", "{"), patch("merge-patch+json", "[]"), patch("merge-patch+json", map[string]any{}), patch("merge-patch+json", map[string]any{"kind": "Other"}),
			patch("merge-patch+json", map[string]any{"apiVersion": "other/v1"}), patch("merge-patch+json", map[string]any{"metadata": map[string]any{"name": "other"}}),
			patch("merge-patch+json", map[string]any{"metadata": map[string]any{"resourceVersion": "1"}}), patch("merge-patch+json", map[string]any{"metadata": map[string]any{"uid": "x"}}),
			patch("merge-patch+json", map[string]any{"unknown": 1}), patch("strategic-merge-patch+json", map[string]any{"$patch": "replace"}), patch("strategic-merge-patch+json", map[string]any{"$patch": "bad"}),
			patch("strategic-merge-patch+json", map[string]any{"metadata": map[string]any{"$retainKeys": []any{"name"}}}), patch("json-patch+json", []any{map[string]any{"op": "test", "path": "/kind", "value": "Other"}}),
			patch("json-patch+json", []any{map[string]any{"op": "remove", "path": "/nowhere"}}), patch("json-patch+json", []any{map[string]any{"op": "bad", "path": "/metadata"}}), patch("json-patch+json", "{}"),
			patch("json-patch+json", []any{map[string]any{"op": "replace", "path": "/metadata/name", "value": "other"}}),
			patch("apply-patch+yaml", s.Object), patch("apply-patch+yaml", map[string]any{}), patch("apply-patch+yaml", "a: ["))
		apply := patch("apply-patch+yaml", s.Object)
		apply.path += "&fieldManager=other"
		all = append(all, apply)
		apply.body = withMetadata(s.Object, map[string]any{"labels": map[string]any{"applied": "yes"}, "managedFields": []any{map[string]any{"manager": "x"}}})
		all = append(all, apply)
		apply.body = withMetadata(s.Object, map[string]any{"labels": map[string]any{"applied": "yes"}, "finalizers": []any{"example.com/a", "example.com/a"}})
		all = append(all, apply)
		apply.path += "&force=true"
		all = append(all, apply)
		apply.path = s.path() + "/applied-new?dryRun=All&fieldManager=other"
		apply.body = withMetadata(s.Object, map[string]any{"name": "applied-new"})
		all = append(all, apply)
	}
	return all
}

func withMetadata(object, changes map[string]any) map[string]any {
	o := maps.Clone(object)
	m, _ := o["metadata"].(map[string]any)
	m = maps.Clone(m)
	maps.Copy(m, changes)
	o["metadata"] = m
	return o
}

// deletes removes every seed for real, the last first.
func (r *runner) deletes(ctx context.Context) error {
	for _, s := range slices.Backward(r.subjects) {
		if s.upstream == nil || s.ours == nil || !s.resource.can("delete") {
			continue
		}
		if _, _, err := r.check(ctx, s.resource.label(), "", request{method: http.MethodDelete, path: s.objectPath()}); err != nil {
			return err
		}
		if slices.Contains(settled, s.resource.name) {
			continue // the server itself removes it, in steps
		}
		if _, _, err := r.check(ctx, s.resource.label(), "", request{method: http.MethodGet, path: s.objectPath()}); err != nil {
			return err
		}
	}
	return nil
}
