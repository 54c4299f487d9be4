// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// ResultsPath is where the answers of asynchronous requests are: GET ResultsPath + ID.
const ResultsPath = "/.minik8s/results/"

// Bounds of asynchronous requests. Answers are in memory only: they are lost with the process.
const (
	// MaxResults is how many are kept, of all functions; the oldest that has its answer goes first.
	MaxResults = 1000
	// MaxResultBytes is how large a request, and an answer, may be.
	MaxResultBytes = 1 << 20
	// MaxResultsBytes is how much is kept of all of them together.
	MaxResultsBytes = 64 << 20
	// ResultsKept is for how long.
	ResultsKept = 10 * time.Minute
)

// result is the answer of an asynchronous request, once there is one.
type result struct {
	function types.NamespacedName
	begun    time.Time
	done     bool
	size     int // of the request, and of the answer once there is one
	status   int
	header   http.Header
	body     bytes.Buffer
	cut      bool // the answer was too large
}

// results are the asynchronous requests of all functions.
type results struct {
	mu    sync.Mutex
	all   map[string]*result
	order []string // of their ids, oldest first
	size  int      // of all of them
}

func newResults() *results { return &results{all: map[string]*result{}} }

// handler takes requests with "Prefer: respond-async" (RFC 7240), which it answers with 202 and an id at once, and those for results.
// All others are next's.
func (r *results) handler(name types.NamespacedName, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch id, found := strings.CutPrefix(req.URL.Path, ResultsPath); {
		case found:
			r.get(w, name, id)
		case strings.HasPrefix(req.URL.Path, "/.minik8s/"): // what is under it is between the controller and pods
			w.WriteHeader(http.StatusNotFound)
			writeError(w, "there is nothing at "+req.URL.Path)
		case slices.ContainsFunc(req.Header["Prefer"], func(v string) bool { return strings.Contains(v, "respond-async") }):
			r.begin(w, req, name, next)
		default:
			next.ServeHTTP(w, req)
		}
	})
}

func (r *results) begin(w http.ResponseWriter, req *http.Request, name types.NamespacedName, next http.Handler) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, MaxResultBytes))
	if err != nil {
		answerError(w, req, err)
		return
	}
	id := rand.Text()
	res := &result{function: name, begun: time.Now(), size: len(body), header: http.Header{}}
	if !r.add(id, res) {
		answerError(w, req, errFull)
		return
	}
	later := req.Clone(context.WithoutCancel(req.Context()))
	later.Header.Del("Prefer")
	later.Body, later.ContentLength, later.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	go func() {
		into := &recorder{header: http.Header{}, status: http.StatusOK}
		defer func() {
			p := recover()
			err, _ := p.(error)
			if p != nil && !errors.Is(err, http.ErrAbortHandler) { // by which ReverseProxy says that an answer broke off
				klog.Background().Error(fmt.Errorf("panic: %v", p), "Calling a function", "function", name)
			}
			r.finish(res, into)
		}()
		next.ServeHTTP(into, later)
		into.complete = true
	}()
	w.Header().Set("Location", ResultsPath+id)
	w.Header().Set("Preference-Applied", "respond-async")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": id, "result": ResultsPath + id})
}

// add makes room, and tells whether there is some.
func (r *results) add(id string, res *result) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trim(1, res.size)
	if len(r.all) >= MaxResults || r.size+res.size > MaxResultsBytes {
		return false
	}
	r.all[id] = res
	r.order = append(r.order, id)
	r.size += res.size
	return true
}

// trim lets answers go that have been kept long enough, and the oldest ones until there is room for so many more of such a size. What
// has no answer yet stays.
func (r *results) trim(more, size int) {
	kept := r.order[:0]
	for _, id := range r.order {
		old := r.all[id]
		full := len(r.all)+more > MaxResults || r.size+size > MaxResultsBytes
		if old.done && (full || time.Since(old.begun) > ResultsKept) {
			delete(r.all, id)
			r.size -= old.size
			continue
		}
		kept = append(kept, id)
	}
	r.order = kept
}

func (r *results) finish(res *result, from *recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res.done, res.status, res.header, res.body, res.cut = true, from.status, from.header, from.body, from.cut
	if !from.complete {
		res.status, res.cut = http.StatusBadGateway, false
		res.body.Reset()
		writeError(&res.body, "the function's answer broke off")
	}
	r.size -= res.size
	res.size = res.body.Len()
	r.size += res.size
	r.trim(0, 0)
}

func (r *results) get(w http.ResponseWriter, name types.NamespacedName, id string) {
	r.mu.Lock()
	res := r.all[id]
	var done, cut bool
	var status int
	var kind string
	var body []byte
	if res != nil && res.function == name {
		done, cut, status, kind, body = res.done, res.cut, res.status, res.header.Get("Content-Type"), res.body.Bytes()
	} else {
		res = nil
	}
	r.mu.Unlock()
	switch {
	case res == nil:
		w.WriteHeader(http.StatusNotFound)
		writeError(w, "there is no such result: it is kept for 10 minutes at most, and no longer than the controller runs")
	case !done:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusAccepted)
	case cut:
		w.WriteHeader(http.StatusInsufficientStorage)
		writeError(w, "the answer has more than 1 MiB, which is not kept")
	default:
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write(body) // a client that has gone wants no answer
	}
}

// recorder keeps an answer.
type recorder struct {
	header   http.Header
	status   int
	body     bytes.Buffer
	cut      bool
	complete bool
}

// Header is that of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the status.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write keeps what is not too much.
func (r *recorder) Write(data []byte) (int, error) {
	if r.body.Len()+len(data) > MaxResultBytes {
		r.cut = true
		return len(data), nil
	}
	return r.body.Write(data)
}
