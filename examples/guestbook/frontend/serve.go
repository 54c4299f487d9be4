// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

//go:embed page.html
var page string

// web is the front end: it keeps nothing, reads from the followers of the store and writes to its leader.
type web struct {
	title, version, pod string
	leader, follower    string // base URLs of the store
	token               string // what the store wants of writers
	counter             string // URL of the sidecar
	client              *http.Client
	page                *template.Template
}

func serve(ctx context.Context) error {
	parsed, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	w := &web{
		title: env("GUESTBOOK_TITLE", "Guestbook"), version: env("GUESTBOOK_VERSION", "unknown"), pod: env("POD_NAME", name),
		leader: env("STORE_LEADER", "http://store-leader"), follower: env("STORE_FOLLOWER", "http://store-follower"),
		token: os.Getenv("STORE_TOKEN"), counter: env("COUNTER", "http://localhost:9090/count"),
		client: &http.Client{Timeout: 5 * time.Second}, page: parsed,
	}
	access, err := openAccessLog()
	if err != nil {
		return err
	}
	defer access.Close()
	return listen(ctx, ":8080", logged(access, w.routes()))
}

func (w *web) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", w.index)
	mux.HandleFunc("GET /api/messages", w.list)
	mux.HandleFunc("POST /api/messages", w.sign)
	mux.HandleFunc("GET /api/about", w.about)
	mux.HandleFunc("GET /livez", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, "ok") })
	mux.HandleFunc("GET /readyz", w.ready)
	return mux
}

func (w *web) index(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := w.page.Execute(rw, map[string]string{"Title": w.title, "Version": w.version, "Pod": w.pod}); err != nil {
		log.Printf("writing the page: %v", err)
	}
}

func (w *web) list(rw http.ResponseWriter, r *http.Request) {
	w.forward(rw, r, http.MethodGet, w.follower+"/v1/messages", nil)
}

func (w *web) sign(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, 4096))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	w.forward(rw, r, http.MethodPost, w.leader+"/v1/messages", body)
}

// forward asks the store and passes its answer on.
func (w *web) forward(rw http.ResponseWriter, r *http.Request, method, url string, body []byte) {
	request, err := http.NewRequestWithContext(r.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	answer, err := w.client.Do(request)
	if err != nil {
		log.Printf("asking the store: %v", err)
		http.Error(rw, "the store does not answer", http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	rw.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	rw.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(rw, answer.Body); err != nil {
		log.Printf("passing on the store's answer: %v", err)
	}
}

// about tells which pod answers, and what its sidecar has counted.
func (w *web) about(rw http.ResponseWriter, r *http.Request) {
	about := struct {
		Pod      string `json:"pod"`
		Version  string `json:"version"`
		Title    string `json:"title"`
		Requests int    `json:"requests"`
	}{Pod: w.pod, Version: w.version, Title: w.title}
	var counted bytes.Buffer
	err := get(r.Context(), &counted, w.counter)
	if err == nil {
		_, err = fmt.Sscan(counted.String(), &about.Requests)
	}
	if err != nil {
		http.Error(rw, "the sidecar does not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(rw).Encode(about); err != nil {
		log.Printf("answering: %v", err)
	}
}

// ready is for the readiness probe: a front end that cannot read gets no traffic.
func (w *web) ready(rw http.ResponseWriter, r *http.Request) {
	if err := get(r.Context(), io.Discard, w.follower+"/readyz"); err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(rw, "ok")
}

// openAccessLog opens the file that this container shares with the sidecar.
func openAccessLog() (*os.File, error) {
	path := accessLogPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

func accessLogPath() string { return env("ACCESS_LOG", "/var/log/guestbook/access.log") }

// logged writes a line per request to the access log, those of probes apart, and to standard output.
func logged(access io.Writer, next http.Handler) http.Handler {
	out := log.New(access, "", log.LstdFlags|log.LUTC)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" && r.URL.Path != "/readyz" {
			out.Printf("%s %s", r.Method, r.URL.Path)
			log.Printf("%s %s", r.Method, r.URL.Path)
		}
		next.ServeHTTP(rw, r)
	})
}
