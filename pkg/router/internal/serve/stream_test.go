// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

//nolint:bodyclose // do closes them
package serve

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// echo is a server of connections that sends back what it gets, and then its name.
func echo(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			_, _ = io.WriteString(c, name)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// Each direction of a connection ends alone, and an endpoint that is gone is passed over.
func TestServe_TCP(t *testing.T) {
	t.Parallel()
	r := newRouter(t)
	r.serve(table.Contents{
		Ports:   []table.Port{{Address: plain, Protocol: table.TCP}},
		Entries: []table.Entry{{Port: plain, Route: &table.Route{Match: table.Match{Path: "/"}, Action: to("a", gone(t), echo(t, "a"))}}},
	})
	for range 4 {
		c, err := net.Dial("tcp", r.Addr(plain).String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "hello ")
		_ = c.(*net.TCPConn).CloseWrite()
		if data, err := io.ReadAll(c); err != nil || string(data) != "hello a" {
			t.Errorf("got %q, %v", data, err)
		}
		_ = c.Close()
	}
}

// failing is a listener that fails before it accepts anything.
type failing struct {
	net.Listener
	times atomic.Int32
}

func (l *failing) Accept() (net.Conn, error) {
	if l.times.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// A port outlives that no connection can be taken for a while, and ends when it is closed.
func TestServe_AcceptFails(t *testing.T) {
	t.Parallel()
	r := newRouter(t)
	r.table.Store(table.Build(table.Contents{
		Ports:   []table.Port{{Address: plain, Protocol: table.TCP}},
		Entries: []table.Entry{{Port: plain, Route: &table.Route{Match: table.Match{Path: "/"}, Action: to("a", echo(t, "a"))}}},
	}))
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &failing{Listener: inner}
	l.times.Store(3)
	sock := &socket{parent: r.Server, address: plain, protocol: table.TCP, listener: l, ended: make(chan struct{})}
	sock.serveStreams(l)
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_ = c.(*net.TCPConn).CloseWrite()
	if data, err := io.ReadAll(c); err != nil || string(data) != "a" {
		t.Errorf("got %q, %v", data, err)
	}
	_ = l.Close()
	select {
	case <-sock.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the port has not ended")
	}
	sock.end(t.Context())
}

// A connection of TLS goes by its server name, and ends here or at the backend; without a route it is closed.
func TestServe_TLS(t *testing.T) {
	t.Parallel()
	secured := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "backend") }))
	t.Cleanup(secured.Close)
	own, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	entry := func(host string, a table.Action) table.Entry {
		return table.Entry{Port: plain, Site: host, Host: host, Route: &table.Route{Match: table.Match{Path: "/"}, Action: a}}
	}
	r := newRouter(t)
	r.serve(table.Contents{
		Ports:        []table.Port{{Address: plain, Protocol: table.TLS}},
		Sites:        []table.Site{{Port: plain, Host: "through.com", Passthrough: true}, {Port: plain, Host: "ends.com"}},
		Certificates: []table.Certificate{{Port: plain, Host: "ends.com", Certificate: own}},
		Entries:      []table.Entry{entry("through.com", to("a", secured.Listener.Addr().String())), entry("ends.com", to("b", echo(t, "b")))},
	})
	dial := func(name string) (*tls.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", r.Addr(plain).String(), &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint:gosec // which certificate there is, is looked at
	}
	for name, want := range map[string]*x509.Certificate{"through.com": secured.Certificate(), "ends.com": nil} {
		c, err := dial(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := c.ConnectionState().PeerCertificates[0]
		if through := got.Equal(secured.Certificate()); through != (want != nil) {
			t.Errorf("%s: certificate of %s", name, got.Subject)
		}
		_ = c.Close()
	}
	c, err := dial("ends.com")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "hello ")
	_ = c.CloseWrite()
	if data, err := io.ReadAll(c); err != nil || string(data) != "hello b" {
		t.Errorf("got %q, %v", data, err)
	}
	_ = c.Close()
	if c, err := dial("other.com"); err == nil {
		_ = c.Close()
		t.Error("a name without a route was answered")
	}
}

// What ends here goes on by TLS if the backend is to be spoken to so, and not at all if it does not prove who it is.
func TestServe_TLSToBackend(t *testing.T) {
	t.Parallel()
	secured := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.TLS.ServerName) }))
	t.Cleanup(secured.Close)
	own, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(secured.Certificate()) // it is for example.com
	r := newRouter(t)
	for _, tc := range []struct{ name, want string }{{"example.com", "example.com"}, {"other.com", ""}} {
		a := to("a", secured.Listener.Addr().String())
		a.Backends[0].Backend.TLS = &table.BackendTLS{Key: tc.name, ServerName: tc.name, Roots: roots}
		r.serve(table.Contents{
			Ports:        []table.Port{{Address: plain, Protocol: table.TLS}},
			Certificates: []table.Certificate{{Port: plain, Certificate: own}},
			Entries:      []table.Entry{{Port: plain, Route: &table.Route{Match: table.Match{Path: "/"}, Action: a}}},
		})
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", r.Addr(plain).String(), &tls.Config{ServerName: "ends.com", InsecureSkipVerify: true}) //nolint:gosec // it is not what is tested
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
		data, _ := io.ReadAll(c)
		if _, got, _ := strings.Cut(string(data), "\r\n\r\n"); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, data, tc.want)
		}
		_ = c.Close()
	}
}

