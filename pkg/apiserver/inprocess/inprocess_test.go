// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// ways are two clients of the same handler: over TLS and HTTP/2, and in process.
func ways(t *testing.T, h http.Handler) (url string, wire, local http.RoundTripper) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	wired, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is a %T", server.Client().Transport)
	}
	wired.DisableCompression = true
	here := NewServer()
	here.Serve(h)
	t.Cleanup(here.Close)
	return server.URL, wired, here.Transport(nil, wired)
}

// seen is what a handler can see of a request.
type seen struct {
	Method, Proto, Host, RequestURI, Path, RawPath, RawQuery, Form, Body string
	Major, Minor                                                         int
	ForceQuery                                                           bool
	Header                                                               http.Header
	Length                                                               int64
	Encodings                                                            []string
	Deadline                                                             bool
	Server                                                               bool
	BodyErr, Wrapped                                                     string
}

func see(w http.ResponseWriter, r *http.Request) seen {
	s := seen{
		Method: r.Method, Proto: r.Proto, Host: r.Host, RequestURI: r.RequestURI, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery,
		ForceQuery: r.URL.ForceQuery, Major: r.ProtoMajor, Minor: r.ProtoMinor, Header: r.Header.Clone(), Length: r.ContentLength, Encodings: r.TransferEncoding,
		Server: r.Context().Value(http.ServerContextKey) != nil,
	}
	_, s.Deadline = r.Context().Deadline()
	body, err := io.ReadAll(r.Body)
	s.Body, s.BodyErr = string(body), fmt.Sprint(err)
	_, flusher := w.(http.Flusher)
	_, hijacker := w.(http.Hijacker)
	_, both := w.(responsewriter.CloseNotifierFlusher)
	s.Wrapped = fmt.Sprint(flusher, hijacker, both)
	s.Form = r.FormValue("limit")
	return s
}

// TestTransport_Request: what handlers see does not tell by which way it came.
func TestTransport_Request(t *testing.T) {
	t.Parallel()
	requests := make(chan seen, 1)
	url, wire, local := ways(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests <- see(w, r) }))
	for _, tt := range []struct {
		name, method, path string
		body               io.Reader
		header             http.Header
	}{
		{name: "get", method: "GET", path: "/api/v1/pods?limit=500&labelSelector=a%3Db", header: http.Header{"Accept": {"a", "b"}, "User-Agent": {"kubelet"}}},
		{name: "no method", path: "/api"},
		{name: "no path", method: "GET"},
		{name: "a query that is empty", method: "GET", path: "/api?"},
		{name: "an escaped path", method: "GET", path: "/api/v1/namespaces/a/services/https:b:c/proxy/d%2Fe%20f"},
		{name: "a path that escapes what need not be", method: "GET", path: "/%61pi"},
		{name: "create", method: "POST", path: "/api/v1/namespaces/a/pods", body: strings.NewReader("{}"), header: http.Header{"Content-Type": {"application/json"}}},
		{name: "an empty body", method: "PUT", path: "/api", body: strings.NewReader("")},
		{name: "a body of unknown length", method: "POST", path: "/api", body: io.MultiReader(strings.NewReader("a"), strings.NewReader("b"))},
		{name: "delete", method: "DELETE", path: "/api/v1/namespaces/a/pods/b", body: bytes.NewReader([]byte("{}"))},
		{name: "impersonation", method: "GET", path: "/api", header: http.Header{"Impersonate-User": {"jane"}, "Authorization": {"Bearer token"}}},
		{name: "head", method: "HEAD", path: "/api"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all []seen
			for _, way := range []http.RoundTripper{wire, local} {
				body := tt.body
				if again, ok := body.(io.Seeker); ok {
					if _, err := again.Seek(0, io.SeekStart); err != nil {
						t.Fatal(err)
					}
				} else if body != nil {
					body = io.MultiReader(strings.NewReader("a"), strings.NewReader("b"))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // handlers must not see it
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, tt.method, url+tt.path, body)
				if err != nil {
					t.Fatal(err)
				}
				r.Method = tt.method
				maps.Copy(r.Header, tt.header)
				answer, err := way.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				all = append(all, <-requests)
			}
			if diff := cmp.Diff(all[0], all[1]); diff != "" {
				t.Errorf("by wire (-), in process (+):\n%s", diff)
			}
		})
	}
}

