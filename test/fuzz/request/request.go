// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package request makes malformed requests to an API server: the same number makes the same request. Touch it when there is
// another way to be malformed.
package request

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"minik8s.io/minik8s/test/fuzz/surface"
)

// Request is one request.
type Request struct {
	// Tactic says in a word or two what is wrong with it.
	Tactic string
	Method string
	// Target is the path with the query, as it is sent.
	Target string
	Header http.Header
	Body   []byte
	// Streams tells that the answer may not end by itself.
	Streams bool
	// Raw is sent in place of all that, on a connection of its own: what is not quite HTTP. Abort ends it there.
	Raw   []byte
	Abort bool
	// Proxied tells that somebody else may be asked, who is not there.
	Proxied bool
}

// String is the request in a form that can be repeated by hand.
func (r Request) String() string {
	body := r.Body
	if r.Raw != nil {
		return fmt.Sprintf("%s: %.1200q", r.Tactic, r.Raw)
	}
	if len(body) > 600 {
		body = body[:600]
	}
	var header strings.Builder
	for k, v := range r.Header {
		fmt.Fprintf(&header, " %s=%.200q", k, v)
	}
	return fmt.Sprintf("%s %.600q [%s ]\n    body (%d bytes): %q", r.Method, r.Target, header.String(), len(r.Body), body)
}

// newRequest is one that nothing is wrong with.
func newRequest(method, target string) Request {
	return Request{Method: method, Target: target, Tactic: "as documented", Header: http.Header{"Accept": {"application/json"}}}
}

// Namespaces are those that administrators write to. They exist before.
var Namespaces = []string{"fuzz-0", "fuzz-1"}

// Scope is what requests are about.
type Scope struct {
	// Namespaces exist before; objects of these Names may.
	Namespaces, Names []string
	// Narrow requests are sent by users with few rights: they may try whatever they like, for others' objects too.
	Narrow bool
}

// Wide is what administrators may ask for without an end to the attack. Objects of the cluster's own are among the names, save
// namespaces, which would not come back.
var Wide = Scope{Namespaces: Namespaces, Names: []string{"a", "b", "c", "small", "rich", "default", "kubernetes", "missing"}}

// Narrow is what users with few rights ask for.
var Narrow = Scope{
	Narrow:     true,
	Namespaces: append([]string{"fuzz-0", "fuzz-0", "fuzz-0", "fuzz-1", "fuzz-1", "kept", "kube-system", "default", "kube-node-lease", "identities"}, Namespaces...),
	Names: []string{"a", "b", "c", "small", "default", "kubernetes", "missing", "secret", "pod", "owner", "map", "deployment", "strong", "asked", "thing", "node-x", "node-y", "cluster-admin", "view", "landlord", "worker", "kept", "system:node",
		"widgets.example.org", "v1.apps"},
}

// Maker makes requests.
type Maker struct {
	scope      Scope
	operations []surface.Operation
	namespaced []surface.Operation
	seeds      map[schema.GroupVersionKind][]string
	all        []string
	seed       uint64
}

// NewMaker makes requests of the operations with objects made from seeds. Another seed makes other requests.
func NewMaker(scope Scope, operations []surface.Operation, seeds []map[string]any, seed uint64) (*Maker, error) {
	m := &Maker{scope: scope, seeds: map[schema.GroupVersionKind][]string{}, seed: seed}
	for _, o := range operations {
		if avoided(o.Path) {
			continue
		}
		m.operations = append(m.operations, o)
		if strings.Contains(o.Path, "{namespace}") {
			m.namespaced = append(m.namespaced, o)
		}
	}
	for _, p := range plainPaths {
		m.operations = append(m.operations, surface.Operation{Method: http.MethodGet, Path: p})
	}
	for _, o := range seeds {
		tame(o)
		data, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		apiVersion, _ := o["apiVersion"].(string)
		kind, _ := o["kind"].(string)
		k := schema.FromAPIVersionAndKind(apiVersion, kind)
		m.seeds[k] = append(m.seeds[k], string(data))
		m.all = append(m.all, string(data))
	}
	if len(m.namespaced) == 0 || len(m.all) == 0 {
		return nil, fmt.Errorf("%d operations and %d seeds: there is nothing to make requests from", len(operations), len(seeds))
	}
	return m, nil
}

