// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var fn = types.NamespacedName{Namespace: "default", Name: "hello"}

// fixture is an activator with one function.
type fixture struct {
	*Activator
	// client has connections of its own: a server of another test that is closed closes those of http.DefaultClient, too.
	client *http.Client
	url    string
	wanted chan struct{}
	failed chan string
	later  *memory
}

func serve(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{wanted: make(chan struct{}, 10000), failed: make(chan string, 100), later: &memory{answers: map[string]*Answer{}}}
	f.Activator = New(Config{
		Address: netip.MustParseAddr("127.0.0.1"),
		Wanted:  func(types.NamespacedName) { f.wanted <- struct{}{} },
		Failed:  func(_ types.NamespacedName, pod string) { f.failed <- pod },
		Webhook: hook,
		Later:   f.later,
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f.client = &http.Client{Transport: transport}
	f.later.call = f.Call
	t.Cleanup(f.Close)
	port, err := f.Serve(fn, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	return f
}

// pods returns a route to servers.
func pods(servers ...*httptest.Server) Routes {
	r := Routes{Concurrency: 1, Timeout: 10 * time.Second, Revisions: []Revision{{Name: "a", Percent: 100}}}
	for i, s := range servers {
		r.Revisions[0].Pods = append(r.Revisions[0].Pods, Pod{Name: fmt.Sprintf("p%d", i), Epoch: 1, Address: strings.TrimPrefix(s.URL, "http://")})
	}
	return r
}

func (f *fixture) do(t *testing.T, method, path, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := f.client.Do(req)
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(data), resp.Header
}

func echo(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	t.Cleanup(s.Close)
	return s
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within 10 s: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestHeldUntilThereIsAPod(t *testing.T) {
	t.Parallel()
	f := serve(t)
	const n = 50
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if status, body, _ := f.do(t, http.MethodPost, "/", fmt.Sprint(i)); status != http.StatusOK || body != fmt.Sprint(i) {
				t.Errorf("got %d %q, want the request's body %d", status, body, i)
			}
		})
	}
	for range n {
		<-f.wanted
	}
	if s := f.Stats(fn)[""]; s.Held != n || s.Outstanding != n {
		t.Errorf("got %+v, want all to be held", s)
	}
	f.Route(fn, pods(echo(t), echo(t)))
	group.Wait()
	eventually(t, "no request is outstanding", func() bool { return f.Stats(fn)["a"].Outstanding == 0 })
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-time.After(5 * time.Millisecond)
		now.Add(-1)
	}))
	t.Cleanup(slow.Close)
	f := serve(t)
	routes := pods(slow)
	routes.Concurrency = 3
	f.Route(fn, routes)
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() { f.do(t, http.MethodGet, "/", "") })
	}
	group.Wait()
	if most.Load() > 3 {
		t.Errorf("a pod had %d requests at the same time, want 3 at most", most.Load())
	}
}

func TestAPodThatTakesNoConnection(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	f := serve(t)
	routes := pods(gone, echo(t))
	f.Route(fn, routes)
	for range 3 {
		if status, body, _ := f.do(t, http.MethodPost, "/", "x"); status != http.StatusOK || body != "x" {
			t.Fatalf("got %d %q, want the answer of the pod that is there", status, body)
		}
	}
	if got := <-f.failed; got != "p0" || len(f.failed) > 0 {
		t.Errorf("%s and %d others were given up, want p0 once", got, len(f.failed))
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	dies := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got.Add(1) == 1 { // the connection is used again after this
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(dies.Close)
	f := serve(t)
	routes := pods(dies)
	f.Route(fn, routes)
	f.do(t, http.MethodGet, "/", "")
	for _, request := range []struct {
		method, body string
		header       []string
	}{
		{method: http.MethodGet},
		{method: http.MethodPost},
		{method: http.MethodPost, header: []string{"Idempotency-Key", "1"}},
		{method: http.MethodPost, body: "x"},
		{method: http.MethodPut, body: strings.Repeat("x", smallBody+1), header: []string{"X-Idempotency-Key", "1"}},
	} {
		before, method := got.Load(), request.method
		if status, _, _ := f.do(t, method, "/", request.body, request.header...); status != http.StatusBadGateway {
			t.Errorf("%s: got status %d, want 502", method, status)
		}
		if n := got.Load() - before; n != 1 {
			t.Errorf("%s: the pod got the request %d times", method, n)
		}
		if pod := <-f.failed; pod != "p0" {
			t.Errorf("%s: pod %q is to be looked at, want p0", method, pod)
		}
		routes.Revisions[0].Pods[0].Epoch++
		f.Route(fn, routes)
	}
}

// What is small reaches the pod in one piece: each costs it, and the network, as much as a whole request.
func TestSmallBody_OneWrite(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := serve(t)
	f.Route(fn, Routes{Concurrency: 1, Timeout: 10 * time.Second, Revisions: []Revision{
		{Name: "a", Percent: 100, Pods: []Pod{{Name: "p0", Epoch: 1, Address: l.Addr().String()}}},
	}})
	got := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer conn.Close()
		piece := make([]byte, 64<<10)
		n, err := conn.Read(piece)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- string(piece[:n])
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}()
	body := strings.Repeat("x", 1000)
	if status, _, _ := f.do(t, http.MethodPost, "/", body); status != http.StatusOK {
		t.Errorf("got status %d", status)
	}
	if piece := <-got; !strings.HasSuffix(piece, "\r\n\r\n"+body) {
		t.Errorf("what came first is %q, want header and body", piece)
	}
}

// What a client breaks off is no reason to give up a pod.
func TestBrokenUpload(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.Route(fn, pods(echo(t)))
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: f\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nno length\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
	if status, body, _ := f.do(t, http.MethodPost, "/", "y"); status != http.StatusOK || body != "y" {
		t.Errorf("got %d %q after it, want y", status, body)
	}
	if len(f.failed) > 0 {
		t.Errorf("%s was given up", <-f.failed)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	cancelled := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(cancelled)
	}))
	t.Cleanup(hangs.Close)
	f := serve(t)
	routes := pods(hangs)
	routes.Timeout = 50 * time.Millisecond
	f.Route(fn, routes)
	if status, _, _ := f.do(t, http.MethodGet, "/", ""); status != http.StatusGatewayTimeout {
		t.Errorf("got status %d, want 504", status)
	}
	<-cancelled
	if pod := <-f.failed; pod != "p0" {
		t.Errorf("pod %q is to be looked at, want p0", pod)
	}
}

