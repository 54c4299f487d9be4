// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// executors are the two ways of clients to run commands.
func executors(t *testing.T, c *rest.Config, address string) map[string]remotecommand.Executor {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(c, http.MethodPost, u)
	if err != nil {
		t.Fatal(err)
	}
	overWebSocket, err := remotecommand.NewWebSocketExecutor(c, http.MethodGet, address)
	if err != nil {
		t.Fatal(err)
	}
	v4, err := remotecommand.NewWebSocketExecutorForProtocols(c, http.MethodGet, address, "v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"SPDY": overSPDY, "WebSocket": overWebSocket, "WebSocket v4": v4}
}

type oneSize struct{ sent bool }

func (s *oneSize) Next() *remotecommand.TerminalSize {
	if s.sent {
		return nil
	}
	s.sent = true
	return &remotecommand.TerminalSize{Width: 120, Height: 40}
}

func TestExec(t *testing.T) {
	f := start(t)
	admin := f.as(t, "admin")
	tests := []struct {
		name, query, stdin string
		tty                bool
		out, err           string
		code               int
		failure            string
		needsClose         bool
	}{
		{name: "stdin to stdout", query: "command=cat&input=1&output=1", stdin: strings.Repeat("x", 1<<20), out: strings.Repeat("x", 1<<20), needsClose: true},
		{name: "both outputs", query: "command=both&output=1&error=1", out: "to out", err: "to err"},
		{name: "exit code", query: "command=exit&command=42&output=1&error=1", code: 42},
		{name: "terminal", query: "command=size&input=1&output=1&tty=1", tty: true, out: "120x40 true"},
		{name: "failure", query: "command=none&output=1&error=1", failure: "none: no such command in c-id"},
	}
	for _, tc := range tests {
		for protocol, e := range executors(t, admin, f.url+"/exec/ns/p/c?"+tc.query) {
			if tc.needsClose && protocol == "WebSocket v4" {
				continue // that protocol cannot close stdin
			}
			t.Run(tc.name+" "+protocol, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				var out, errOut bytes.Buffer
				o := remotecommand.StreamOptions{Stdout: &out, Tty: tc.tty}
				if !tc.tty && strings.Contains(tc.query, "error=1") {
					o.Stderr = &errOut
				}
				if strings.Contains(tc.query, "input=1") {
					o.Stdin = strings.NewReader(tc.stdin)
				}
				if tc.tty {
					o.TerminalSizeQueue = &oneSize{}
				}
				err := e.StreamWithContext(ctx, o)
				var exit utilexec.CodeExitError
				switch {
				case tc.code != 0:
					if !errors.As(err, &exit) || exit.Code != tc.code {
						t.Errorf("error %v, want exit code %d", err, tc.code)
					}
				case tc.failure != "":
					if err == nil || !strings.Contains(err.Error(), tc.failure) {
						t.Errorf("error %v, want %q", err, tc.failure)
					}
				case err != nil:
					t.Error(err)
				}
				if out.String() != tc.out || errOut.String() != tc.err {
					t.Errorf("output of %d and %d bytes: %.40q, %.40q", out.Len(), errOut.Len(), out.String(), errOut.String())
				}
			})
		}
	}
}

func TestExecRefused(t *testing.T) {
	f := start(t)
	for protocol, e := range executors(t, f.as(t, "admin"), f.url+"/exec/ns/p/waits?command=cat&output=1") {
		t.Run(protocol, func(t *testing.T) {
			err := e.StreamWithContext(context.Background(), remotecommand.StreamOptions{Stdout: io.Discard})
			if err == nil || protocol == "SPDY" && !strings.Contains(err.Error(), `container not found ("waits")`) {
				t.Errorf("unexpected error %v", err)
			}
		})
	}
}

func TestAttach(t *testing.T) {
	f := start(t)
	admin := f.as(t, "admin")
	for _, c := range []struct {
		container string
		tty       bool
	}{{"c", false}, {"tty", true}} {
		for protocol, e := range executors(t, admin, f.url+"/attach/ns/p/u/"+c.container+"?input=1&output=1&error=0") {
			if protocol == "WebSocket v4" {
				continue
			}
			t.Run(c.container+" "+protocol, func(t *testing.T) {
				var out bytes.Buffer
				err := e.StreamWithContext(context.Background(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out})
				if err != nil || out.String() != c.container+"-id:hello" {
					t.Errorf("got %q, %v", out.String(), err)
				}
				f.host.mu.Lock()
				defer f.host.mu.Unlock()
				if o := f.host.attachd; o.TTY != c.tty || o.Stderr != nil {
					t.Errorf("attached with %+v", o)
				}
			})
		}
	}
}

// TestAttachEndsWithItsClient covers a container that says nothing and is told nothing.
func TestAttachEndsWithItsClient(t *testing.T) {
	f := start(t)
	f.host.quiet = make(chan struct{})
	for protocol, e := range executors(t, f.as(t, "admin"), f.url+"/attach/ns/p/c?output=1") {
		t.Run(protocol, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard}) }()
			f.host.quiet <- struct{}{}
			cancel()
			<-done
			select {
			case f.host.quiet <- struct{}{}:
			case <-time.After(20 * time.Second):
				t.Error("the attach goes on without its client")
			}
		})
	}
}

// TestStopEndsStreams also shows that the commands of clients end with the server.
func TestStopEndsStreams(t *testing.T) {
	f := start(t)
	e := executors(t, f.as(t, "admin"), f.url+"/exec/ns/p/c?command=sleep&output=1")["WebSocket"]
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- e.StreamWithContext(context.Background(), remotecommand.StreamOptions{Stdout: w}) }()
	if _, err := io.ReadFull(r, make([]byte, len("sleeping"))); err != nil {
		t.Fatal(err)
	}
	f.stop()
	select {
	case <-f.host.ended:
	default:
		t.Error("the command runs on after Start returned")
	}
	if err := <-done; err == nil {
		t.Error("the client thinks that all went well")
	}
}

func TestPortForward(t *testing.T) {
	f := start(t)
	admin := f.as(t, "admin")
	u, err := url.Parse(f.url + "/portForward/ns/p")
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(u, admin)
	if err != nil {
		t.Fatal(err)
	}
	for protocol, dialer := range map[string]httpstream.Dialer{
		"SPDY": spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u), "WebSocket": tunnel,
	} {
		t.Run(protocol, func(t *testing.T) {
			stop := make(chan struct{})
			pf, err := portforward.New(dialer, []string{"0:8080", "0:1"}, stop, make(chan struct{}), io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- pf.ForwardPorts() }()
			select {
			case <-pf.Ready:
			case err := <-done:
				t.Fatal(err)
			}
			ports, err := pf.GetPorts()
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if got := talk(t, ports[0].Local, fmt.Sprint(i)); got != fmt.Sprintf("u:8080:%d", i) {
					t.Errorf("got %q", got)
				}
			}
			// How a refused connection ends depends on timing, that it says nothing does not.
			if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[1].Local)); err != nil {
				t.Error(err)
			} else if data, _ := io.ReadAll(conn); len(data) > 0 {
				t.Errorf("a refused port answered %q", data)
			}
			close(stop) // without it, forwarding ends only if the refused connection has ended it
			<-done
		})
	}
}

// talk sends a message to a local port, says that this was all, and returns the answer.
func talk(t *testing.T, port uint16, message string) string {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, message); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
