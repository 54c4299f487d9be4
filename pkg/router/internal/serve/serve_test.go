// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

//nolint:bodyclose // do closes them
package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

var (
	plain  = netip.MustParseAddrPort("127.0.0.1:0")
	secure = netip.MustParseAddrPort("127.0.0.2:0")
)

// router is a server of one route on both ports.
type router struct {
	*Server
	t *testing.T
}

func newRouter(t *testing.T) *router {
	t.Helper()
	r := &router{New(), t}
	t.Cleanup(func() {
		addresses := []netip.AddrPort{r.Addr(plain), r.Addr(secure)}
		r.Close()
		for _, a := range addresses {
			if l, err := net.Listen("tcp", a.String()); a.IsValid() && err != nil {
				t.Errorf("the port is still open: %v", err)
			} else if a.IsValid() {
				_ = l.Close()
			}
		}
	})
	return r
}

// route serves all by an action.
func (r *router) route(a table.Action) {
	r.t.Helper()
	route := &table.Route{Match: table.Match{Path: "/"}, Action: a}
	r.serve(table.Contents{
		Ports:   []table.Port{{Address: plain, Protocol: table.HTTP}, {Address: secure, Protocol: table.HTTPS, AnyName: true}},
		Entries: []table.Entry{{Port: plain, Route: route}, {Port: secure, Route: route}},
	})
}

func (r *router) serve(c table.Contents) {
	r.t.Helper()
	if failed := r.Serve(table.Build(c)); len(failed) > 0 {
		r.t.Fatal(failed)
	}
}

func (r *router) url(path string) string { return "http://" + r.Addr(plain).String() + path }

// to is an action with one backend.
func to(key string, endpoints ...string) table.Action {
	return table.Action{Backends: []table.WeightedBackend{{Weight: 1, Backend: table.NewBackend(key, table.HTTP1, endpoints)}}}
}

// backend is a server that answers by f.
func backend(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// gone is an address where nobody listens, and which nobody else gets while the test runs.
func gone(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", own.(*unix.SockaddrInet4).Port)
}

func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true} //nolint:gosec // which certificate there is, is looked at
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func do(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := client(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(data)
}

func newRequest(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func status(t *testing.T, method, url, body string) int {
	t.Helper()
	answer, _ := do(t, newRequest(t, method, url, body))
	return answer.StatusCode
}

func TestServe_WhatABackendSees(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	address := backend(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r })
	r := newRouter(t)
	path := "/new"
	a := to("b", address)
	a.Request = &table.HeaderChange{Set: []table.Header{{Name: "X-Set", Value: "s"}}, Add: []table.Header{{Name: "X-Add", Value: "2"}}, Remove: []string{"X-Remove"}}
	a.Response = &table.HeaderChange{Set: []table.Header{{Name: "X-Answer", Value: "yes"}}}
	a.Rewrite = &table.Rewrite{Path: &table.PathChange{Prefix: &path}}
	r.route(a)
	req := newRequest(t, "GET", r.url("/a%2Fb/c?x=1;2&y=%zz"), "")
	req.Host = "shop.example.com"
	req.Header = http.Header{"X-Add": {"1"}, "X-Remove": {"x"}, "X-Forwarded-For": {"192.0.2.1"}, "X-Real-Ip": {"192.0.2.1"}, "X-Forwarded-Port": {"1"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}}
	answer, _ := do(t, req)
	if answer.StatusCode != 200 || answer.Header.Get("X-Answer") != "yes" {
		t.Errorf("answer is %v", answer)
	}
	got := <-seen
	for _, tc := range []struct{ name, got, want string }{
		{"host", got.Host, "shop.example.com"},
		{"path", got.RequestURI, "/new/a%2Fb/c?x=1;2&y=%zz"},
		{"set", got.Header.Get("X-Set"), "s"},
		{"added", strings.Join(got.Header["X-Add"], ","), "1,2"},
		{"removed", got.Header.Get("X-Remove"), ""},
		{"for", got.Header.Get("X-Forwarded-For"), "127.0.0.1"},
		{"real address", got.Header.Get("X-Real-Ip"), "127.0.0.1"},
		{"port of the client's making", got.Header.Get("X-Forwarded-Port"), ""},
		{"proto", got.Header.Get("X-Forwarded-Proto"), "http"},
		{"forwarded host", got.Header.Get("X-Forwarded-Host"), "shop.example.com"},
		{"hop by hop", got.Header.Get("X-Hop"), ""},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, tc.got, tc.want)
		}
	}
}

