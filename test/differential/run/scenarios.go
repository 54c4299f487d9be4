// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"minik8s.io/minik8s/test/differential/compare"
	"minik8s.io/minik8s/test/differential/corpus"
	"minik8s.io/minik8s/test/differential/report"
)

// scenarios plays each row of requests: what depends on what was there before, and on who asks.
func (r *runner) scenarios(ctx context.Context) error {
	if r.Only != nil && !r.Only.MatchString("scenarios") {
		return nil
	}
	all, err := corpus.Scenarios()
	if err != nil {
		return err
	}
	return r.each(len(all), func(i int) error {
		s := all[i]
		if err := r.namespace(ctx, s.Name); err != nil {
			return err
		}
		for n, step := range s.Steps {
			q := request{method: step.Method, path: step.Path, as: step.As, groups: step.Groups, accept: step.Accept, contentType: step.ContentType, body: step.Body}
			if err := r.step(ctx, fmt.Sprintf("scenarios/%s", s.Name), fmt.Sprintf("step %d", n+1), q, step.Await); err != nil {
				return err
			}
		}
		return nil
	})
}

// step asks once, or until each server has given the awaited answer or had time enough to.
func (r *runner) step(ctx context.Context, kind, name string, q request, await int) error {
	u, o, err := r.until(ctx, same(q), func(u, o compare.Answer) bool { return await == 0 || u.Code == await && o.Code == await })
	if err != nil {
		return err
	}
	if await != 0 && u.Code != await {
		return fmt.Errorf("%s, %s: upstream answers %d, awaited %d: %s", kind, name, u.Code, await, text(u.Body, "message"))
	}
	differences := compare.Answers(u, o, compare.Strings(q.body))
	for i := range differences {
		differences[i].Path = cmp.Or(differences[i].Path, name)
	}
	r.report.Add(report.Request{Kind: kind, Method: q.method, Path: q.path, Change: name, Body: q.body}, differences)
	return nil
}

// same is a request that does not depend on what was answered before.
func same(q request) func() (request, error) { return func() (request, error) { return q, nil } }

// until asks until the answers are what was waited for, for at most ten seconds.
func (r *runner) until(ctx context.Context, next func() (request, error), done func(u, o compare.Answer) bool) (u, o compare.Answer, err error) {
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		q, err := next()
		if err != nil {
			return u, o, err
		}
		if u, o, err = r.ask(ctx, q); err != nil || done(u, o) {
			return u, o, err
		}
		select {
		case <-limit.C:
			return u, o, nil
		case <-tick.C:
		}
	}
}

// customResources makes the definitions among the seeds, so that their kinds are served when the others come.
func (r *runner) customResources(ctx context.Context, seeds []corpus.Seed) error {
	for _, s := range seeds {
		if !hasInstances(s) {
			continue
		}
		if _, _, err := r.check(ctx, "customresourcedefinitions.apiextensions.k8s.io", "", request{method: http.MethodPost, path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body: s.Object}); err != nil {
			return err
		}
		group, plural := text(s.Object, "spec", "group"), text(s.Object, "spec", "names", "plural")
		for _, version := range list(s.Object, "spec", "versions") {
			path := "/apis/" + group + "/" + text(version, "name")
			served := func(a compare.Answer) bool {
				return slices.ContainsFunc(list(a.Body, "resources"), func(x any) bool { return text(x, "name") == plural })
			}
			if _, _, err := r.until(ctx, same(request{method: http.MethodGet, path: path}), func(u, o compare.Answer) bool { return served(u) && served(o) }); err != nil {
				return err
			}
			if err := r.customTypes(ctx, "/openapi/v3"+path); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasInstances tells whether a seed defines a kind of other seeds.
func hasInstances(s corpus.Seed) bool {
	return s.Kind().Kind == "CustomResourceDefinition" && text(s.Object, "metadata", "labels", "instances") != ""
}

// customTypes takes in the document of a custom resource, which is published a moment after it is served.
func (r *runner) customTypes(ctx context.Context, path string) error {
	q := request{method: http.MethodGet, path: path}
	u, o, err := r.until(ctx, same(q), func(u, o compare.Answer) bool { return u.Code == http.StatusOK && o.Code == http.StatusOK })
	if err != nil {
		return err
	}
	r.report.Add(report.Request{Kind: "openapi/v3", Method: q.method, Path: q.path}, compare.Documents(u, o))
	return r.addTypes(u)
}
