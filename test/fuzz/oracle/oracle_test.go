// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/request"
	"minik8s.io/minik8s/test/fuzz/surface"
)

// server answers reviews and lists as it is told.
type server struct {
	allowed func(authorizationv1.SubjectAccessReviewSpec) bool
	configs []string
	broken  bool
}

func (s *server) ask(_ context.Context, _, path, body string) ([]byte, error) {
	if s.broken {
		return nil, fmt.Errorf("%s: the server does not answer", path)
	}
	if strings.HasSuffix(path, "/subjectaccessreviews") {
		var r authorizationv1.SubjectAccessReview
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			return nil, err
		}
		r.Status.Allowed = s.allowed(r.Spec)
		return json.Marshal(r)
	}
	var items []string
	for i, name := range s.configs {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"kept","uid":"u","resourceVersion":"%d"}}`, name, i))
	}
	return []byte(`{"items":[` + strings.Join(items, ",") + `]}`), nil
}

// viewer may read ConfigMaps and change that called own.
func viewer(spec authorizationv1.SubjectAccessReviewSpec) bool {
	a := spec.ResourceAttributes
	return spec.User == "viewer" && a != nil && a.Resource == "configmaps" && (a.Verb == "get" || a.Verb == "list" || a.Name == "own")
}

var someone = &identity.Identity{Subject: identity.Authenticated("viewer"), TLS: &tls.Config{Certificates: make([]tls.Certificate, 1), MinVersion: tls.VersionTLS12}}

func oracleOf(s *server) *Oracle {
	list := surface.Operation{Method: "GET", Path: "/api/v1/configmaps", Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Action: "list"}
	return &Oracle{Ask: s.ask, Operations: []surface.Operation{list}, Users: []*identity.Identity{someone}}
}

func TestOracle_Answers(t *testing.T) {
	t.Parallel()
	const kept = "/api/v1/namespaces/kept/configmaps/"
	for _, test := range []struct {
		name, method, target string
		header               http.Header
		raw                  bool
		code                 int
		body, want           string
	}{
		{"allowed", "GET", kept + "map", nil, false, 200, "", ""},
		{"refused", "DELETE", kept + "map", nil, false, 403, "", ""},
		{"forbidden", "DELETE", kept + "map", nil, false, 200, "", "forbidden, and yet: 200 to viewer"},
		{"forbidden watch", "GET", kept + "?watch=true", nil, false, 200, "", "who may not watch configmaps"},
		{"upgraded", "POST", kept + "map/exec", nil, false, 101, "", "forbidden, and yet: 101"},
		{"creating by an update", "PUT", kept + "own", nil, false, 201, "", ""},
		{"creating by an update what may only be updated", "PUT", "/api/v1/namespaces/kept/configmaps/own/scale", nil, false, 500, "", ""},
		{"as another", "GET", kept + "map", http.Header{"Impersonate-User": {"admin"}}, false, 200, "", "as somebody else"},
		{"a secret", "GET", kept + "map", nil, false, 200, "x" + Canary, "a secret is told"},
		{"a secret in a refusal", "GET", kept + "map", nil, false, 403, string(canaries[1]), "a secret is told"},
		{"a secret to what is no HTTP", "GET", kept + "map", nil, true, 200, Canary, "a secret is told"},
		{"no answer", "DELETE", kept + "map", nil, false, 0, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := oracleOf(&server{allowed: viewer})
			if err := o.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			q := request.Request{Method: test.method, Target: test.target, Header: test.header}
			if test.raw {
				q.Raw = []byte("x")
			}
			a, err := o.Before(t.Context(), someone, q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := o.After(t.Context(), a, test.code, []byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

func TestOracle_Effects(t *testing.T) {
	t.Parallel()
	s := &server{allowed: viewer, configs: []string{"own", "map"}}
	o := oracleOf(s)
	round := func(method, target string, code int, effect func()) []string {
		t.Helper()
		if err := o.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, err := o.Before(t.Context(), someone, request.Request{Method: method, Target: target})
		if err != nil {
			t.Fatal(err)
		}
		effect()
		if what, err := o.After(t.Context(), a, code, nil); err != nil || what != "" {
			t.Fatalf("%s, %v", what, err)
		}
		found, err := o.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := round("PATCH", "/api/v1/namespaces/kept/configmaps/own", 200, func() { s.configs = []string{"map", "own"} }); len(found) != 1 || !strings.Contains(found[0], "configmaps/kept/map was changed") {
		t.Errorf("both have changed, one may: %q", found)
	}
	if found := round("DELETE", "/api/v1/namespaces/kept/configmaps/map", 403, func() { s.configs = nil }); len(found) != 1 || !strings.Contains(found[0], "map was deleted") {
		t.Errorf("it was refused and done: %q", found)
	}
	if found := round("GET", "/api/v1/namespaces/kept/configmaps/map", 200, func() { s.allowed = func(authorizationv1.SubjectAccessReviewSpec) bool { return true } }); !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, "escalation") }) {
		t.Errorf("all may all, and nothing is found: %q", found)
	}
	s.broken = true
	if _, err := o.End(t.Context()); err == nil {
		t.Error("the server cannot be asked, and that is fine")
	}
}

func TestAttempt_MayHaveWritten(t *testing.T) {
	t.Parallel()
	const table = "application/json;as=Table;g=meta.k8s.io;v=v1"
	for _, test := range []struct {
		name, method, target, accept string
		code                         int
		want                         bool
	}{
		{"done", "DELETE", "/own", "", 200, true},
		{"no answer", "DELETE", "/own", "", 0, true},
		{"refused", "DELETE", "/own", "", 400, false},
		{"forbidden", "DELETE", "/own", table, 403, false},
		{"done, and not to be had as a table", "DELETE", "/own?includeObject=x", table, 400, true},
		{"done, and no list", "PUT", "/own", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", 406, true},
		{"a part of a collection", "DELETE", "", "", 409, true},
		{"only read", "GET", "/own", table, 200, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := oracleOf(&server{allowed: viewer})
			if err := o.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			q := request.Request{Method: test.method, Target: "/api/v1/namespaces/kept/configmaps" + test.target, Header: http.Header{"Accept": {test.accept}}}
			a, err := o.Before(t.Context(), someone, q)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.mayHaveWritten(test.code); got != test.want {
				t.Errorf("it is %v, want %v", got, test.want)
			}
		})
	}
}

func TestActing(t *testing.T) {
	t.Parallel()
	certificate := &tls.Config{Certificates: make([]tls.Certificate, 1), MinVersion: tls.VersionTLS12}
	impersonator := &identity.Identity{Subject: identity.Authenticated(identity.Impersonator), TLS: certificate}
	worker := &identity.Identity{Subject: identity.Authenticated("worker"), TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Token: "t"}
	for _, test := range []struct {
		name   string
		who    *identity.Identity
		header http.Header
		want   string
	}{
		{"itself", worker, http.Header{"Accept": {"x"}}, "worker"},
		{"with another token", worker, http.Header{"Authorization": {"Bearer x"}}, "system:anonymous"},
		{"a certificate counts before a token", impersonator, http.Header{"Authorization": {"Bearer x"}}, identity.Impersonator},
		{"whom it may be", impersonator, http.Header{"Impersonate-User": {identity.Impersonated}}, identity.Impersonated},
		{"with groups", impersonator, http.Header{"Impersonate-User": {identity.Impersonated}, "Impersonate-Group": {"system:masters"}}, ""},
		{"whom it may not be", impersonator, http.Header{"impersonate-user": {"admin"}}, ""},
		{"who may be nobody", worker, http.Header{"Impersonate-User": {identity.Impersonated}}, ""},
		{"an empty name", worker, http.Header{"Impersonate-User": {""}}, "worker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got, ok := acting(test.who, test.header); got.User != test.want || ok != (test.want != "") {
				t.Errorf("it is %q, %v; want %q", got.User, ok, test.want)
			}
		})
	}
}