func TestServe_WithoutABackend(t *testing.T) {
	t.Parallel()
	r := newRouter(t)
	refused := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	})
	slow := backend(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	limited := func(a table.Action, f func(*table.Action)) table.Action {
		f(&a)
		return a
	}
	for _, tc := range []struct {
		name   string
		action table.Action
		want   int
	}{
		{"nothing", table.Action{}, 500},
		{"not usable", table.Action{Backends: []table.WeightedBackend{{Weight: 1}}}, 500},
		{"no weight", table.Action{Backends: []table.WeightedBackend{{Backend: table.NewBackend("x", table.HTTP1, []string{"127.0.0.1:1"})}}}, 500},
		{"no endpoint", to("x"), 503},
		{"gone", to("x", gone(t)), 502},
		{"breaks off", to("x", refused), 502},
		{"time of the request", limited(to("x", slow), func(a *table.Action) { a.RequestTimeout = 50 * time.Millisecond }), 504},
		{"time of the backend", limited(to("x", slow), func(a *table.Action) { a.BackendTimeout = 50 * time.Millisecond }), 504},
		{"time of the header", limited(to("x", slow), func(a *table.Action) { a.HeaderTimeout = 50 * time.Millisecond }), 504},
		{"redirect", limited(table.Action{}, func(a *table.Action) { a.Redirect = &table.Redirect{Scheme: "https", Code: 301} }), 301},
	} {
		r.route(tc.action)
		if got := status(t, "GET", r.url("/"), ""); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	r.serve(table.Contents{Ports: []table.Port{{Address: plain, Protocol: table.HTTP}}})
	if got := status(t, "GET", r.url("/"), ""); got != 404 {
		t.Errorf("without a route: %d", got)
	}
}

// What a route names that is not there is told to who asks for it.
func TestServe_Absent(t *testing.T) {
	t.Parallel()
	r := newRouter(t)
	action := to("x")
	action.Backends[0].Backend.Absent = "service a/b not found"
	r.route(action)
	answer, err := http.Get(r.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || string(text) != "service a/b not found\n" {
		t.Errorf("%s, %q, %v", answer.Status, text, err)
	}
}

// A client that does not send what it has promised is not waited for, one that does not say how much there is may take its time.
func TestServe_SlowBody(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	address := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	r := newRouter(t)
	r.proxy.bodyTime = 50 * time.Millisecond
	r.route(to("x", address))
	c, err := net.Dial("tcp", r.Addr(plain).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\nhello")
	if err := <-ended; err == nil {
		t.Error("the backend has all of the body")
	}
	if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && answer.StatusCode < 500 {
		t.Errorf("answer is %d", answer.StatusCode)
	}
	reader, writer := io.Pipe()
	go func() {
		_, _ = io.WriteString(writer, "hello")
		<-time.After(150 * time.Millisecond)
		_ = writer.Close()
	}()
	req := newRequest(t, "POST", r.url("/"), "")
	req.Body = reader
	if answer, _ := do(t, req); answer.StatusCode != 200 || <-ended != nil {
		t.Errorf("answer to a stream is %d", answer.StatusCode)
	}
	// What was set for one request is not there for the next one of the connection.
	if got := status(t, "POST", r.url("/"), "hello"); got != 200 || <-ended != nil {
		t.Errorf("answer is %d", got)
	}
}

// A small body is read before its request is sent, and leaves with the header: a backend waits for no client, and a write less is made.
func TestServe_SmallBody(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		sent  string // by the client
		first string // what a backend reads first ends with this; empty: it is not asked at all
	}{
		{"whole", "Content-Length: 5\r\n\r\nhello", "\r\n\r\nhello"},
		{"cut off", "Content-Length: 6\r\n\r\nhello", ""},
		{"not yet to be sent", "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", "\r\n\r\n"},
		{"with a retry", "Content-Length: 5\r\nRetried: yes\r\n\r\nhello", "\r\n\r\nhello"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			read := make(chan string, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					read <- ""
					return
				}
				defer c.Close()
				buffer := make([]byte, 64<<10)
				n, _ := c.Read(buffer)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				read <- string(buffer[:n])
			}()
			r := newRouter(t)
			r.proxy.bodyTime = 100 * time.Millisecond
			action := to("x", gone(t), l.Addr().String())
			if !strings.Contains(tc.sent, "Retried") {
				action = to("x", l.Addr().String())
			}
			r.route(action)
			c, err := net.Dial("tcp", r.Addr(plain).String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n"+tc.sent)
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || (answer.StatusCode == 200) != (tc.first != "") {
				t.Errorf("answer %v, error %v", answer, err)
			}
			if tc.first == "" {
				_ = l.Close()
			}
			if got := <-read; !strings.HasSuffix(got, tc.first) || (got == "") != (tc.first == "") {
				t.Errorf("a backend reads %q first", got)
			}
		})
	}
}

// A client of HTTP/2 may take any time for its body, however small: a backend has its request before that.
func TestServe_SmallBodyOfHTTP2(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 1)
	address := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	r := newRouter(t)
	r.route(to("x", address))
	reader, writer := io.Pipe()
	go func() {
		<-came
		_, _ = io.WriteString(writer, "hello")
		_ = writer.Close()
	}()
	req := newRequest(t, "POST", "https://"+r.Addr(secure).String(), "")
	req.Body, req.ContentLength = reader, 5
	if answer, _ := do(t, req); answer.StatusCode != 200 || answer.ProtoMajor != 2 {
		t.Errorf("answer is %d, by %s", answer.StatusCode, answer.Proto)
	}
}

