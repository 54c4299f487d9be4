// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longPoll is how long a leader keeps a follower waiting for the next message.
const longPoll = 20 * time.Second

type server struct {
	messages *journal
	token    string // empty in a follower
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/messages", s.list)
	mux.HandleFunc("POST /v1/messages", s.add)
	mux.HandleFunc("GET /v1/journal", s.journal)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

func (s *server) list(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.messages.all())
}

func (s *server) add(w http.ResponseWriter, r *http.Request) {
	if s.token == "" {
		http.Error(w, "a follower takes no writes", http.StatusMethodNotAllowed)
		return
	}
	got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(got), []byte(s.token)) != 1 {
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	var m Message
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&m); err != nil || m.Text == "" {
		http.Error(w, `want {"text": "..."}`, http.StatusBadRequest)
		return
	}
	if err := s.messages.add(m); err != nil {
		log.Printf("writing: %v", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusCreated, m)
}

// journal is what followers ask.
func (s *server) journal(w http.ResponseWriter, r *http.Request) {
	next, err := strconv.Atoi(r.URL.Query().Get("next"))
	if err != nil || next < 0 {
		http.Error(w, "next must be an index", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), longPoll)
	defer cancel()
	answer(w, http.StatusOK, s.messages.since(ctx, r.URL.Query().Get("journal"), next))
}

func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.messages.copied() {
		http.Error(w, "nothing copied from the leader yet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		log.Printf("answering: %v", err)
	}
}