func TestTooMuch(t *testing.T) {
	t.Parallel()
	f := serve(t)
	routes := pods(echo(t))
	routes.MaxBody = 10
	f.Route(fn, routes)
	if status, _, _ := f.do(t, http.MethodPost, "/", "0123456789"); status != http.StatusOK {
		t.Errorf("got %d for as much as is allowed, want 200", status)
	}
	if status, _, _ := f.do(t, http.MethodPost, "/", "0123456789a"); status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d for more, want 413", status)
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	f := serve(t)
	held := make(chan int)
	go func() {
		status, _, _ := f.do(t, http.MethodGet, "/", "")
		held <- status
	}()
	<-f.wanted
	f.Route(fn, Routes{Concurrency: 1, Refusal: "SyntaxError"})
	if status := <-held; status != http.StatusServiceUnavailable {
		t.Errorf("what was held is answered with %d, want 503", status)
	}
	if status, body, _ := f.do(t, http.MethodGet, "/", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "SyntaxError") {
		t.Errorf("got %d %s, want 503 with the reason", status, body)
	}
}

func TestRollOut(t *testing.T) {
	t.Parallel()
	servers := []*httptest.Server{}
	for i := range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) }))
		t.Cleanup(s.Close)
		servers = append(servers, s)
	}
	f := serve(t)
	f.Route(fn, pods(servers[0]))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var newer atomic.Int64
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				status, body, _ := f.do(t, http.MethodPost, "/", "x")
				if status != http.StatusOK {
					t.Errorf("got %d %s", status, body)
				}
				if body == "1" {
					newer.Add(1)
				}
			}
		})
	}
	<-f.wanted
	routes := pods(servers[1])
	routes.Revisions[0].Name = "b"
	routes.Revisions[0].Pods[0].Name = "q"
	f.Route(fn, routes)
	eventually(t, "the old pod is idle and the new one answers", func() bool { return f.Outstanding(fn, "p0") == 0 && newer.Load() > 10 })
	cancel()
	group.Wait()
}

func TestShares(t *testing.T) {
	t.Parallel()
	f := serve(t)
	var counts [2]atomic.Int64
	routes := Routes{Concurrency: 10, Timeout: time.Second}
	for i, percent := range []int{80, 20} {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { counts[i].Add(1) }))
		t.Cleanup(s.Close)
		routes.Revisions = append(routes.Revisions, Revision{Name: fmt.Sprint(i), Percent: percent, Pods: []Pod{{Name: fmt.Sprint(i), Address: strings.TrimPrefix(s.URL, "http://")}}})
	}
	f.Route(fn, routes)
	for range 1000 {
		f.do(t, http.MethodGet, "/", "")
	}
	if n := counts[1].Load(); n < 130 || n > 270 {
		t.Errorf("20 %% of 1000 requests were %d", n)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	f := serve(t)
	held := make(chan int)
	go func() {
		status, _, _ := f.do(t, http.MethodGet, "/", "")
		held <- status
	}()
	<-f.wanted
	f.Remove(fn)
	if status := <-held; status != http.StatusServiceUnavailable {
		t.Errorf("what was held is answered with %d, want 503", status)
	}
	port, err := f.Serve(fn, 0)
	if err != nil || port == 0 {
		t.Errorf("serving it again: %d, %v", port, err)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.Close()
	if port, err := f.Serve(types.NamespacedName{Namespace: "default", Name: "other"}, 0); !errors.Is(err, errClosed) || port != 0 {
		t.Errorf("it serves after its end: %d, %v", port, err)
	}
}

func TestClientsThatGiveUp(t *testing.T) {
	t.Parallel()
	f := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-f.wanted
		cancel()
	}()
	if resp, err := f.client.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("the request has an answer")
	}
	eventually(t, "nothing is held", func() bool { return f.Stats(fn)[""].Outstanding == 0 })
}

// The whole way of a request: a client, the activator, a pod that answers at once.
func BenchmarkRequest(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer s.Close()
	a := New(Config{Address: netip.MustParseAddr("127.0.0.1"), Wanted: func(types.NamespacedName) {}, Failed: func(types.NamespacedName, string) {}})
	defer a.Close()
	port, err := a.Serve(fn, 0)
	if err != nil {
		b.Fatal(err)
	}
	routes := pods(s)
	routes.Concurrency = 1000
	a.Route(fn, routes)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := client.Post(url, "application/json", strings.NewReader(`{"x":1}`))
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
}