// An upload may take longer than a backend may be silent: that counts from the last piece on, and then it counts.
func TestServe_LongUpload(t *testing.T) {
	t.Parallel()
	const limit, pieces = 400 * time.Millisecond, 12
	for _, tc := range []struct {
		name    string
		answers bool
		length  int64 // -1: the client does not say
		want    int
	}{
		{"of known length", true, pieces << 10, 200},
		{"of unknown length", true, -1, 200},
		{"without an answer", false, pieces << 10, 504},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			address := backend(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if !tc.answers {
					<-r.Context().Done()
				}
			})
			r := newRouter(t)
			action := to("x", address)
			action.HeaderTimeout = limit
			r.route(action)
			reader, writer := io.Pipe()
			go func() {
				for range pieces {
					<-time.After(limit / 8)
					_, _ = io.WriteString(writer, strings.Repeat("x", 1<<10))
				}
				_ = writer.Close()
			}()
			req := newRequest(t, "POST", r.url("/"), "")
			req.Body, req.ContentLength = reader, tc.length
			if answer, _ := do(t, req); answer.StatusCode != tc.want {
				t.Errorf("answer is %d, want %d", answer.StatusCode, tc.want)
			}
		})
	}
}

// An endpoint that is gone costs nobody a request, one that breaks off those only that may have done something.
func TestServe_OtherEndpoints(t *testing.T) {
	t.Parallel()
	good := backend(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	var broken atomic.Int32
	breaks := backend(t, func(http.ResponseWriter, *http.Request) {
		broken.Add(1)
		panic(http.ErrAbortHandler)
	})
	r := newRouter(t)
	r.route(to("x", gone(t), good))
	for range 6 {
		if answer, text := do(t, newRequest(t, "POST", r.url("/"), "hello")); answer.StatusCode != 200 || text != "hello" {
			t.Errorf("%d %q", answer.StatusCode, text)
		}
	}
	r.route(to("x", breaks, good))
	for range 6 {
		if got := status(t, "GET", r.url("/"), ""); got != 200 {
			t.Errorf("GET: %d", got)
		}
	}
	if broken.Load() == 0 {
		t.Error("nobody has asked the endpoint that breaks off")
	}
	failed := 0
	for range 6 {
		if status(t, "POST", r.url("/"), "hello") == 502 {
			failed++
		}
	}
	if failed != 3 {
		t.Errorf("%d of 6 POSTs failed, want those to the endpoint that breaks off", failed)
	}
}

// A request whose only endpoint is gone waits a little for the table to know another one, which is some milliseconds late here.
func TestServe_EndpointThatComes(t *testing.T) {
	t.Parallel()
	good := backend(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	r := newRouter(t)
	var first sync.Once
	r.proxy.dialer.Control = func(string, string, syscall.RawConn) error {
		first.Do(func() { time.AfterFunc(50*time.Millisecond, func() { r.route(to("x", good)) }) })
		return nil
	}
	r.route(to("x", gone(t)))
	if answer, text := do(t, newRequest(t, "POST", r.url("/"), "hello")); answer.StatusCode != 200 || text != "hello" {
		t.Errorf("%d %q", answer.StatusCode, text)
	}
}

func TestServe_Retry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		bad      int32 // answers before a good one
		attempts int
		body     string
		want     int
		asked    int32
	}{
		{"none", 1, 0, "", 500, 1},
		{"enough", 2, 2, "", 200, 3},
		{"with a body", 2, 2, "hello", 200, 3},
		{"not enough", 3, 2, "", 500, 3},
		{"a body that is too large", 1, 2, strings.Repeat("x", maxRetried+1), 500, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			address := backend(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if string(body) != tc.body {
					t.Errorf("attempt %d has a body of %d bytes", asked.Load(), len(body))
				}
				if asked.Add(1) <= tc.bad {
					w.WriteHeader(500)
				}
			})
			r := newRouter(t)
			a := to("x", address)
			a.Retry = table.Retry{Codes: []int{500}, Attempts: tc.attempts, Backoff: time.Millisecond}
			r.route(a)
			if got := status(t, "POST", r.url("/"), tc.body); got != tc.want || asked.Load() != tc.asked {
				t.Errorf("%d after %d attempts, want %d after %d", got, asked.Load(), tc.want, tc.asked)
			}
		})
	}
}

