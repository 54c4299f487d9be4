// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package attack sends malformed requests to an API server and judges how it takes them. Touch it when something else must
// hold whatever is sent.
package attack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"minik8s.io/minik8s/test/fuzz/oracle"
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
	Clients []*Client
	// Make returns request n.
	Make func(n uint64) request.Request
	// Oracle watches over requests of users with few rights; nil for administrators.
	Oracle *oracle.Oracle

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
				a.one(ctx, a.Client(n), n)
			}
		})
	}
	senders.Wait()
}

// Client is who sends request n.
func (a *Attack) Client(n uint64) *Client { return a.Clients[n%uint64(len(a.Clients))] }

// one sends a request and judges the answer.
func (a *Attack) one(ctx context.Context, c *Client, n uint64) {
	q := a.Make(n)
	attempt, err := a.before(ctx, c, q)
	if err != nil {
		a.found(n, q, "the oracle: "+err.Error())
		return
	}
	begin := time.Now()
	code, body, err := c.send(ctx, a.Base, q)
	took := time.Since(begin)
	if ctx.Err() != nil {
		return
	}
	a.count(q, code, err, took)
	if errors.Is(err, errUnsent) {
		return
	}
	if what := judge(q, code, body, err, took); what != "" {
		a.found(n, q, what)
	}
	what, err := a.after(ctx, attempt, code, body)
	if err != nil {
		what = "the oracle: " + err.Error()
	}
	if what != "" {
		a.found(n, q, what)
	}
}

func (a *Attack) before(ctx context.Context, c *Client, q request.Request) (oracle.Attempt, error) {
	if a.Oracle == nil {
		return oracle.Attempt{}, nil
	}
	return a.Oracle.Before(ctx, c.Who, q)
}

func (a *Attack) after(ctx context.Context, attempt oracle.Attempt, code int, body []byte) (string, error) {
	if a.Oracle == nil {
		return "", nil
	}
	return a.Oracle.After(ctx, attempt, code, body)
}

func (a *Attack) count(q request.Request, code int, err error, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.codes == nil {
		a.codes, a.late = map[int]int{}, map[string]time.Duration{}
	}
	if errors.Is(err, errUnsent) {
		a.unsent++
		return
	}
	a.codes[code]++
	if !q.Streams {
		a.late[q.Tactic] = max(a.late[q.Tactic], took)
	}
}

// Found takes in what has been found of the requests before n as a whole.
func (a *Attack) Found(n uint64, what string) {
	a.found(n, request.Request{Tactic: "the requests before"}, what)
}

func (a *Attack) found(n uint64, q request.Request, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.findings == nil {
		a.findings = map[string]*Finding{}
	}
	key := alike(what)
	if a.findings[key] == nil {
		a.findings[key] = &Finding{Number: n, Request: q, What: what}
	}
	a.findings[key].Count++
}

// judge says what is wrong with an answer; "": nothing.
func judge(q request.Request, code int, body []byte, err error, took time.Duration) string {
	switch {
	case err != nil && q.Raw == nil: // what is no HTTP need not be answered
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
	case http.StatusInternalServerError:
		// Nobody reads what is said to a client that has gone in the middle of its request.
		return q.Abort && (q.Method == http.MethodHead || bytes.Contains(body, []byte("context canceled")))
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		// A version that does not exist yet may exist a moment later; clients know this answer. The other text is for those
		// who set a timeout that is too short.
		// Asked by HEAD the server can only say it by the code.
		return q.Proxied || bytes.Contains(body, []byte("Too large resource version")) || bytes.Contains(body, []byte("within the allotted timeout")) ||
			q.Method == http.MethodHead && code == http.StatusGatewayTimeout && strings.Contains(q.Target, "timeout=")
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return q.Raw != nil // net/http's answer to encodings and versions that there are not
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