// plainPaths are served besides what the documents tell.
var plainPaths = []string{
	"/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/nothing/v1", "/healthz", "/livez", "/readyz", "/readyz/ping",
	"/metrics", "/version", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/.well-known/openid-configuration", "/openid/v1/jwks",
}

// avoided are paths that end the server's work or measure it.
func avoided(path string) bool {
	return strings.HasPrefix(path, "/debug") || strings.HasPrefix(path, "/logs")
}

// dry are the resources that decide about other requests, or about where these go: what administrators make of them must not
// stay.
var dry = []string{
	"/admissionregistration.k8s.io/", "/apiservices", "/flowcontrol.apiserver.k8s.io/", "/rbac.authorization.k8s.io/", "/resourcequotas", "/limitranges", "/servicecidrs",
	"/ipaddresses", "/fuzz.example.org/v1/things/thing",
}

// Make returns request n.
func (m *Maker) Make(n uint64) Request {
	r := rand.New(rand.NewPCG(m.seed, n))
	if m.scope.Narrow && chance(r, 4) {
		return m.escalate(r)
	}
	o := pick(r, m.operations)
	if m.scope.Narrow && !strings.Contains(o.Path, "{namespace}") && !chance(r, 3) {
		o = pick(r, m.namespaced) // where some may something
	}
	name := m.objectName(r, o)
	q := newRequest(o.Method, m.fillPath(r, o, name))
	q.Streams = strings.HasPrefix(o.Action, "watch") || o.Action == "connect"
	q.Proxied = o.Action == "connect"
	query := url.Values{}
	m.content(r, o, name, &q)
	if q.Header.Get("Content-Type") == "application/apply-patch+yaml" && !chance(r, 8) {
		query.Set("fieldManager", "fuzz")
	}
	if chance(r, 3) {
		parameters(r, query)
		q.Tactic += ", parameters"
	}
	if combinations := combined[o.Action]; combinations != nil && chance(r, 3) {
		maps.Copy(query, pick(r, combinations))
		q.Tactic += ", combined"
	}
	if chance(r, 8) || o.Action == "connect" && chance(r, 2) {
		headers(r, &q)
		q.Tactic += ", headers"
	}
	if chance(r, 20) {
		q.Method = pick(r, methods)
		q.Tactic += ", method"
	}
	if !m.scope.Narrow && mustBeDry(q) {
		query["dryRun"] = []string{"All"}
		if q.Method == http.MethodDelete {
			q.Body = nil // options in a body would count instead
		}
	}
	m.target(r, query, &q)
	if chance(r, 25) {
		raw(r, &q)
	}
	return q
}

// content gives a request that has one a body.
func (m *Maker) content(r *rand.Rand, o surface.Operation, name string, q *Request) {
	switch o.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		q.Header.Set("Content-Type", "application/json")
		if o.Method == http.MethodPatch {
			q.Header.Set("Content-Type", pick(r, patchTypes))
		}
		m.body(r, o, name, q)
	case http.MethodDelete:
		if chance(r, 2) {
			return
		}
		q.Header.Set("Content-Type", "application/json")
		options := pick(r, deleteOptions)
		if q.Tactic = "delete options"; chance(r, 4) {
			encoded(r, q, []byte(options))
			return
		}
		q.Body = mutateObject(r, options, 1+r.IntN(2))
	}
}

