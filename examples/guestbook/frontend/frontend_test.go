// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWeb(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	access, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer access.Close()
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+string(body))
	}))
	defer store.Close()
	counter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "7\n") }))
	defer counter.Close()
	w := &web{
		title: "<Guests>", version: "1", pod: "pod-a", leader: store.URL, follower: store.URL, token: "secret",
		counter: counter.URL, client: store.Client(), page: template.Must(template.New("").Parse(page)),
	}
	h := logged(access, w.routes())
	tests := []struct {
		name, method, path, body string
		code                     int
		want                     string
	}{
		{"page escapes", "GET", "/", "", 200, "<h1>&lt;Guests&gt;</h1>"},
		{"list", "GET", "/api/messages", "", 200, "GET /v1/messages Bearer secret"},
		{"sign", "POST", "/api/messages", `{"text":"hi"}`, 201, `POST /v1/messages Bearer secret {"text":"hi"}`},
		{"sign too much", "POST", "/api/messages", strings.Repeat("x", 5000), 413, "too large"},
		{"about", "GET", "/api/about", "", 200, `{"pod":"pod-a","version":"1","title":"\u003cGuests\u003e","requests":7}`},
		{"alive", "GET", "/livez", "", 200, "ok"},
		{"ready", "GET", "/readyz", "", 200, "ok"},
		{"unknown", "GET", "/nothing", "", 404, "not found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rw := httptest.NewRecorder()
			h.ServeHTTP(rw, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
			if rw.Code != test.code || !strings.Contains(rw.Body.String(), test.want) {
				t.Errorf("got %d %q, want %d with %q", rw.Code, rw.Body, test.code, test.want)
			}
		})
	}
	if n, err := countLines(path); err != nil || n != len(tests)-2 {
		t.Errorf("access log has %d lines (%v), want one per request that is no probe: %d", n, err, len(tests)-2)
	}
}

func TestCountLines_NoFile(t *testing.T) {
	t.Parallel()
	if n, err := countLines(filepath.Join(t.TempDir(), "none")); n != 0 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestToolbox(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	in := strings.NewReader("cat " + file + "\nls " + filepath.Dir(file) + "\nnonsense\nexit\ncat never\n")
	if err := toolbox(t.Context(), in, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"> content\n", "> file\n", `error: "nonsense" is not one of`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
	if strings.Contains(out.String(), "never") {
		t.Error("went on after exit")
	}
}
