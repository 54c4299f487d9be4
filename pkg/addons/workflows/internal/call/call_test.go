// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/missing":
		http.Error(w, "no such thing", http.StatusNotFound)
		return
	case "/moved":
		http.Redirect(w, r, "/there", http.StatusFound)
		return
	case "/slow":
		<-r.Context().Done()
		return
	case "/long":
		_, _ = io.WriteString(w, strings.Repeat("x", MaxBytes+1))
		return
	case "/text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "hello")
		return
	case "/bytes":
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, "hello")
		return
	case "/broken":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{")
		return
	case "/nothing":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/oauth2/token":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token": "t-`+string(body[:0])+r.Header.Get("Content-Type")[:11]+`"}`)
		return
	case "/v2/api.json", "/v3/api.yaml":
		_, _ = io.WriteString(w, documents[r.URL.Path])
		return
	}
	user, password, _ := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "uri": r.URL.RequestURI(), "body": string(body), "type": r.Header.Get("Content-Type"), "x": r.Header.Get("X"),
		"key": r.Header.Get(KeyHeader), "auth": strings.TrimSpace(user + " " + password), "bearer": strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
	})
}

var documents = map[string]string{
	"/v2/api.json": `{"swagger": "2.0", "basePath": "/base", "paths": {"/pets/{id}": {"post": {"operationId": "feed", "parameters": [
		{"name": "id", "in": "path", "required": true}, {"name": "tags", "in": "query"}, {"name": "X", "in": "header"}, {"name": "food", "in": "body"}]}}}}`,
	"/v3/api.yaml": `
openapi: 3.0.0
servers: [{url: '/{v}', variables: {v: {default: three}}}]
components: {parameters: {id: {name: id, in: path, required: true}}}
paths:
  /pets/{id}:
    parameters: [{$ref: '#/components/parameters/id'}]
    put: {operationId: feed, parameters: [{name: tags, in: query}], requestBody: {}}