// got is what a client can see of an answer.
type got struct {
	Err     bool
	Status  string
	Code    int
	Proto   string
	Header  http.Header
	Length  int64
	Body    string
	BodyErr bool
}

func roundTrip(t *testing.T, way http.RoundTripper, method, url string) got {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := way.RoundTrip(r)
	if err != nil {
		return got{Err: true}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return got{Status: answer.Status, Code: answer.StatusCode, Proto: answer.Proto, Header: answer.Header, Length: answer.ContentLength, Body: string(body), BodyErr: err != nil}
}

// TestTransport_Response: what clients see does not tell either.
func TestTransport_Response(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789", window/2)
	for _, tt := range []struct {
		name   string
		method string
		answer http.HandlerFunc
	}{
		{"nothing", "GET", func(http.ResponseWriter, *http.Request) {}},
		{"text", "GET", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }},
		{"a type", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
		}},
		{"not found", "GET", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) }},
		{"the second status", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusNotFound)
		}},
		{"a header that is late", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("A", "b")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("A", "c")
		}},
		{"a length", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			fmt.Fprint(w, "ok")
		}},
		{"no content", "DELETE", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := fmt.Fprint(w, "a"); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}},
		{"head", "HEAD", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			fmt.Fprint(w, "ok")
		}},
		{"large", "GET", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, large) }},
		{"large, in pieces", "GET", func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(large); i += 10 {
				fmt.Fprint(w, large[i:i+10])
			}
		}},
		{"a stream", "GET", func(w http.ResponseWriter, _ *http.Request) {
			for _, s := range []string{"a", "b", "c"} {
				fmt.Fprint(w, s)
				w.(http.Flusher).Flush()
			}
		}},
		{"given up", "GET", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"given up before a flush", "GET", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "a")
			panic(http.ErrAbortHandler)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, wire, local := ways(t, tt.answer)
			// A server of HTTP/2 says when, and the length only of what fits into its buffer.
			if diff := cmp.Diff(roundTrip(t, wire, tt.method, url), roundTrip(t, local, tt.method, url),
				cmpopts.IgnoreMapEntries(func(name string, _ []string) bool { return name == "Date" || name == "Content-Length" }),
				cmpopts.IgnoreFields(got{}, "Length")); diff != "" {
				t.Errorf("by wire (-), in process (+):\n%s", diff)
			}
		})
	}
}

// TestTransport_Broken: a stream that breaks off has no clean end.
func TestTransport_Broken(t *testing.T) {
	t.Parallel()
	_, _, local := ways(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "a")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	answer := do(t, local, t.Context())
	if body, err := io.ReadAll(answer); string(body) != "a" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v", body, err)
	}
}

// stream is an answer that the test reads and may close; it is closed in any case.
type stream struct {
	io.ReadCloser

	status int
}

func do(t *testing.T, way http.RoundTripper, ctx context.Context) stream { //nolint:revive // as the testing package has it
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://here/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := way.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return stream{answer.Body, answer.StatusCode}
}

// TestTransport_Ends: whoever ends a stream, the other gets to know, and nobody stays.
func TestTransport_Ends(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(server *Server, answer stream, cancel func())
		want error
	}{
		{"the client closes", func(_ *Server, answer stream, _ func()) { _ = answer.Close() }, http.ErrBodyReadAfterClose},
		{"the client gives up", func(_ *Server, _ stream, cancel func()) { cancel() }, context.Canceled},
		{"the server ends", func(server *Server, _ stream, _ func()) { server.Close() }, io.ErrUnexpectedEOF},
	} {
		for _, handler := range []struct {
			name string
			wait http.HandlerFunc
		}{
			{"that waits", func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}},
			{"that is told", func(w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				<-w.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // the machinery wants it
			}},
			{"that writes", func(w http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := w.Write(make([]byte, 1000)); err != nil {
						return
					}
				}
			}},
		} {
			t.Run(tt.name+", a handler "+handler.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { // fails if a goroutine stays
					server := NewServer()
					server.Serve(handler.wait)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					answer := do(t, server.Transport(nil, nil), ctx)
					synctest.Wait()
					tt.end(server, answer, cancel)
					synctest.Wait()
					if _, err := io.ReadAll(answer); !errors.Is(err, tt.want) {
						t.Errorf("read error %v, want %v", err, tt.want)
					}
				})
			})
		}
	}
}

