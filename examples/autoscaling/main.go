// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command autoscaling is a server that costs what is asked of it, and the load that does. Touch it to change what the example shows.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const usage = `usage: autoscaling COMMAND

  serve           GET /work takes 10 ms of a processor, POST /hold?mib=N holds so much memory; both answer with the pod's name
  load URL N      asks for URL all the time, N requests at once, and prints every five seconds who has answered`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "serve":
		return serve(ctx)
	case len(args) == 3 && args[0] == "load":
		n, err := strconv.Atoi(args[2])
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number of requests", args[2])
		}
		return load(ctx, args[1], n)
	}
	return errors.New(usage)
}

// workTime is how long a request for work is worked on.
const workTime = 10 * time.Millisecond

func serve(ctx context.Context) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	var held memory
	mux := http.NewServeMux()
	mux.HandleFunc("GET /work", func(w http.ResponseWriter, _ *http.Request) {
		for end, sum := time.Now().Add(workTime), [32]byte{}; time.Now().Before(end); {
			sum = sha256.Sum256(sum[:])
		}
		fmt.Fprintln(w, name)
	})
	mux.HandleFunc("POST /hold", func(w http.ResponseWriter, r *http.Request) {
		mib, err := strconv.Atoi(r.FormValue("mib"))
		if err != nil || mib < 0 || mib > 1024 {
			http.Error(w, "mib is a number up to 1024", http.StatusBadRequest)
			return
		}
		if err := held.hold(mib); err != nil {
			http.Error(w, err.Error(), http.StatusInsufficientStorage)
			return
		}
		fmt.Fprintln(w, name)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// Requests may still come until every node has heard that this pod is leaving.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

// memory is what the server holds. It is mapped, so that what is given back is the kernel's at once.
type memory struct {
	mu sync.Mutex
	// mapped is guarded by mu.
	mapped []byte
}

func (m *memory) hold(mib int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mapped != nil {
		_ = syscall.Munmap(m.mapped)
		m.mapped = nil
	}
	if mib == 0 {
		return nil
	}
	mapped, err := syscall.Mmap(-1, 0, mib<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("holding %d MiB: %w", mib, err)
	}
	for i := 0; i < len(mapped); i += os.Getpagesize() {
		mapped[i] = 1
	}
	m.mapped = mapped
	return nil
}

// load asks until ctx ends. Each request has a connection of its own: a Service chooses an endpoint for a connection.
func load(ctx context.Context, url string, n int) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	t := tally{answers: map[string]int{}}
	var asking sync.WaitGroup
	for range n {
		asking.Go(func() {
			for ctx.Err() == nil {
				t.add(ask(ctx, client, url))
			}
		})
	}
	report := time.NewTicker(5 * time.Second)
	defer report.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-report.C:
			log.Print(t.take())
		}
	}
	asking.Wait()
	return nil
}

// ask returns who answered, or what went wrong.
func ask(ctx context.Context, client *http.Client, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	answer, err := client.Do(request)
	if err != nil {
		// Not at once again: it may be refused faster than it would be answered.
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1024))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// tally counts answers.
type tally struct {
	mu sync.Mutex
	// answers is guarded by mu.
	answers map[string]int
}

func (t *tally) add(answer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[answer]++
}

func (t *tally) take() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.answers
	t.answers = map[string]int{}
	return taken
}
