// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package attack sends malformed requests to an API server and judges how it takes them. Touch it when something else must
// hold whatever is sent.
package attack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"minik8s.io/minik8s/test/fuzz/request"
)

const (
	// parallel is how many requests are under way.
	parallel = 8
	// slow is when an answer to a malformed request counts as late. It is far above what one takes on a busy machine.
	slow = 10 * time.Second
	// patience is how long an answer is waited for.
	patience = 40 * time.Second
	// glimpse is how long streams are listened to.
	glimpse = 30 * time.Millisecond
)

// Attack is a run of requests.
type Attack struct {
	// Base is the address of the server, without a slash at the end.
	Base string
	// Clients send in turn: request n is always that of the same one.
	Clients []*http.Client
	// Make returns request n.
	Make func(n uint64) request.Request

	mu       sync.Mutex
	findings map[string]*Finding
	codes    map[int]int
	late     map[string]time.Duration
	unsent   int
}

// Finding is something that must not happen. Those that look alike are one.
type Finding struct {
	// Number is that of the first request with it, Count of how many there were.
	Number  uint64
	Count   int
	Request request.Request
	// What happened.
	What string
}

// Clients returns administrators by HTTP/1.1 and HTTP/2, and one client that nobody knows. The configuration is the
// administrator's.
func Clients(config *tls.Config) []*http.Client {
	client := func(http2, anonymous bool) *http.Client {
		c := config.Clone()
		c.NextProtos = nil
		if anonymous {
			c.Certificates, c.GetClientCertificate = nil, nil
		}
		t := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: http2, DisableCompression: true, MaxIdleConnsPerHost: 4}
		return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	var all []*http.Client
	for i := range 15 {
		all = append(all, client(i%2 == 1, false))
	}
	return append(all, client(false, true))
}

// Run sends requests from until to-1. It returns when all are answered or ctx ends.
func (a *Attack) Run(ctx context.Context, from, to uint64) {
	var next atomic.Uint64
	next.Store(from)
	var senders sync.WaitGroup
	for range parallel {
		senders.Go(func() {
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				if n >= to {
					return
				}
				a.one(ctx, a.Clients[n%uint64(len(a.Clients))], n)
			}
		})
	}
	senders.Wait()
}

// one sends a request and judges the answer.
func (a *Attack) one(ctx context.Context, c *http.Client, n uint64) {
	q := a.Make(n)
	begin := time.Now()
	code, body, err := send(ctx, c, a.Base, q)
	took := time.Since(begin)
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.findings == nil {
		a.findings, a.codes, a.late = map[string]*Finding{}, map[int]int{}, map[string]time.Duration{}
	}
	if errors.Is(err, errUnsent) {
		a.unsent++
		return
	}
	a.codes[code]++
	if !q.Streams {
		a.late[q.Tactic] = max(a.late[q.Tactic], took)
	}
	if what := judge(q, code, body, err, took); what != "" {
		key := alike(what)
		if a.findings[key] == nil {
			a.findings[key] = &Finding{Number: n, Request: q, What: what}
		}
		a.findings[key].Count++
	}
}

// errUnsent says that net/http would not send it.
var errUnsent = errors.New("not sent")

// send returns the status and the beginning of the body of the answer.
func send(ctx context.Context, c *http.Client, base string, q request.Request) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.Method, base+"/", bytes.NewReader(q.Body))
	if err != nil {
		return 0, nil, errUnsent
	}
	path, query, _ := strings.Cut(q.Target, "?")
	// As it is: net/url would mend it.
	r.URL.Opaque, r.URL.RawQuery = "//"+r.URL.Host+path, query
	r.Header = q.Header.Clone()
	answer, err := c.Do(r)
	if err != nil {
		if strings.Contains(err.Error(), "net/http: invalid") || strings.Contains(err.Error(), "http2: invalid") || strings.Contains(err.Error(), "invalid Upgrade request header") {
			return 0, nil, errUnsent
		}
		return 0, nil, err
	}
	defer answer.Body.Close()
	if q.Streams {
		stop := time.AfterFunc(glimpse, func() {
			cancel()
			answer.Body.Close() // a connection that has become another protocol's outlives the context
		})
		defer stop.Stop()
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if q.Streams {
		err = nil // it is this end that breaks off
	}
	return answer.StatusCode, body, err
}

// judge says what is wrong with an answer; "": nothing.
func judge(q request.Request, code int, body []byte, err error, took time.Duration) string {
	switch {
	case err != nil:
		return "no answer: " + err.Error()
	case code >= 500 && !honest(q, code, body):
		return fmt.Sprintf("%d: %.2000s", code, body)
	case took > slow && !q.Streams:
		return fmt.Sprintf("late: answer %d to %q took %v", code, q.Tactic, took.Round(time.Second))
	}
	return ""
}

// honest tells whether an answer that blames the server is the right one.
func honest(q request.Request, code int, body []byte) bool {
	switch code {
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		// A version that does not exist yet may exist a moment later; clients know this answer. The other text is for those
		// who set a timeout that is too short.
		// Asked by HEAD the server can only say it by the code.
		return q.Proxied || bytes.Contains(body, []byte("Too large resource version")) || bytes.Contains(body, []byte("within the allotted timeout")) ||
			q.Method == http.MethodHead && code == http.StatusGatewayTimeout && strings.Contains(q.Target, "timeout=")
	}
	return false
}

// message is that of a Status, pretty or not.
var message = regexp.MustCompile(`"message": ?"((?:[^"\\]|\\.)*)`)

// alike is the same for findings that say the same of different things: their code and their first words.
func alike(what string) string {
	code, rest, _ := strings.Cut(what, ": ")
	if m := message.FindStringSubmatch(rest); m != nil {
		rest = m[1]
	}
	words := strings.Fields(rest)
	return code + ": " + strings.Join(words[:min(5, len(words))], " ")
}

// Findings returns what was found, in the order of requests.
func (a *Attack) Findings() []Finding {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Finding
	for _, f := range a.findings {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(x, y Finding) int { return cmp.Compare(x.Number, y.Number) })
	return all
}

// Answers is how many requests were answered by a status.
func (a *Attack) Answers(code int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.codes[code]
}

// Summary tells how many answers of each status there were, and which malformations took longest to refuse.
func (a *Attack) Summary() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(a.codes)) {
		fmt.Fprintf(&b, "%d: %d  ", code, a.codes[code])
	}
	fmt.Fprintf(&b, "not sent: %d\nlongest:", a.unsent)
	tactics := slices.SortedFunc(maps.Keys(a.late), func(x, y string) int { return cmp.Compare(a.late[y], a.late[x]) })
	for _, tactic := range tactics[:min(8, len(tactics))] {
		fmt.Fprintf(&b, " %s %v;", tactic, a.late[tactic].Round(time.Millisecond))
	}
	return b.String()
}