// Answers find the client that asked.
func TestServe_UDP(t *testing.T) {
	t.Parallel()
	backend, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	go func() {
		buffer := make([]byte, 100)
		for {
			n, from, err := backend.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = backend.WriteTo(append([]byte("re: "), buffer[:n]...), from)
		}
	}()
	r := newRouter(t)
	r.serve(table.Contents{
		Ports:   []table.Port{{Address: plain, Protocol: table.UDP}},
		Entries: []table.Entry{{Port: plain, Route: &table.Route{Match: table.Match{Path: "/"}, Action: to("a", backend.LocalAddr().String())}}},
	})
	for _, text := range []string{"one", "two"} {
		c, err := net.Dial("udp", r.Addr(plain).String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, text)
		buffer := make([]byte, 100)
		if n, err := c.Read(buffer); err != nil || string(buffer[:n]) != "re: "+text {
			t.Errorf("got %q, %v", buffer[:n], err)
		}
		_ = c.Close()
	}
}

// A client keeps the endpoint that it has, until that is gone.
func TestServe_UDPEndpoints(t *testing.T) {
	t.Parallel()
	named := func(name string) string {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			for {
				_, from, err := c.ReadFrom(make([]byte, 100))
				if err != nil {
					return
				}
				_, _ = c.WriteTo([]byte(name), from)
			}
		}()
		return c.LocalAddr().String()
	}
	a, b := named("a"), named("b")
	r := newRouter(t)
	var c net.Conn
	for _, tc := range []struct {
		name   string
		action table.Action
		other  *table.Action // by a port of its own
		want   string
	}{
		{"new", to("x", a), nil, "a"},
		{"more of them", to("x", b, a, b), nil, "a"},
		{"gone", to("x", b), nil, "b"},
		{"back", to("x", a, b), nil, "b"},
		{"another backend", to("y", a), new(to("x", b)), "b"},
		{"the backend is gone", to("y", a), nil, "a"},
	} {
		contents := table.Contents{
			Ports:   []table.Port{{Address: plain, Protocol: table.UDP}},
			Entries: []table.Entry{{Port: plain, Route: &table.Route{Match: table.Match{Path: "/"}, Action: tc.action}}},
		}
		if tc.other != nil {
			contents.Ports = append(contents.Ports, table.Port{Address: secure, Protocol: table.UDP})
			contents.Entries = append(contents.Entries, table.Entry{Port: secure, Route: &table.Route{Match: table.Match{Path: "/"}, Action: *tc.other}})
		}
		r.serve(contents)
		if c == nil {
			var err error
			if c, err = net.Dial("udp", r.Addr(plain).String()); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		}
		for range 3 {
			_, _ = io.WriteString(c, "hello")
			buffer := make([]byte, 100)
			if n, err := c.Read(buffer); err != nil || string(buffer[:n]) != tc.want {
				t.Errorf("%s: got %q, %v, want %q", tc.name, buffer[:n], err, tc.want)
			}
		}
	}
}

// A backend has to prove who it is.
func TestServe_BackendTLS(t *testing.T) {
	t.Parallel()
	secured := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.TLS.ServerName) }))
	t.Cleanup(secured.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secured.Certificate()) // it is for example.com
	r := newRouter(t)
	for _, tc := range []struct {
		name string
		tls  table.BackendTLS
		want int
	}{
		{"its name", table.BackendTLS{ServerName: "example.com", Roots: roots}, 200},
		{"another name", table.BackendTLS{ServerName: "other.com", Roots: roots}, 502},
		{"another authority", table.BackendTLS{ServerName: "example.com", Roots: x509.NewCertPool()}, 502},
		{"one of its names", table.BackendTLS{ServerName: "other.com", Roots: roots, Names: []string{"no.com", "example.com"}}, 200},
		{"none of its names", table.BackendTLS{ServerName: "example.com", Roots: roots, Names: []string{"no.com"}, URIs: []string{"spiffe://a"}}, 502},
		{"its name, another authority", table.BackendTLS{ServerName: "example.com", Roots: x509.NewCertPool(), Names: []string{"example.com"}}, 502},
	} {
		a := to("a", secured.Listener.Addr().String())
		tc.tls.Key = tc.name
		a.Backends[0].Backend.TLS = &tc.tls
		r.route(a)
		if got, text := do(t, newRequest(t, "GET", r.url("/"), "")); got.StatusCode != tc.want || tc.want == 200 && text != tc.tls.ServerName {
			t.Errorf("%s: %d %q, want %d", tc.name, got.StatusCode, text, tc.want)
		}
	}
	r.route(to("b"))
	if n := len(r.proxy.secure); n != 0 {
		t.Errorf("%d pools are left", n)
	}
}

// Who has no certificate of an authority is let in only if anybody is.
func TestServe_Clients(t *testing.T) {
	t.Parallel()
	own, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	r := newRouter(t)
	address := backend(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, tc := range []struct {
		name    string
		clients *table.Clients
		want    bool
	}{
		{"no certificate wanted", nil, true},
		{"one wanted", &table.Clients{Roots: x509.NewCertPool()}, false},
		{"asked for only", &table.Clients{Roots: x509.NewCertPool(), Anybody: true}, true},
	} {
		r.serve(table.Contents{
			Ports:        []table.Port{{Address: secure, Protocol: table.HTTPS, Clients: tc.clients}},
			Certificates: []table.Certificate{{Port: secure, Certificate: own}},
			Entries:      []table.Entry{{Port: secure, Route: &table.Route{Match: table.Match{Path: "/"}, Action: to("a", address)}}},
		})
		answer, err := client(t).Do(newRequest(t, "GET", "https://"+r.Addr(secure).String()+"/", ""))
		if (err == nil) != tc.want {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err == nil {
			_ = answer.Body.Close()
		}
	}
}
