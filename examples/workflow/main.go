// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command workflow is a shop that the workflow of this example calls: it has a stock, takes payments, and sends parcels. Touch it to
// change what the example shows.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// shop does each thing once for each key, however often it is asked: calls of workflows come at least once.
type shop struct {
	mu      sync.Mutex
	answers map[string]any // guarded by mu: by path and key
	calls   map[string]int // guarded by mu: by path
	failed  bool           // guarded by mu: whether the stock has failed once, as things do
}

func serve(ctx context.Context) error {
	s := &shop{answers: map[string]any{}, calls: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /stock", s.once(func(order map[string]any) (any, error) {
		if !s.failed {
			s.failed = true
			return nil, errors.New("the stock is being counted, come again")
		}
		return map[string]any{"item": order["item"], "reserved": order["amount"]}, nil
	}))
	mux.HandleFunc("POST /payments", s.once(func(order map[string]any) (any, error) {
		return map[string]any{"paid": order["total"], "receipt": fmt.Sprintf("receipt-%d", s.calls["/payments"])}, nil
	}))
	mux.HandleFunc("POST /parcels", s.once(func(order map[string]any) (any, error) {
		return map[string]any{"parcel": fmt.Sprintf("%v in parcel %d", order["item"], s.calls["/parcels"])}, nil
	}))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer(w, s.calls)
	})
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// once answers a key that it knows with what it has answered before.
func (s *shop) once(do func(order map[string]any) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var order map[string]any
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key := r.URL.Path + " " + r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		defer s.mu.Unlock()
		if known, ok := s.answers[key]; ok {
			answer(w, known)
			return
		}
		result, err := do(order)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		s.calls[r.URL.Path]++
		s.answers[key] = result
		answer(w, result)
	}
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
