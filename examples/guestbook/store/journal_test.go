// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, path string) *journal {
	t.Helper()
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestJournal_SurvivesACrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "messages")
	j := open(t, path)
	for _, text := range []string{"one", "two"} {
		if err := j.add(Message{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	id := j.id
	if _, err := j.file.WriteString(`{"text":"cut of`); err != nil {
		t.Fatal(err)
	}
	_ = j.close()

	j = open(t, path)
	if err := j.add(Message{Text: "three"}); err != nil {
		t.Fatal(err)
	}
	_ = j.close()
	j = open(t, path)
	defer j.close()
	if diff := cmp.Diff([]Message{{"one"}, {"two"}, {"three"}}, j.all()); diff != "" {
		t.Error(diff)
	}
	if j.id != id {
		t.Errorf("identity is %q, was %q", j.id, id)
	}
}

func TestFollower_CopiesAndStartsAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "messages")
	leader := &server{messages: open(t, path), token: "secret"}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { leader.routes().ServeHTTP(w, r) }))
	defer web.Close()
	follower := newJournal()
	next := func() {
		t.Helper()
		if err := copyNext(t.Context(), web.Client(), web.URL, follower); err != nil {
			t.Fatal(err)
		}
	}
	if follower.copied() {
		t.Error("a follower that has copied nothing is ready")
	}
	next()
	if !follower.copied() {
		t.Error("a follower of an empty leader is not ready")
	}
	for _, text := range []string{"one", "two"} {
		if err := leader.messages.add(Message{Text: text}); err != nil {
			t.Fatal(err)
		}
		next()
	}
	if diff := cmp.Diff([]Message{{"one"}, {"two"}}, follower.all()); diff != "" {
		t.Error(diff)
	}

	// The leader comes back with an empty disk.
	_ = leader.messages.close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	leader.messages = open(t, path)
	defer leader.messages.close()
	if err := leader.messages.add(Message{Text: "other"}); err != nil {
		t.Fatal(err)
	}
	next()
	if diff := cmp.Diff([]Message{{"other"}}, follower.all()); diff != "" {
		t.Error(diff)
	}
}

func TestJournal_SinceWaitsForMore(t *testing.T) {
	t.Parallel()
	j := open(t, filepath.Join(t.TempDir(), "messages"))
	defer j.close()
	got := make(chan Batch)
	go func() { got <- j.since(context.Background(), j.id, 0) }()
	if err := j.add(Message{Text: "new"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Batch{Journal: j.id, Messages: []Message{{"new"}}}, <-got); diff != "" {
		t.Error(diff)
	}
}

func TestServer_Add(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, token, sent, body string
		want                    int
	}{
		{"right token", "secret", "secret", `{"text":"hello"}`, http.StatusCreated},
		{"wrong token", "secret", "guess", `{"text":"hello"}`, http.StatusUnauthorized},
		{"no token", "secret", "", `{"text":"hello"}`, http.StatusUnauthorized},
		{"no text", "secret", "secret", `{}`, http.StatusBadRequest},
		{"not JSON", "secret", "secret", `hello`, http.StatusBadRequest},
		{"follower", "", "", `{"text":"hello"}`, http.StatusMethodNotAllowed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := open(t, filepath.Join(t.TempDir(), "messages"))
			defer j.close()
			r := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(test.body))
			r.Header.Set("Authorization", "Bearer "+test.sent)
			w := httptest.NewRecorder()
			(&server{messages: j, token: test.token}).routes().ServeHTTP(w, r)
			if w.Code != test.want {
				t.Errorf("got %d, want %d: %s", w.Code, test.want, w.Body)
			}
			if stored := len(j.all()) == 1; stored != (test.want == http.StatusCreated) {
				t.Errorf("stored: %t", stored)
			}
		})
	}
}
