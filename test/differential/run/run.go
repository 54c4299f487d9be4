// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package run asks two API servers the same things and reports where their answers differ. A file per kind of question.
// Touch it to ask something else.
package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"minik8s.io/minik8s/test/differential/compare"
	"minik8s.io/minik8s/test/differential/corpus"
	"minik8s.io/minik8s/test/differential/report"
	"minik8s.io/minik8s/test/differential/schema"
	"minik8s.io/minik8s/test/differential/servers"
)

// Config of a run.
type Config struct {
	Upstream, Ours *servers.Server
	// PerSeed bounds the mutations of one seed, for creating and for updating each; 0 is no bound.
	PerSeed int
	// Seed chooses which.
	Seed string
	// Only are the kinds that are looked at, such as ^pods; nil: all, and everything that belongs to no kind.
	Only *regexp.Regexp
	// Workers is how many requests are under way.
	Workers int
	// Log tells how far the run is.
	Log func(format string, args ...any)
}

type runner struct {
	Config
	pair
	report    *report.Report
	types     *schema.Set
	resources []resource
	subjects  []*subject
}

// Run asks everything, and returns what was found, even if it could not come to the end.
func Run(ctx context.Context, c Config) (*report.Report, error) {
	r := &runner{Config: c, pair: pair{upstream: c.Upstream, ours: c.Ours}, report: report.New(), types: schema.NewSet()}
	seeds, err := corpus.Seeds()
	if err != nil {
		return nil, err
	}
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"documents", r.documents},
		{"what is there after the start", r.start},
		{"custom resources", func(ctx context.Context) error { return r.customResources(ctx, seeds) }},
		{"kinds", func(ctx context.Context) error { return r.prepare(ctx, seeds) }},
		{"creating", r.creates},
		{"real objects", r.objects},
		{"updating", r.updates},
		{"subresources", r.subresources},
		{"reading", r.reads},
		{"scenarios", r.scenarios},
		{"what is there now", r.end},
		{"deleting", r.deletes},
		{"logs", r.logs},
	} {
		began := time.Now()
		if err := phase.run(ctx); err != nil {
			return r.report, fmt.Errorf("%s: %w", phase.name, err)
		}
		all, changed := r.report.Requests()
		c.Log("%s: %.0f s, %d requests so far, %d of them with a changed object", phase.name, time.Since(began).Seconds(), all, changed)
	}
	return r.report, nil
}

// logs looks for panics: the machinery turns them into answers that may look harmless.
func (r *runner) logs(context.Context) error {
	upstream, uerr := r.Upstream.Panics()
	ours, oerr := r.Ours.Panics()
	if len(ours) > len(upstream) { // the machinery that both have has panics too
		r.report.Add(report.Request{Kind: "log"}, []compare.Difference{{
			Check: "panic", Upstream: fmt.Sprintf("%d panics", len(upstream)), Ours: fmt.Sprintf("%d panics, the last: %s", len(ours), ours[len(ours)-1]),
		}})
	}
	return errors.Join(uerr, oerr, r.alive())
}

// check asks and reports; change names what was done to the body.
func (r *runner) check(ctx context.Context, kind, change string, q request) (upstream, ours compare.Answer, err error) {
	upstream, ours, err = r.ask(ctx, q)
	if err != nil {
		return upstream, ours, err
	}
	known := q.known
	if known == nil {
		known = compare.Strings(q.body)
	}
	r.report.Add(report.Request{
		Kind: kind, Method: q.method, Path: q.path, Accept: q.accept, ContentType: q.contentType, Change: change, Body: q.body,
	}, compare.Answers(upstream, ours, known))
	return upstream, ours, nil
}

// resource is a resource, or a subresource, that upstream serves.
type resource struct {
	group, version, name, kind string
	namespaced                 bool
	verbs                      []string
	subresources               []string
	// served tells whether ours serves it too.
	served bool
}

func (r resource) prefix() string {
	if r.group == "" {
		return "/api/" + r.version
	}
	return "/apis/" + r.group + "/" + r.version
}

// label is the name in reports.
func (r resource) label() string {
	return strings.TrimSuffix(r.name+"."+r.group, ".")
}

func (r resource) can(verb string) bool { return slices.Contains(r.verbs, verb) }

// path of all objects, in the namespace if it has one.
func (r resource) path(namespace string) string {
	if r.namespaced && namespace != "" {
		return r.prefix() + "/namespaces/" + namespace + "/" + r.name
	}
	return r.prefix() + "/" + r.name
}

// subject is a seed together with where it lives.
type subject struct {
	corpus.Seed
	resource  resource
	namespace string
	typ       *schema.Type
	// upstream and ours are the objects as the servers hold them; nil if it could not be made.
	upstream, ours map[string]any
}

func (s *subject) path() string { return s.resource.path(s.namespace) }

func (s *subject) objectPath(more ...string) string {
	return strings.Join(append([]string{s.path(), url.PathEscape(s.ObjectName())}, more...), "/")
}

// discover reads which resources each server has.
func (r *runner) discover(ctx context.Context) error {
	up, ours, err := r.resourcesOf(ctx)
	if err != nil {
		return err
	}
	r.resources = nil
	for _, res := range up {
		res.served = slices.ContainsFunc(ours, func(o resource) bool {
			return o.group == res.group && o.version == res.version && o.name == res.name
		})
		r.resources = append(r.resources, res)
	}
	return nil
}

