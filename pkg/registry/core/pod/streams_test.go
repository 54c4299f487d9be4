// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	clientforward "k8s.io/client-go/tools/portforward"
	clientremote "k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	serverexec "k8s.io/utils/exec"

	"minik8s.io/minik8s/pkg/registry"
)

// node is a kubelet of which only the URLs matter: logs show the request, exec echoes. All connections to 10.0.0.1 end there,
// and those to any other address at that address.
type node struct {
	server *httptest.Server
	// host defaults to 10.0.0.1.
	host string
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{}
	n.server = httptest.NewTLSServer(n)
	t.Cleanup(n.server.Close)
	return n
}

func (n *node) Location(_ context.Context, name string) (*url.URL, error) {
	if name != "n" {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	if n.host != "" {
		return url.Parse("https://" + n.host)
	}
	return url.Parse("https://10.0.0.1")
}

func (n *node) Transport() http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "10.0.0.1:443" {
			address = n.server.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch action := strings.Split(r.URL.Path, "/")[1]; action {
	case "containerLogs":
		if q.Get("previous") != "" {
			http.Error(w, "previous terminated container \"c\" in pod \"p\" not found", http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "%s?%s\n", r.URL.Path, r.URL.RawQuery)
	case "exec":
		o, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, n, r.URL.Path, "", "", q["command"], o, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	case "portForward":
		portforward.ServePortForward(w, r, n, r.URL.Path, "", nil, time.Minute, time.Minute, []string{"portforward.k8s.io"})
	default:
		http.NotFound(w, r)
	}
}

func (n *node) ExecInContainer(_ context.Context, name, _, _ string, cmd []string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if slices.Equal(cmd, []string{"fail"}) {
		// A connection that is closed while frames arrive is reset, and what was sent last may be lost with it.
		if _, err := io.Copy(io.Discard, in); err != nil {
			return err
		}
		return serverexec.CodeExitError{Err: fmt.Errorf("exit 3"), Code: 3}
	}
	_, _ = fmt.Fprintf(errs, "%s %q", name, cmd)
	_, err := io.Copy(out, in)
	return err
}

func (n *node) PortForward(_ context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	_, err := io.Copy(stream, stream)
	return err
}

func TestLog(t *testing.T) {
	s := serve(t, registry.Config{Kubelet: newNode(t)})
	s.run(t, corev1.ConditionTrue, nil)
	s.run(t, corev1.ConditionTrue, func(p *corev1.Pod) {
		p.Name = "two"
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "i"})
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
	})
	s.create(t, func(p *corev1.Pod) { p.Name = "pending" })
	tests := []struct {
		name, pod string
		options   corev1.PodLogOptions
		want      string
		failure   string
	}{
		{name: "only container", pod: "p", want: "/containerLogs/default/p/c?\n"},
		{name: "options", pod: "p", options: corev1.PodLogOptions{Follow: true, Timestamps: true, TailLines: new(int64(5)), LimitBytes: new(int64(9))},
			want: "/containerLogs/default/p/c?follow=true&limitBytes=9&tailLines=5&timestamps=true\n"},
		{name: "init container", pod: "two", options: corev1.PodLogOptions{Container: "init"}, want: "/containerLogs/default/two/init?\n"},
		{name: "unverified", pod: "p", options: corev1.PodLogOptions{InsecureSkipTLSVerifyBackend: true}, want: "/containerLogs/default/p/c?\n"},
		{name: "not scheduled", pod: "pending", want: ""},
		{name: "which container", pod: "two", failure: "a container name must be specified for pod two, choose one of: [init c d]"},
		{name: "no such container", pod: "p", options: corev1.PodLogOptions{Container: "x"}, failure: "container x is not valid for pod p"},
		{name: "the kubelet's error", pod: "p", options: corev1.PodLogOptions{Previous: true}, failure: `previous terminated container "c" in pod "p" not found`},
		{name: "negative tail", pod: "p", options: corev1.PodLogOptions{TailLines: new(int64(-1))}, failure: "tailLines: Invalid value: -1: must be greater than or equal to 0"},
		{name: "bad stream", pod: "p", options: corev1.PodLogOptions{Stream: new("x")}, failure: `stream: Unsupported value: "x"`},
		{name: "no pod", pod: "none", failure: `pods "none" not found`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			stream, err := s.CoreV1().Pods(ns).GetLogs(tc.pod, &tc.options).Stream(s.ctx)
			if tc.failure != "" {
				if err == nil || !strings.Contains(err.Error(), tc.failure) {
					t.Errorf("error is %v, want %q", err, tc.failure)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			got, err := io.ReadAll(stream)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// A node that gives the machine's own address as its own gets verified connections only.
func TestLog_Loopback(t *testing.T) {
	n := newNode(t)
	n.host = n.server.Listener.Addr().String()
	s := serve(t, registry.Config{Kubelet: n})
	s.run(t, corev1.ConditionTrue, nil)
	for _, unverified := range []bool{false, true} {
		body, err := s.CoreV1().Pods(ns).GetLogs("p", &corev1.PodLogOptions{InsecureSkipTLSVerifyBackend: unverified}).MaxRetries(0).DoRaw(s.ctx)
		if (err == nil) == unverified || unverified && !strings.Contains(err.Error()+string(body), "address not allowed") {
			t.Errorf("unverified %v: %q, %v", unverified, body, err)
		}
	}
}

func TestNoKubelet(t *testing.T) {
	s := serve(t, registry.Config{})
	s.run(t, corev1.ConditionTrue, nil)
	err := s.CoreV1().RESTClient().Get().MaxRetries(0).Namespace(ns).Resource("pods").Name("p").SubResource("log").Do(s.ctx).Error()
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("logs without connection to nodes = %v, want ServiceUnavailable", err)
	}
}

func TestPortForward(t *testing.T) {
	s := serve(t, registry.Config{Kubelet: newNode(t)})
	s.run(t, corev1.ConditionTrue, nil)
	u := s.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("p").SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := clientforward.NewSPDYOverWebsocketDialer(u, s.config)
	if err != nil {
		t.Fatal(err)
	}
	for name, dialer := range map[string]httpstream.Dialer{
		"SPDY":      spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", u),
		"WebSocket": tunnel,
	} {
		t.Run(name, func(t *testing.T) {
			stop, ready := make(chan struct{}), make(chan struct{})
			f, err := clientforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- f.ForwardPorts() }()
			select {
			case <-ready:
			case err := <-done:
				t.Fatalf("forwarding ended: %v", err)
			}
			defer func() { close(stop); <-done }()
			ports, err := f.GetPorts()
			if err != nil {
				t.Fatal(err)
			}
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "hello"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 5)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
				t.Errorf("echo is %q, %v", got, err)
			}
		})
	}
}

func TestExec(t *testing.T) {
	s := serve(t, registry.Config{Kubelet: newNode(t)})
	s.run(t, corev1.ConditionTrue, nil)
	s.create(t, func(p *corev1.Pod) { p.Name = "pending" })
	target := func(pod string, cmd ...string) *url.URL {
		o := &corev1.PodExecOptions{Stdin: true, Stdout: true, Stderr: true, Command: cmd}
		return s.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name(pod).SubResource("exec").VersionedParams(o, scheme.ParameterCodec).URL()
	}
	for _, transport := range []string{"SPDY", "WebSocket"} {
		executor := func(u *url.URL) clientremote.Executor {
			t.Helper()
			var e clientremote.Executor
			var err error
			if transport == "SPDY" {
				e, err = clientremote.NewSPDYExecutor(s.config, "POST", u)
			} else {
				e, err = clientremote.NewWebSocketExecutor(s.config, "GET", u.String())
			}
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		t.Run(transport, func(t *testing.T) {
			var out, errs bytes.Buffer
			streams := clientremote.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs}
			if err := executor(target("p", "echo", "a b")).StreamWithContext(s.ctx, streams); err != nil {
				t.Fatal(err)
			}
			if out.String() != "hello" || errs.String() != `/exec/default/p/c ["echo" "a b"]` {
				t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
			}
			streams.Stdin = strings.NewReader("")
			err := executor(target("p", "fail")).StreamWithContext(s.ctx, streams)
			if code, ok := errors.AsType[utilexec.CodeExitError](err); !ok || code.Code != 3 {
				t.Errorf("failing command = %v, want exit code 3", err)
			}
			err = executor(target("pending", "x")).StreamWithContext(s.ctx, streams)
			if err == nil || !strings.Contains(err.Error(), "pod pending does not have a host assigned") && transport == "SPDY" {
				t.Errorf("exec in a pod without node = %v", err)
			}
		})
	}
}