// An answer that is not wanted is not waited for.
func TestServe_RetryEndless(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	address := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(500)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	r := newRouter(t)
	a := to("x", address)
	a.Retry = table.Retry{Codes: []int{500}, Attempts: 1}
	r.route(a)
	if got := status(t, "GET", r.url("/"), ""); got != 200 || asked.Load() != 2 {
		t.Errorf("%d after %d attempts", got, asked.Load())
	}
}

// The time for an attempt goes on until its body has ended, and no longer.
func TestServe_TimeOfBody(t *testing.T) {
	t.Parallel()
	address := backend(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	for _, tc := range []struct {
		name            string
		header, backend time.Duration
		close           bool
		want            error
	}{
		{"it is up", time.Hour, 100 * time.Millisecond, false, errTimeout},
		{"it is closed", time.Hour, time.Hour, true, context.Canceled},
		{"it is closed, and only the header has a limit", time.Hour, 0, true, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRouter(t)
			a := to("x", address)
			a.HeaderTimeout, a.BackendTimeout = tc.header, tc.backend
			x := &exchange{proxy: r.proxy, route: &table.Route{Action: a}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			answer, err := x.attempt(newRequest(t, "GET", "http://x/", "").WithContext(ctx), a.Backends[0].Backend, address)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if tc.close {
				_ = answer.Body.Close()
			} else if _, err := io.ReadAll(answer.Body); err == nil {
				t.Error("the body has an end")
			}
			if got := context.Cause(answer.Request.Context()); !errors.Is(got, tc.want) {
				t.Errorf("the attempt has ended by %v, want %v", got, tc.want)
			}
			if timer := answer.Body.(*limitedBody).total; timer != nil && timer.Stop() {
				t.Error("the timer runs on")
			}
		})
	}
}

func TestServe_Mirror(t *testing.T) {
	t.Parallel()
	type copied struct{ path, body, header string }
	seen := make(chan copied, 1)
	mirror := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- copied{r.URL.Path, string(body), r.Header.Get("X-Set")}
	})
	good := backend(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	r := newRouter(t)
	a := to("x", good)
	a.Request = &table.HeaderChange{Set: []table.Header{{Name: "X-Set", Value: "1"}}}
	a.Mirrors = []table.Mirror{{Backend: table.NewBackend("m", table.HTTP1, []string{mirror}), Numerator: 1, Denominator: 1}}
	r.route(a)
	for _, body := range []string{"", "hello"} {
		if _, text := do(t, newRequest(t, "POST", r.url("/path"), body)); text != body {
			t.Errorf("answer is %q", text)
		}
		if diff := cmp.Diff(copied{"/path", body, "1"}, <-seen, cmp.AllowUnexported(copied{})); diff != "" {
			t.Errorf("copy (-want +got):\n%s", diff)
		}
	}
}