// TestTransport_EndsWhileSending: a handler that waits for the rest of a body does not stay either.
func TestTransport_EndsWhileSending(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(server *Server, cancel func())
		want error
	}{
		{"the client gives up", func(_ *Server, cancel func()) { cancel() }, context.Canceled},
		{"the server ends", func(server *Server, _ func()) { server.Close() }, io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // fails if a goroutine stays
				server := NewServer()
				server.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				body, _ := io.Pipe() // to which nobody writes
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://here/", body)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					synctest.Wait()
					tt.end(server, cancel)
				}()
				if _, err := server.Transport(nil, nil).RoundTrip(r); !errors.Is(err, tt.want) { //nolint:bodyclose // there is none
					t.Errorf("the answer is %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// TestServer_Serve: who comes too early waits, who comes too late is refused as by a port where nobody listens.
func TestServer_Serve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer()
		way := server.Transport(nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://here/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := way.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // there is none
			t.Errorf("nobody serves, and the answer is %v", err)
		}
		time.AfterFunc(time.Minute, func() { server.Serve(http.NotFoundHandler()) })
		if answer := do(t, way, t.Context()); answer.status != http.StatusNotFound {
			t.Errorf("status %d", answer.status)
		}
		server.Close()
		if _, err := way.RoundTrip(r.WithContext(t.Context())); !errors.Is(err, syscall.ECONNREFUSED) { //nolint:bodyclose // there is none
			t.Errorf("the server has ended, and the answer is %v", err)
		}
	})
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	server := NewServer()
	defer server.Close()
	server.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := Authenticate(r)
		if err != nil || !ok {
			fmt.Fprint(w, "nobody ", err)
			return
		}
		_, again, _ := Authenticate(r) // as a TokenReview does for what it is asked about
		fmt.Fprint(w, who.User.GetName(), who.User.GetGroups(), again)
	}))
	var me user.Info = &user.DefaultInfo{Name: "jane"}
	known := &caller{}
	known.user.Store(&me)
	jane := server.Transport(&user.DefaultInfo{Name: "jane", Groups: []string{"a"}}, nil)
	for _, tt := range []struct {
		way  http.RoundTripper
		ctx  context.Context
		want string
	}{
		{jane, t.Context(), "jane[a] false"},
		{server.Transport(nil, nil), t.Context(), "nobody <nil>"},
		// Who is served for jane and asks in turn does not ask as jane.
		{server.Transport(nil, nil), context.WithValue(t.Context(), userKey{}, known), "nobody <nil>"},
	} {
		body, err := io.ReadAll(do(t, tt.way, tt.ctx))
		if string(body) != tt.want || err != nil {
			t.Errorf("got %q, %v, want %q", body, err, tt.want)
		}
	}
}

// TestTransport_Upgrade: what takes over a connection goes where there is one.
func TestTransport_Upgrade(t *testing.T) {
	t.Parallel()
	wire := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) }))
	defer wire.Close()
	server := NewServer()
	defer server.Close()
	server.Serve(http.NotFoundHandler())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, wire.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "SPDY/3.1")
	answer, err := server.Transport(nil, http.DefaultTransport).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// TestRequestBody: a handler that goes on after its answer does not touch what is the client's again.
func TestRequestBody(t *testing.T) {
	t.Parallel()
	result := make(chan error, 1)
	answered := make(chan struct{})
	server := NewServer()
	defer server.Close()
	server.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		go func() {
			<-answered
			_, err := r.Body.Read(make([]byte, 1))
			result <- err
		}()
	}))
	closed := make(chan struct{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://here/", closer{strings.NewReader("a"), closed})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Transport(nil, nil).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	<-closed
	close(answered)
	if err := <-result; !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("read error %v", err)
	}
}

type closer struct {
	io.Reader
	closed chan struct{}
}

func (c closer) Close() error { close(c.closed); return nil }
