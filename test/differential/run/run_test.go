// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/test/differential/mutate"
	"minik8s.io/minik8s/test/differential/report"
	"minik8s.io/minik8s/test/differential/servers"
)

// server answers every request with what f makes of it.
func server(t *testing.T, f func(method, path, body string) (code int, answer string)) *servers.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		code, answer := f(r.Method, r.URL.Path, string(body))
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(code)
		if _, err := io.WriteString(w, answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return &servers.Server{URL: s.URL, Client: s.Client()}
}

// TestCheckSeesDifferences: a server that answers otherwise is found out, one that answers the same is not.
func TestCheckSeesDifferences(t *testing.T) {
	same := func(string, string, string) (int, string) {
		return 200, `{"kind":"Pod","apiVersion":"v1","spec":{"a":1}}`
	}
	other := func(_, path, _ string) (int, string) {
		if path == "/other" {
			return 200, `{"kind":"Pod","apiVersion":"v1","spec":{"a":2}}`
		}
		return same("", "", "")
	}
	r := &runner{pair: pair{upstream: server(t, same), ours: server(t, other)}, report: report.New()}
	for _, path := range []string{"/same", "/other"} {
		if _, _, err := r.check(context.Background(), "pods", "", request{method: http.MethodGet, path: path}); err != nil {
			t.Fatal(err)
		}
	}
	findings := r.report.Findings()
	if len(findings) != 1 || findings[0].Example.Path != "/other" || findings[0].Path != "spec.a" {
		t.Errorf("findings: %+v", findings)
	}
}

// TestCheckSeesDifferences_Protobuf: of objects in protobuf the field is found in which they differ, also one that one side has
// only.
func TestCheckSeesDifferences_Protobuf(t *testing.T) {
	pod := func(change map[string]any) string {
		t.Helper()
		spec := map[string]any{"nodeName": "n", "containers": []any{map[string]any{"name": "c", "image": "i"}}}
		maps.Copy(spec, change)
		encoded, ok := toProtobuf(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": spec})
		if !ok {
			t.Fatal("a pod cannot be encoded")
		}
		return encoded
	}
	for _, tc := range []struct {
		name   string
		change map[string]any
		path   string // "" if there is no difference
	}{
		{"the same", nil, ""},
		{"a value", map[string]any{"nodeName": "m"}, "spec.nodeName"},
		{"a field more", map[string]any{"hostname": "h"}, "spec.hostname"},
		{"in a list", map[string]any{"containers": []any{map[string]any{"name": "c", "image": "j"}}}, "spec.containers[*].image"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			as := func(text string) *servers.Server {
				return server(t, func(string, string, string) (int, string) { return 200, text })
			}
			r := &runner{pair: pair{upstream: as(pod(nil)), ours: as(pod(tc.change))}, report: report.New()}
			if _, _, err := r.check(context.Background(), "pods", "", request{method: http.MethodGet, path: "/"}); err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range r.report.Findings() {
				paths = append(paths, f.Path)
			}
			var want []string
			if tc.path != "" {
				want = []string{tc.path}
			}
			if diff := cmp.Diff(want, paths); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoAnswer: a server that ends the connection differs from one that answers.
func TestNoAnswer(t *testing.T) {
	up := server(t, func(string, string, string) (int, string) { return 200, "{}" })
	dead := httptest.NewServer(nil)
	dead.Close()
	r := &runner{pair: pair{upstream: up, ours: &servers.Server{URL: dead.URL, Client: http.DefaultClient}}, report: report.New()}
	if _, o, err := r.check(context.Background(), "pods", "", request{method: http.MethodGet, path: "/"}); err != nil || o.Code != noAnswer {
		t.Errorf("answer %d, error %v", o.Code, err)
	}
	if f := r.report.Findings(); len(f) != 1 || f[0].Check != "accept" {
		t.Errorf("findings: %+v", f)
	}
}

func TestTranslate(t *testing.T) {
	up := map[string]any{"metadata": map[string]any{"uid": "u", "name": "x"}, "ports": []any{map[string]any{"nodePort": 1, "port": 80}}}
	ours := map[string]any{"metadata": map[string]any{"uid": "o", "name": "x"}, "ports": []any{map[string]any{"nodePort": 2, "port": 80}}}
	changed := mutate.Mutation{Path: mutate.Path{"ports", 0, "port"}, Value: 81}.Apply(up)
	want := map[string]any{"metadata": map[string]any{"uid": "o", "name": "x"}, "ports": []any{map[string]any{"nodePort": 2, "port": 81}}}
	if diff := cmp.Diff(any(want), translate(changed, up, ours)); diff != "" {
		t.Error(diff)
	}
}

func TestPatches(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"a": 1}}
	for _, c := range []struct {
		name        string
		m           mutate.Mutation
		merge, json any
	}{
		{"set", mutate.Mutation{Path: mutate.Path{"spec", "a"}, Value: 2}, map[string]any{"spec": map[string]any{"a": 2}}, []any{map[string]any{"op": "replace", "path": "/spec/a", "value": 2}}},
		{"add", mutate.Mutation{Path: mutate.Path{"spec", "b"}, Value: 2}, map[string]any{"spec": map[string]any{"b": 2}}, []any{map[string]any{"op": "add", "path": "/spec/b", "value": 2}}},
		{"remove", mutate.Mutation{Path: mutate.Path{"spec", "a"}, Remove: true}, map[string]any{"spec": map[string]any{"a": nil}}, []any{map[string]any{"op": "remove", "path": "/spec/a"}}},
		{"in a list", mutate.Mutation{Path: mutate.Path{"l", 0}, Value: 2}, nil, []any{map[string]any{"op": "add", "path": "/l/0", "value": 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.merge, mergePatch(c.m)); diff != "" {
				t.Error("merge patch: " + diff)
			}
			if diff := cmp.Diff(c.json, jsonPatch(object, c.m)); diff != "" {
				t.Error("JSON patch: " + diff)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	for in, want := range map[string]any{
		`{"a":"b"}`: map[string]any{"a": "b"}, `{"a":"b"}` + "\n" + `{"c":"d"}`: []any{map[string]any{"a": "b"}, map[string]any{"c": "d"}}, "ok\n": "ok", "": "",
	} {
		if diff := cmp.Diff(want, decode([]byte(in))); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}