// A backend may say something else of other origins than its route.
func TestServe_CORSOfBackend(t *testing.T) {
	t.Parallel()
	r := newRouter(t)
	endpoint := backend(t, func(http.ResponseWriter, *http.Request) {})
	const origin = "https://backend.com"
	for _, tt := range []struct {
		name string
		cors *table.CORS
		want string
	}{{"the route's", nil, ""}, {"its own", &table.CORS{Origins: []string{origin}}, origin}} {
		a := to("a", endpoint)
		a.CORS, a.Backends[0].Filters.CORS = &table.CORS{Origins: []string{"https://route.com"}}, tt.cors
		r.route(a)
		for method, code := range map[string]int{http.MethodGet: http.StatusOK, http.MethodOptions: http.StatusNoContent} {
			request := newRequest(t, method, r.url("/"), "")
			request.Header.Set("Origin", origin)
			request.Header.Set("Access-Control-Request-Method", http.MethodGet)
			answer, _ := do(t, request)
			if got := answer.Header.Get("Access-Control-Allow-Origin"); answer.StatusCode != code || got != tt.want {
				t.Errorf("%s: %s is answered by %d, allowed is %q", tt.name, method, answer.StatusCode, got)
			}
		}
	}
}

// upgrading is a backend that takes up another protocol, which f speaks.
func upgrading(t *testing.T, f func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	return backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			t.Errorf("Upgrade is %q", r.Header.Get("Upgrade"))
		}
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		f(c, rw.Reader)
	})
}

// echoes sends back what it gets.
func echoes(c net.Conn, in *bufio.Reader) { _, _ = io.Copy(c, in) }

// upgraded is a connection that was upgraded, and what reads it. It is closed by the caller.
func upgraded(t *testing.T, r *router) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr(plain).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", answer, err)
	}
	return c, in
}