// target puts path and query together, as a rule.
func (m *Maker) target(r *rand.Rand, query url.Values, q *Request) {
	path, raw := q.Target, query.Encode()
	if query.Has("watch") || strings.Contains(path, "/watch/") || query.Has("follow") {
		q.Streams = true
	}
	if chance(r, 30) {
		path, raw = spoilPath(r, path), spoilQuery(r, raw)
		q.Tactic += ", target"
		q.Streams = true
	}
	q.Target = path
	q.Proxied = q.Proxied || strings.Contains(path, "/proxy") || strings.HasSuffix(path, "/log")
	if raw != "" {
		q.Target += "?" + raw
	}
}

// mustBeDry tells whether a request of an administrator would change how others are answered, or who there is.
func mustBeDry(q Request) bool {
	if slices.ContainsFunc(dry, func(s string) bool { return strings.Contains(q.Target, s) }) {
		return true
	}
	last := q.Target[strings.LastIndexByte(q.Target, '/')+1:]
	return q.Method == http.MethodDelete && !strings.Contains(q.Target, "/namespaces/fuzz-") && !slices.Contains(Wide.Names, last)
}

func (m *Maker) objectName(r *rand.Rand, o surface.Operation) string {
	switch {
	case strings.Contains(o.Path, "/proxy"):
		return "nobody" // no request leaves this machine
	case m.scope.Narrow:
	case strings.HasPrefix(o.Path, "/api/v1/namespaces/{name}"), o.Action == "post":
		return pick(r, m.scope.Names[:3])
	}
	return pick(r, m.scope.Names)
}

// fillPath puts values in place of variables.
func (m *Maker) fillPath(r *rand.Rand, o surface.Operation, name string) string {
	path := strings.ReplaceAll(o.Path, "{namespace}", pick(r, m.scope.Namespaces))
	if chance(r, 25) {
		name = url.PathEscape(pick(r, strange))
	}
	path = strings.ReplaceAll(path, "{name}", name)
	path = strings.ReplaceAll(path, "{path}", pick(r, []string{"x", "%2e%2e", "a//b", "%00"}))
	for {
		begin := strings.IndexByte(path, '{')
		end := strings.IndexByte(path, '}')
		if begin < 0 || end < begin {
			return path
		}
		path = path[:begin] + "x" + path[end+1:]
	}
}

// body gives the request an object, of its kind as a rule, in which something is wrong.
func (m *Maker) body(r *rand.Rand, o surface.Operation, name string, q *Request) {
	seed := pick(r, m.all)
	if own := m.seeds[o.Kind]; len(own) > 0 && !chance(r, 40) {
		seed = pick(r, own)
	} else if s, ok := subresourceBodies[o.Kind.Kind]; ok && !chance(r, 40) {
		seed = s
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(seed), &object); err != nil {
		panic(err) // it was marshalled here
	}
	rename(object, name)
	if chance(r, 3) {
		metadata(r, object)
	}
	clean, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	if q.Method == http.MethodPatch {
		m.patch(r, q, clean)
		return
	}
	switch r.IntN(10) {
	case 0:
		q.Body = clean
	case 1, 2, 3:
		encoded(r, q, clean)
	default:
		q.Tactic = "object"
		q.Body = mutateObject(r, string(clean), 1+r.IntN(3))
	}
}

// rename gives an object the name that the path has, or that it shall have, so that requests meet.
func rename(o map[string]any, name string) {
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		return
	}
	// The names of these follow from what is in them.
	if o["kind"] != "CustomResourceDefinition" && o["kind"] != "APIService" {
		meta["name"] = name
	}
	delete(meta, "namespace")
}

// tame takes out what would make the server talk to others.
func tame(o map[string]any) {
	if status, ok := o["status"].(map[string]any); ok {
		for _, k := range []string{"addresses", "podIP", "podIPs", "hostIP", "hostIPs"} {
			delete(status, k)
		}
	}
	if spec, ok := o["spec"].(map[string]any); ok && o["kind"] == "CustomResourceDefinition" {
		delete(spec, "conversion")
	}
}

func chance(r *rand.Rand, oneIn int) bool { return r.IntN(oneIn) == 0 }

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