`,
}

func TestDo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	for _, tt := range []struct {
		name, call, with, input string
		want                    string // JSON: what the output has, at least
		output                  any    // the output as a whole
		kind                    engine.Standard
		status                  int
		detail                  string
	}{
		{
			name: "a template, a query, a header", call: "http", input: `{"id": "a/b c"}`,
			with: `{method: get, endpoint: 'HOST/x/{id}{none}?q=1', query: {r: [1, 2]}, headers: {X: 7}}`,
			want: `{"method": "GET", "uri": "/x/a%2Fb%20c?q=1&r=1&r=2", "x": "7", "key": "k", "body": ""}`,
		},
		{name: "a variable that is no text", call: "http", input: `{"id": {}}`, with: `{method: get, endpoint: 'HOST/{id}'}`, kind: engine.Expression, status: 400},
		{name: "a body", call: "http", with: `{method: post, endpoint: {uri: 'HOST/'}, body: {a: [1]}}`, want: `{"body": "{\"a\":[1]}", "type": "application/json"}`},
		{name: "a text", call: "http", with: `{method: post, endpoint: 'HOST/', body: hi}`, want: `{"body": "hi", "type": "text/plain; charset=utf-8"}`},
		{name: "a text of some type", call: "http", with: `{method: post, endpoint: 'HOST/', body: '<a/>', headers: {Content-Type: application/xml}}`, want: `{"body": "<a/>", "type": "application/xml"}`},
		{name: "basic", call: "http", with: `{method: get, endpoint: {uri: 'HOST/', authentication: {basic: {username: u, password: p}}}}`, want: `{"auth": "u p"}`},
		{name: "bearer", call: "http", with: `{method: get, endpoint: {uri: 'HOST/', authentication: {bearer: {token: t}}}}`, want: `{"bearer": "t"}`},
		{name: "oauth2", call: "http", with: `{method: get, endpoint: {uri: 'HOST/', authentication: {oauth2: {authority: HOST, grant: client_credentials, client: {id: a, secret: b}}}}}`, want: `{"bearer": "t-application"}`},
		{name: "text", call: "http", with: `{method: get, endpoint: 'HOST/text'}`, output: "hello"},
		{name: "bytes", call: "http", with: `{method: get, endpoint: 'HOST/bytes'}`, output: "aGVsbG8="},
		{name: "raw", call: "http", with: `{method: get, endpoint: 'HOST/text', output: raw}`, output: "aGVsbG8="},
		{name: "nothing", call: "http", with: `{method: get, endpoint: 'HOST/nothing'}`},
		{name: "a response", call: "http", with: `{method: get, endpoint: 'HOST/text', output: response}`, want: `{"statusCode": 200, "content": "hello"}`},
		{name: "no JSON", call: "http", with: `{method: get, endpoint: 'HOST/broken'}`, kind: engine.Communication, status: 500, detail: "not JSON"},
		{name: "a status", call: "http", with: `{method: get, endpoint: 'HOST/missing'}`, kind: engine.Communication, status: 404, detail: "no such thing"},
		{name: "a redirection", call: "http", with: `{method: get, endpoint: 'HOST/moved'}`, kind: engine.Communication, status: 302},
		{name: "followed", call: "http", with: `{method: get, endpoint: 'HOST/moved', redirect: true}`, want: `{"uri": "/there"}`},
		{name: "too long", call: "http", with: `{method: get, endpoint: 'HOST/long'}`, kind: engine.Communication, status: 413, detail: "longer than 1048576 bytes"},
		{name: "too slow", call: "http", with: `{method: get, endpoint: 'HOST/slow'}`, kind: engine.Timeout, status: 408},
		{name: "nobody there", call: "http", with: `{method: get, endpoint: 'http://127.0.0.1:1/'}`, kind: engine.Communication, status: 500, detail: "refused"},
		{name: "no HTTP", call: "http", with: `{method: get, endpoint: 'file:///etc/passwd'}`, kind: engine.Configuration, status: 400},
		{
			name: "swagger 2", call: "openapi", with: `{document: {endpoint: HOST/v2/api.json}, operationId: feed, parameters: {id: 1, tags: [a, b], X: z, food: {a: 1}}}`,
			want: `{"method": "POST", "uri": "/base/pets/1?tags=a%2Cb", "x": "z", "body": "{\"a\":1}", "key": "k"}`,
		},
		{
			name: "openapi 3", call: "openapi", with: `{document: {endpoint: HOST/v3/api.yaml}, operationId: feed, parameters: {id: 1, tags: [a, b], food: hay}}`,
			want: `{"method": "PUT", "uri": "/three/pets/1?tags=a&tags=b", "body": "{\"food\":\"hay\"}"}`,
		},
		{name: "no such operation", call: "openapi", with: `{document: {endpoint: HOST/v2/api.json}, operationId: x}`, kind: engine.Configuration, status: 400},
		{name: "a parameter is missing", call: "openapi", with: `{document: {endpoint: HOST/v2/api.json}, operationId: feed}`, kind: engine.Validation, status: 400, detail: `"id"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			a := engine.Action{Kind: engine.ActionCall, Name: tt.call, Key: "k", Arguments: value(t, strings.ReplaceAll(tt.with, "HOST", server.URL)), Input: value(t, tt.input)}
			if strings.Contains(tt.with, "/slow") {
				a.Deadline = time.Now().Add(50 * time.Millisecond)
			}
			got := (&Caller{Transport: server.Client().Transport}).Do(ctx, a)
			if tt.kind != "" {
				if e := got.Error; e == nil || !e.Of(tt.kind) || e.Status != tt.status || !strings.Contains(e.Detail, tt.detail) {
					t.Fatalf("error %v", e)
				}
				return
			}
			if got.Error != nil {
				t.Fatal(got.Error)
			}
			if tt.want == "" {
				if diff := cmp.Diff(tt.output, got.Output); diff != "" {
					t.Error(diff)
				}
				return
			}
			for name, want := range value(t, tt.want).(map[string]any) {
				if diff := cmp.Diff(want, got.Output.(map[string]any)[name]); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}

// value reads YAML as the DSL does: through a document's property.
func value(t *testing.T, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	w, problems := dsl.ParseText([]byte("document: {dsl: 1.0.0, namespace: a, name: a, version: 1.0.0}\ndo: [{a: {set: {v: "+text+"}}}]"), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return w.Tasks["/do/0/a"].Set.(map[string]any)["v"]
}

func TestFunction(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	c := &Caller{Transport: server.Client().Transport, Function: func(_ context.Context, name string) (string, error) { return server.URL + "/" + name, nil }}
	got := c.Do(t.Context(), engine.Action{Kind: engine.ActionFunction, Name: "greet", Key: "k", Arguments: "Ada"})
	if got.Error != nil {
		t.Fatal(got.Error)
	}
	o := got.Output.(map[string]any)
	if o["method"] != "POST" || o["uri"] != "/greet" || o["body"] != `"Ada"` || o["type"] != "application/json" || o["key"] != "k" {
		t.Errorf("it was asked %v", o)
	}
}

// Calls do not go to the machine that the controller is on, by whatever name.
func TestTransport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	transport := NewTransport(func(_ context.Context, namespace, name string) (string, error) {
		if namespace != "default" || name != "shop" {
			t.Errorf("the Service %s/%s was looked for", namespace, name)
		}
		return "127.0.0.1", nil
	})
	defer transport.CloseIdleConnections()
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "0.0.0.0", "169.254.169.254", "shop.default.svc", "shop.default.svc.cluster.local."} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: error %v", host, err)
		}
		cancel()
	}
}
