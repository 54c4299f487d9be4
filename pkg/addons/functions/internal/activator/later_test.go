// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// memory keeps requests for as long as a test takes. It can be full, and out of reach.
type memory struct {
	call func(context.Context, types.NamespacedName, Request) (Answer, bool)

	mu      sync.Mutex
	err     error
	answers map[string]*Answer // nil until there is one
	last    Request
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) Keep(ctx context.Context, function types.NamespacedName, r Request) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return "", m.err
	}
	id := fmt.Sprint(len(m.answers))
	m.answers[id], m.last = nil, r
	go func() {
		answer, _ := m.call(context.WithoutCancel(ctx), function, r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.answers[id] = &answer
	}()
	return id, nil
}

func (m *memory) Result(_ context.Context, _ types.NamespacedName, id string) (*Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	answer, found := m.answers[id]
	if !found {
		return nil, ErrNoResult
	}
	return answer, nil
}

func TestLater(t *testing.T) {
	t.Parallel()
	f := serve(t)
	status, body, header := f.do(t, http.MethodPost, "//some/path?x=1", "later", "Prefer", "respond-async", "X-Color", "blue")
	if status != http.StatusAccepted || !strings.Contains(body, ResultsPath) {
		t.Fatalf("got %d %s, want 202 with an id", status, body)
	}
	at := header.Get("Location")
	if status, _, _ := f.do(t, http.MethodGet, at, ""); status != http.StatusAccepted {
		t.Errorf("got %d before there is an answer, want 202", status)
	}
	tell := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprintf(w, "%s %s %s %s %q from %d", r.Method, r.RequestURI, r.Host, r.Header.Get("X-Color"), r.Header["Prefer"], len(r.Header["X-Forwarded-For"]))
	}))
	t.Cleanup(tell.Close)
	f.Route(fn, pods(tell))
	eventually(t, "the answer", func() bool {
		status, body, _ = f.do(t, http.MethodGet, at, "")
		return status == http.StatusTeapot
	})
	if want := "POST //some/path?x=1 " + strings.TrimPrefix(f.url, "http://") + " blue [] from 1"; body != want {
		t.Errorf("the function saw %q, want what was sent, %q", body, want)
	}
	if status, _, _ := f.do(t, http.MethodGet, ResultsPath+"nothing", ""); status != http.StatusNotFound {
		t.Errorf("got %d for an unknown id, want 404", status)
	}
	if status, _, _ := f.do(t, http.MethodPost, "/.minik8s/load", "{}"); status != http.StatusNotFound {
		t.Errorf("got %d for what is the controller's, want 404", status)
	}
}

func TestLater_Refused(t *testing.T) {
	t.Parallel()
	f := serve(t)
	for _, test := range []struct {
		name, body, color string
		err               error
		want              int
	}{
		{"large", strings.Repeat("x", MaxKeptBytes+1), "blue", nil, http.StatusRequestEntityTooLarge},
		{"header", "x", strings.Repeat("x", maxKeptHeader), nil, http.StatusRequestHeaderFieldsTooLarge},
		{"full", "x", "blue", ErrFull, http.StatusTooManyRequests},
		{"out of reach", "x", "blue", errors.New("the API server does not answer"), http.StatusServiceUnavailable},
	} {
		f.later.fail(test.err)
		if status, body, _ := f.do(t, http.MethodPost, "/", test.body, "Prefer", "respond-async", "X-Color", test.color); status != test.want || !strings.Contains(body, "error") {
			t.Errorf("%s: got %d %s, want %d", test.name, status, body, test.want)
		}
	}
	if status, _, _ := f.do(t, http.MethodGet, ResultsPath+"0", ""); status != http.StatusServiceUnavailable {
		t.Errorf("a result that cannot be looked up: got %d, want 503", status)
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	f := serve(t)
	var answer func(http.ResponseWriter)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
	t.Cleanup(s.Close)
	f.Route(fn, pods(s))
	for _, test := range []struct {
		name, uri string
		answer    func(http.ResponseWriter)
		want      Answer
	}{
		{"text", "/", func(w http.ResponseWriter) { _, _ = w.Write([]byte("abc")) }, Answer{Status: 200, ContentType: "text/plain; charset=utf-8", Body: []byte("abc")}},
		{"too large", "/", func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, MaxKeptBytes+1)) }, Answer{Status: 200, ContentType: "application/octet-stream", TooLarge: true}},
		{"broken off", "/", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("abc"))
		}, Answer{Status: 502, Body: []byte("{\"error\":\"the function's answer broke off\"}\n")}},
		{"odd type", "/", func(w http.ResponseWriter) { w.Header().Set("Content-Type", strings.Repeat("x", 1000)) }, Answer{Status: 200}},
		{"no path", "some", nil, Answer{Status: 400, Body: []byte("{\"error\":\"parse \\\"some\\\": invalid URI for request\"}\n")}},
	} {
		answer = test.answer
		got, served := f.Call(t.Context(), fn, Request{Method: http.MethodPost, URI: test.uri})
		if !served || got.Status != test.want.Status || got.ContentType != test.want.ContentType || string(got.Body) != string(test.want.Body) || got.TooLarge != test.want.TooLarge {
			t.Errorf("%s: got %t %+v, want %+v", test.name, served, got, test.want)
		}
	}
	if _, served := f.Call(t.Context(), types.NamespacedName{Name: "other"}, Request{Method: http.MethodPost, URI: "/"}); served {
		t.Error("a function that is not served was called")
	}
}