// echoed checks that what is sent comes back.
func echoed(t *testing.T, c net.Conn, in *bufio.Reader) {
	t.Helper()
	_, _ = io.WriteString(c, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestServe_Upgrade(t *testing.T) {
	t.Parallel()
	r := newRouter(t)
	a := to("x", upgrading(t, echoes))
	a.BackendTimeout, a.HeaderTimeout = 100*time.Millisecond, 100*time.Millisecond // what was upgraded has no end
	r.route(a)
	c, in := upgraded(t, r)
	<-time.After(150 * time.Millisecond) // the limits have passed
	echoed(t, c, in)
}

// What was upgraded has as long to end as all else when its port is closed.
func TestServe_UpgradeEnds(t *testing.T) {
	t.Parallel()
	const short = 300 * time.Millisecond
	for _, tc := range []struct {
		name  string
		drain time.Duration
		speak func(net.Conn, *bufio.Reader)
		then  func(*testing.T, net.Conn, *bufio.Reader)
		least time.Duration
	}{
		{"its time is up", short, echoes, func(t *testing.T, _ net.Conn, in *bufio.Reader) {
			t.Helper()
			if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection is there: %v", err)
			}
		}, short},
		{"the client reads nothing", short, func(c net.Conn, _ *bufio.Reader) {
			for err := error(nil); err == nil; {
				_, err = c.Write(make([]byte, bufferSize))
			}
		}, func(*testing.T, net.Conn, *bufio.Reader) {}, short},
		{"it ends before", time.Hour, echoes, func(t *testing.T, c net.Conn, in *bufio.Reader) {
			t.Helper()
			echoed(t, c, in)
			_ = c.Close()
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRouter(t)
			r.drainTime = tc.drain
			r.route(to("x", upgrading(t, tc.speak)))
			c, in := upgraded(t, r)
			ended, before := make(chan struct{}), time.Now()
			r.serve(table.Contents{})
			go func() {
				r.closing.Wait()
				close(ended)
			}()
			tc.then(t, c, in)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("the port has not ended")
			}
			if took := time.Since(before); took < tc.least {
				t.Errorf("the port has ended after %s", took)
			}
		})
	}
}

// What is written is seen at once, and trailers follow, over HTTP/2 from the client to the backend.
func TestServe_StreamsOfHTTP2(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the backend is asked by %s", r.Proto)
		}
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = io.Copy(flushing{w}, r.Body)
		w.Header().Set("Grpc-Status", "0, and "+r.Trailer.Get("Grpc-Client"))
	})}
	b.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = b.Serve(l) }()
	t.Cleanup(func() { _ = b.Close() })
	r := newRouter(t)
	r.route(table.Action{
		Backends:       []table.WeightedBackend{{Weight: 1, Backend: table.NewBackend("h2c", table.H2C, []string{l.Addr().String()})}},
		BackendTimeout: time.Minute, // which is no hindrance
	})
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(h2c.CloseIdleConnections)
	for name, at := range map[string]struct {
		client *http.Client
		url    string
	}{
		"TLS":     {client(t), "https://" + r.Addr(secure).String()},
		"without": {&http.Client{Transport: h2c}, r.url("/")},
	} {
		t.Run(name, func(t *testing.T) {
			reader, writer := io.Pipe()
			req := newRequest(t, "POST", at.url, "")
			req.Body, req.Trailer, req.ContentLength = reader, http.Header{"Grpc-Client": nil}, -1
			answered := make(chan *http.Response, 1)
			go func() {
				answer, err := at.client.Do(req)
				if err != nil {
					t.Error(err)
					_ = reader.CloseWithError(err)
				}
				answered <- answer
			}()
			if _, err := io.WriteString(writer, "one"); err != nil {
				t.Fatal(err)
			}
			answer := <-answered
			if answer == nil {
				return
			}
			defer answer.Body.Close()
			buffer := make([]byte, 3)
			for _, text := range []string{"one", "two"} {
				if _, err := io.ReadFull(answer.Body, buffer); err != nil || string(buffer) != text {
					t.Fatalf("%q, %v", buffer, err)
				}
				if text == "one" {
					if _, err := io.WriteString(writer, "two"); err != nil {
						t.Fatal(err)
					}
				}
			}
			req.Trailer.Set("Grpc-Client", "me")
			_ = writer.Close()
			if _, err := io.ReadAll(answer.Body); err != nil {
				t.Fatal(err)
			}
			if got := answer.Trailer.Get("Grpc-Status"); answer.ProtoMajor != 2 || got != "0, and me" {
				t.Errorf("%s with trailer %q", answer.Proto, got)
			}
		})
	}
}

