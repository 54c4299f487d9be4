// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// ResultsPath is where the answers of requests are that nobody waits for: GET ResultsPath + ID.
const ResultsPath = "/.minik8s/results/"

// Bounds of what is kept: a request and its answer are one object in a store that takes 1.5 MiB, and is written in JSON.
const (
	// MaxKeptBytes is how large the body of a request may be, and that of an answer.
	MaxKeptBytes = 512 << 10
	// maxKeptHeader is how large the header and the path of a request may be.
	maxKeptHeader = 16 << 10
	// maxContentType is how long that of an answer may be; a longer one is not kept.
	maxContentType = 256
)

// keepTimeout bounds what is asked of Later.
const keepTimeout = 10 * time.Second

// ErrNoResult is what Later says of an id that it does not know.
var ErrNoResult = errors.New("there is no such result: it is kept for 10 minutes")

// Later keeps requests that nobody waits for, and has each made by Call, at least once, whatever becomes of this process.
type Later interface {
	// Keep returns the id of a request when it can be lost no more. The error is ErrFull if there are too many.
	Keep(ctx context.Context, function types.NamespacedName, r Request) (id string, err error)
	// Result is the answer to a request, nil as long as there is none. The error is ErrNoResult if there is no such request of the function.
	Result(ctx context.Context, function types.NamespacedName, id string) (*Answer, error)
}

// Request is what is kept of one.
type Request struct {
	// Method, URI and Host are those of HTTP, the URI a path with a query.
	Method, URI, Host string
	// Client is who has sent it, an address with a port.
	Client string
	Header http.Header
	Body   []byte
}

func (r *Request) headerSize() int {
	size := len(r.Method) + len(r.URI) + len(r.Host) + len(r.Client)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// Answer is what is kept of one.
type Answer struct {
	// Status is that of HTTP.
	Status      int
	ContentType string
	Body        []byte
	// TooLarge tells that the body had more than MaxKeptBytes, and is not here.
	TooLarge bool
}

// later keeps requests with "Prefer: respond-async" (RFC 7240), which it answers with 202 and an id, and answers those for results. All
// others are next's.
func (a *Activator) later(name types.NamespacedName, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch id, found := strings.CutPrefix(r.URL.Path, ResultsPath); {
		case found:
			a.result(w, r, name, id)
		case strings.HasPrefix(r.URL.Path, "/.minik8s/"): // what is under it is between the controller and pods
			w.WriteHeader(http.StatusNotFound)
			writeError(w, "there is nothing at "+r.URL.Path)
		case slices.ContainsFunc(r.Header["Prefer"], func(v string) bool { return strings.Contains(v, "respond-async") }):
			a.keep(w, r, name)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (a *Activator) keep(w http.ResponseWriter, r *http.Request, name types.NamespacedName) {
	body, ok := a.whole(w, r, MaxKeptBytes)
	if !ok {
		return
	}
	kept := Request{Method: r.Method, URI: r.URL.RequestURI(), Host: r.Host, Client: r.RemoteAddr, Header: r.Header.Clone(), Body: body}
	kept.Header.Del("Prefer")
	if kept.headerSize() > maxKeptHeader {
		w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
		writeError(w, fmt.Sprintf("the header and path of a request that nobody waits for have at most %d bytes", maxKeptHeader))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), keepTimeout)
	defer cancel()
	id, err := a.config.Later.Keep(ctx, name, kept)
	if errors.Is(err, ErrFull) {
		answerError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		writeError(w, "the request cannot be kept: "+err.Error())
		return
	}
	w.Header().Set("Location", ResultsPath+id)
	w.Header().Set("Preference-Applied", "respond-async")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": id, "result": ResultsPath + id})
}

func (a *Activator) result(w http.ResponseWriter, r *http.Request, name types.NamespacedName, id string) {
	ctx, cancel := context.WithTimeout(r.Context(), keepTimeout)
	defer cancel()
	answer, err := a.config.Later.Result(ctx, name, id)
	switch {
	case errors.Is(err, ErrNoResult):
		w.WriteHeader(http.StatusNotFound)
		writeError(w, ErrNoResult.Error())
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		writeError(w, "the result cannot be looked up: "+err.Error())
	case answer == nil:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusAccepted)
	case answer.TooLarge:
		w.WriteHeader(http.StatusInsufficientStorage)
		writeError(w, "the answer has more than 512 KiB, which is not kept")
	default:
		w.Header().Set("Content-Type", answer.ContentType)
		w.WriteHeader(answer.Status)
		_, _ = w.Write(answer.Body) // a client that has gone wants no answer
	}
}

// Call makes a request that was kept, and returns its answer; false if the function is not served here. Once ctx has ended the answer means
// nothing.
func (a *Activator) Call(ctx context.Context, name types.NamespacedName, r Request) (Answer, bool) {
	f := a.function(name)
	if f == nil {
		return Answer{}, false
	}
	into := &recorder{header: http.Header{}, status: http.StatusOK}
	// By what is in the context ReverseProxy knows that it may panic when an answer breaks off.
	req, err := http.NewRequestWithContext(context.WithValue(ctx, http.ServerContextKey, f.server), r.Method, "/", bytes.NewReader(r.Body))
	if err == nil {
		req.URL, err = url.ParseRequestURI(r.URI)
	}
	if err != nil {
		into.WriteHeader(http.StatusBadRequest)
		writeError(into, err.Error())
		return into.answer(), true
	}
	req.Host, req.RemoteAddr, req.RequestURI = r.Host, r.Client, r.URI
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	into.record(name, func() { f.direct.ServeHTTP(into, req) })
	return into.answer(), true
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	cut    bool
}

// record has an answer written, which may break off.
func (r *recorder) record(name types.NamespacedName, answer func()) {
	complete := false
	defer func() {
		p := recover()
		err, _ := p.(error)
		if p != nil && !errors.Is(err, http.ErrAbortHandler) { // by which ReverseProxy says that an answer broke off
			klog.Background().Error(fmt.Errorf("panic: %v", p), "Calling a function", "function", name)
		}
		if !complete {
			r.header, r.status, r.cut = http.Header{}, http.StatusBadGateway, false
			r.body.Reset()
			writeError(&r.body, "the function's answer broke off")
		}
	}()
	answer()
	complete = true
}

func (r *recorder) answer() Answer {
	a := Answer{Status: r.status, TooLarge: r.cut}
	if kind := r.header.Get("Content-Type"); len(kind) <= maxContentType {
		a.ContentType = kind
	}
	if !r.cut {
		a.Body = r.body.Bytes()
	}
	return a
}

// Header is that of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the status.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write keeps what is not too much.
func (r *recorder) Write(data []byte) (int, error) {
	if r.body.Len()+len(data) > MaxKeptBytes {
		r.cut = true
		return len(data), nil
	}
	return r.body.Write(data)
}
