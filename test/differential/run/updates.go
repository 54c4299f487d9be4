// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"minik8s.io/minik8s/test/differential/compare"
	"minik8s.io/minik8s/test/differential/mutate"
	"minik8s.io/minik8s/test/differential/report"
)

// objects makes every seed for real, writes its status, and reads it in all ways.
func (r *runner) objects(ctx context.Context) error {
	var all []error
	for _, s := range r.subjects {
		if !s.resource.can("get") {
			continue // a review: nothing is kept
		}
		if err := r.object(ctx, s); err != nil {
			all = append(all, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	return errors.Join(all...)
}

func (r *runner) object(ctx context.Context, s *subject) error {
	label := s.resource.label()
	if !hasInstances(s.Seed) { // else it is there already
		u, o, err := r.check(ctx, label, "", request{method: http.MethodPost, path: s.path(), body: s.Object})
		if err != nil {
			return err
		}
		if u.Code >= 300 {
			return fmt.Errorf("upstream refuses the seed: %d %s", u.Code, text(u.Body, "message"))
		}
		if o.Code >= 300 {
			return nil
		}
	}
	if err := r.settle(ctx, s); err != nil {
		return err
	}
	if status, ok := s.Object["status"]; ok && slices.Contains(s.resource.subresources, "status") {
		if err := r.writeStatus(ctx, s, status); err != nil {
			return err
		}
	}
	for _, accept := range []string{"", tableType, protobufType, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
		for _, path := range []string{s.objectPath(), s.path() + "?includeObject=None", s.path()} {
			if _, _, err := r.check(ctx, label, "", request{method: http.MethodGet, path: path, accept: accept}); err != nil {
				return err
			}
		}
	}
	for _, sub := range s.resource.subresources {
		if sub != "status" && sub != "scale" && sub != "approval" {
			continue
		}
		if _, _, err := r.check(ctx, label+"/"+sub, "", request{method: http.MethodGet, path: s.objectPath(sub)}); err != nil {
			return err
		}
	}
	return nil
}

// writeStatus writes the status of the seed. Where the servers themselves write to the object too, a conflict is no answer.
func (r *runner) writeStatus(ctx context.Context, s *subject, status any) error {
	q := request{method: http.MethodPut, path: s.objectPath("status"), known: compare.Strings(s.Object)}
	u, o, err := r.until(ctx, func() (request, error) {
		err := r.refresh(ctx, s)
		up, ours := maps.Clone(s.upstream), maps.Clone(s.ours)
		up["status"], ours["status"] = status, status
		q.body, q.ours = up, ours
		return q, err
	}, func(u, o compare.Answer) bool { return u.Code != http.StatusConflict && o.Code != http.StatusConflict })
	if err != nil {
		return err
	}
	if u.Code >= 300 {
		return fmt.Errorf("upstream refuses the status of the seed: %d %s", u.Code, text(u.Body, "message"))
	}
	r.report.Add(report.Request{Kind: s.resource.label() + "/status", Method: q.method, Path: q.path, Body: q.body}, compare.Answers(u, o, q.known))
	return r.refresh(ctx, s)
}

// settled are the kinds whose status the servers write themselves: it is there a moment after the object.
var settled = []string{"customresourcedefinitions", "apiservices", "flowschemas"}

// settle reads the object, when nobody writes to it any more.
func (r *runner) settle(ctx context.Context, s *subject) error {
	if slices.Contains(settled, s.resource.name) {
		get := same(request{method: http.MethodGet, path: s.objectPath()})
		if _, _, err := r.until(ctx, get, func(u, o compare.Answer) bool {
			conditions := list(u.Body, "status", "conditions")
			// The names of a definition have been accepted; that it is served is written next.
			underWay := slices.ContainsFunc(conditions, func(c any) bool { return text(c, "reason") == "Installing" })
			return len(conditions) > 0 && !underWay && len(compare.Answers(u, o, nil)) == 0
		}); err != nil {
			return err
		}
	}
	return r.refresh(ctx, s)
}

// refresh reads the object from both.
func (r *runner) refresh(ctx context.Context, s *subject) error {
	u, o, err := r.check(ctx, s.resource.label(), "", request{method: http.MethodGet, path: s.objectPath()})
	if err != nil {
		return err
	}
	if u.Code < 300 && o.Code < 300 {
		s.upstream, _ = u.Body.(map[string]any)
		s.ours, _ = o.Body.(map[string]any)
	}
	return nil
}

// updates changes what is there, on the main path and on /status, without keeping anything.
func (r *runner) updates(ctx context.Context) error {
	for _, s := range r.subjects {
		if s.upstream == nil || s.ours == nil || !s.resource.can("update") {
			continue
		}
		if err := r.refresh(ctx, s); err != nil {
			return err
		}
		all := r.sample(mutate.All(s.upstream, s.typ, r.types, nil), "update"+s.Name)
		if err := r.each(len(all), func(i int) error { return r.update(ctx, s, "", all[i], i) }); err != nil {
			return err
		}
		if slices.Contains(s.resource.subresources, "status") {
			if err := r.statuses(ctx, s, all); err != nil {
				return err
			}
		}
		if err := r.alive(); err != nil {
			return fmt.Errorf("after updating %s: %w", s.Name, err)
		}
	}
	return nil
}

// statuses changes the status, and some of what may not be changed by that way.
func (r *runner) statuses(ctx context.Context, s *subject, all []mutate.Mutation) error {
	others := mutate.Sample(slices.DeleteFunc(slices.Clone(all), func(m mutate.Mutation) bool { return m.Path[0] == "status" }), 50, r.Seed+s.Name)
	changes := append(r.sample(mutate.All(s.upstream, s.typ, r.types, mutate.Path{"status"}), "status"+s.Name), others...)
	return r.each(len(changes), func(i int) error { return r.update(ctx, s, "status", changes[i], i) })
}

// update sends one mutation as a PUT, and once more as one of the four patches, in turn.
func (r *runner) update(ctx context.Context, s *subject, sub string, m mutate.Mutation, turn int) error {
	changed := m.Apply(s.upstream)
	ours := translate(changed, s.upstream, s.ours)
	path, label := s.objectPath(), s.resource.label()
	if sub != "" {
		path, label = s.objectPath(sub), label+"/"+sub
	}
	path += "?dryRun=All"
	known := sentBy(m, s)
	u, o, err := r.check(ctx, label, m.String(), request{method: http.MethodPut, path: path, body: changed, ours: ours, known: known})
	if err != nil {
		return err
	}
	if sub == "status" && u.Code < 300 && o.Code < 300 && turn%4 == 0 {
		q := request{method: http.MethodPut, path: path, body: changed, ours: ours, known: known, accept: tableType}
		if _, _, err := r.check(ctx, label, m.String(), q); err != nil {
			return err
		}
	}
	if !s.resource.can("patch") {
		return nil
	}
	q := request{method: http.MethodPatch, path: path, known: known}
	switch turn % 4 {
	case 0:
		q.contentType, q.body = "application/merge-patch+json", mergePatch(m)
	case 1:
		q.contentType, q.body = "application/strategic-merge-patch+json", mergePatch(m)
	case 2:
		q.contentType, q.body = "application/json-patch+json", jsonPatch(s.upstream, m)
	case 3:
		q.contentType, q.path = "application/apply-patch+yaml", path+"&fieldManager=other&force=true"
		q.body = m.Apply(s.Object)
	}
	if q.body == nil {
		return nil
	}
	_, _, err = r.check(ctx, label, m.String(), q)
	return err
}

// sentBy returns what the mutation and the seed brought in, and not the servers themselves.
func sentBy(m mutate.Mutation, s *subject) map[string]bool {
	seed, live := compare.Strings(s.Object), compare.Strings(s.upstream)
	known := compare.Strings(m.Value)
	maps.DeleteFunc(known, func(text string, _ bool) bool { return live[text] && !seed[text] })
	maps.Copy(known, seed)
	return known
}

// mergePatch is the mutation as a merge patch; nothing if it is within a list.
func mergePatch(m mutate.Mutation) any {
	patch := m.Value
	for _, step := range slices.Backward(m.Path) {
		name, ok := step.(string)
		if !ok {
			return nil
		}
		patch = map[string]any{name: patch}
	}
	return patch
}

// jsonPatch is the mutation as a JSON patch.
func jsonPatch(object map[string]any, m mutate.Mutation) any {
	if m.Remove {
		return []any{map[string]any{"op": "remove", "path": m.Path.Pointer()}}
	}
	op := "add"
	if _, there := mutate.Get(object, m.Path); there {
		op = "replace"
	}
	return []any{map[string]any{"op": op, "path": m.Path.Pointer(), "value": m.Value}}
}

// translate replaces in what was made of upstream's object what the servers chose themselves, such as uid and
// resourceVersion, by what ours chose.
func translate(changed, upstream, ours any) any {
	switch c := changed.(type) {
	case map[string]any:
		u, _ := upstream.(map[string]any)
		o, _ := ours.(map[string]any)
		if u == nil || o == nil {
			return changed
		}
		m := make(map[string]any, len(c))
		for k, v := range c {
			m[k] = translate(v, u[k], o[k])
		}
		return m
	case []any:
		u, _ := upstream.([]any)
		o, _ := ours.([]any)
		l := slices.Clone(c)
		for i := range l {
			if i < len(u) && i < len(o) {
				l[i] = translate(l[i], u[i], o[i])
			}
		}
		return l
	}
	if upstream != nil && ours != nil && equal(changed, upstream) {
		return ours
	}
	return changed
}

func equal(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}