type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, _ := f.ResponseWriter.Write(p)
	return n, http.NewResponseController(f.ResponseWriter).Flush()
}

func TestServe_Certificates(t *testing.T) {
	t.Parallel()
	named := func() *tls.Certificate {
		c, err := selfSigned()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	exact, wildcard := named(), named()
	r := newRouter(t)
	contents := table.Contents{
		Ports:        []table.Port{{Address: secure, Protocol: table.HTTPS}},
		Certificates: []table.Certificate{{Port: secure, Host: "a.example.com", Certificate: exact}, {Port: secure, Host: "*.example.com", Certificate: wildcard}},
	}
	r.serve(contents)
	for _, tc := range []struct {
		name    string
		any     bool
		want    *tls.Certificate
		refused bool
	}{
		{"a.example.com", false, exact, false},
		{"A.Example.com", false, exact, false},
		{"b.example.com", false, wildcard, false},
		{"other.com", false, nil, true},
		{"other.com", true, nil, false},
	} {
		contents.Ports[0].AnyName = tc.any
		r.serve(contents)
		c, err := tls.Dial("tcp", r.Addr(secure).String(), &tls.Config{ServerName: tc.name, InsecureSkipVerify: true}) //nolint:gosec // which one it is, is looked at
		if (err != nil) != tc.refused {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err != nil {
			continue
		}
		if got := c.ConnectionState().PeerCertificates[0].Raw; tc.want != nil && !cmp.Equal(got, tc.want.Certificate[0]) {
			t.Errorf("%s: another certificate", tc.name)
		}
		_ = c.Close()
	}
}

// A port that another program has is told, and opened once it is free.
func TestServe_PortInUse(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := netip.MustParseAddrPort(other.Addr().String())
	r := newRouter(t)
	contents := table.Contents{Ports: []table.Port{{Address: port, Protocol: table.HTTP}, {Address: plain, Protocol: table.HTTP}}}
	failed := r.Serve(table.Build(contents))
	if failed[port] == nil || len(failed) != 1 || !r.Addr(plain).IsValid() {
		t.Errorf("failed: %v", failed)
	}
	_ = other.Close()
	r.serve(contents)
	r.serve(table.Contents{})
	if r.Addr(port).IsValid() {
		t.Error("the port is open although nobody wants it")
	}
}

// Tables and endpoints change under load, and no request is lost.
func TestServe_Reload(t *testing.T) {
	t.Parallel()
	r := newRouter(t)
	start := func() (string, func()) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
		return s.Listener.Addr().String(), func() {
			// As a pod ends: it stops to listen, and what it was asked for is answered.
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_ = s.Config.Shutdown(ctx)
			s.Close()
		}
	}
	address, stop := start()
	r.route(to("x", address))
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var good atomic.Int64
	for range 8 {
		c := client(t)
		load.Go(func() {
			for ctx.Err() == nil {
				answer, err := c.Get(r.url("/"))
				if err != nil {
					t.Errorf("lost: %v", err)
					return
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 200 {
					t.Errorf("lost: %d, %v", answer.StatusCode, err)
				}
				_ = answer.Body.Close()
				good.Add(1)
			}
		})
	}
	for range 20 {
		before := good.Load()
		next, stopNext := start()
		r.route(to("x", address, next))
		stop()
		r.route(to("x", next))
		address, stop = next, stopNext
		for good.Load() < before+20 && !t.Failed() {
			<-time.After(time.Millisecond)
		}
	}
	cancel()
	load.Wait()
	stop()
}