func (r *runner) resourcesOf(ctx context.Context) (up, ours []resource, err error) {
	paths := []string{"/api/v1"}
	groups, _, err := r.ask(ctx, request{method: http.MethodGet, path: "/apis"})
	if err != nil {
		return nil, nil, err
	}
	for _, g := range list(groups.Body, "groups") {
		for _, v := range list(g, "versions") {
			paths = append(paths, "/apis/"+text(v, "groupVersion"))
		}
	}
	for _, p := range paths {
		a, b, err := r.ask(ctx, request{method: http.MethodGet, path: p})
		if err != nil {
			return nil, nil, err
		}
		up, ours = append(up, parseResources(a.Body)...), append(ours, parseResources(b.Body)...)
	}
	return up, ours, nil
}

func parseResources(body any) []resource {
	var all []resource
	group, version, ok := strings.Cut(text(body, "groupVersion"), "/")
	if !ok {
		group, version = "", group
	}
	for _, item := range list(body, "resources") {
		name, sub, isSub := strings.Cut(text(item, "name"), "/")
		if isSub {
			for i := range all {
				if all[i].name == name {
					all[i].subresources = append(all[i].subresources, sub)
				}
			}
			continue
		}
		res := resource{group: group, version: version, name: name, kind: text(item, "kind"), namespaced: text(item, "namespaced") == "true"}
		for _, v := range list(item, "verbs") {
			res.verbs = append(res.verbs, fmt.Sprint(v))
		}
		all = append(all, res)
	}
	return all
}

// prepare finds the resource of every seed, and makes its namespace.
func (r *runner) prepare(ctx context.Context, seeds []corpus.Seed) error {
	if err := r.discover(ctx); err != nil {
		return err
	}
	seeded := map[string]bool{}
	for _, seed := range seeds {
		gvk := seed.Kind()
		i := slices.IndexFunc(r.resources, func(res resource) bool {
			return res.group == gvk.Group && res.version == gvk.Version && res.kind == gvk.Kind && res.can("create")
		})
		if i < 0 {
			return fmt.Errorf("upstream does not serve the kind of seed %s", seed.Name)
		}
		res := r.resources[i]
		seeded[res.prefix()+res.name] = true
		if !r.wanted(res.label()) || !res.served {
			continue
		}
		s := &subject{Seed: seed, resource: res, typ: r.types.Kind(schema.Kind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind})}
		if res.namespaced {
			s.namespace = namespaceOf(seed)
		}
		r.subjects = append(r.subjects, s)
	}
	var missing []error
	for _, res := range r.resources {
		if res.can("create") && !seeded[res.prefix()+res.name] {
			missing = append(missing, fmt.Errorf("no seed for %s/%s", res.prefix(), res.name))
		}
		if !res.served && r.wanted(res.label()) {
			r.report.Add(report.Request{Kind: res.label(), Method: http.MethodGet, Path: res.path("")},
				[]compare.Difference{{Check: "served", Path: res.version, Upstream: "served", Ours: "not served"}})
		}
	}
	if missing != nil {
		return errors.Join(missing...)
	}
	return r.namespaces(ctx)
}

func (r *runner) wanted(label string) bool { return r.Only == nil || r.Only.MatchString(label) }

func namespaceOf(seed corpus.Seed) string {
	name := strings.NewReplacer(".", "-", ":", "-", "_", "-").Replace("s-" + seed.Name)
	return strings.Trim(name[:min(63, len(name))], "-")
}

// namespaces gives each seed a namespace of its own, so that none sees the quota of another.
func (r *runner) namespaces(ctx context.Context) error {
	return r.each(len(r.subjects), func(i int) error {
		s := r.subjects[i]
		if s.namespace == "" {
			return nil
		}
		return r.namespace(ctx, s.namespace)
	})
}

// namespace makes a namespace with the ServiceAccount that pods need: no controller runs that would.
func (r *runner) namespace(ctx context.Context, name string) error {
	if err := r.must(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces",
		body: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}); err != nil {
		return err
	}
	return r.must(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces/" + name + "/serviceaccounts",
		body: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default"}}})
}

// must asks something that both servers have to accept.
func (r *runner) must(ctx context.Context, q request) error {
	u, o, err := r.ask(ctx, q)
	if err != nil {
		return err
	}
	if u.Code >= 300 || o.Code >= 300 {
		return fmt.Errorf("%s %s: upstream %d %v, ours %d %v", q.method, q.path, u.Code, text(u.Body, "message"), o.Code, text(o.Body, "message"))
	}
	return nil
}

// each runs n jobs, several at a time, and returns the first error.
func (r *runner) each(n int, job func(i int) error) error {
	var wait sync.WaitGroup
	var once sync.Once
	var first error
	next := make(chan int)
	stop := make(chan struct{})
	for range r.Workers {
		wait.Go(func() {
			for i := range next {
				if err := job(i); err != nil {
					once.Do(func() { first = err; close(stop) })
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-stop:
			break feed
		}
	}
	close(next)
	wait.Wait()
	return first
}

func list(v any, path ...string) []any {
	l, _ := get(v, path...).([]any)
	return l
}

func get(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func text(v any, path ...string) string {
	if v = get(v, path...); v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
