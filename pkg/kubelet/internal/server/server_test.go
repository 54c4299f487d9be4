// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
)

func (f *fixture) do(t *testing.T, c *rest.Config, method, path string) (code int, body string) {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(method, f.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestRequests(t *testing.T) {
	f := start(t)
	admin := f.as(t, "admin")
	tests := []struct {
		name, method, path string
		code               int
		body               string // part of it
	}{
		{"healthz", "GET", "/healthz", 200, "ok"},
		{"pods", "GET", "/pods", 200, `"kind":"PodList","apiVersion":"v1"`},
		{"running pods", "GET", "/runningpods/", 200, `"name":"p"`},
		{"configz", "GET", "/configz", 200, `{"kubeletconfig":{"kind":"KubeletConfiguration"}}`},
		{"summary", "GET", "/stats/summary", 200, `"nodeName":"n"`},
		{"metrics", "GET", "/metrics", 200, "process_start_time_seconds"},
		{"probes", "GET", "/metrics/probes", 200, ""},
		{"resource metrics", "GET", "/metrics/resource", 200, `container_cpu_usage_seconds_total{container="c",namespace="ns",pod="p"} 2.5 1700000000000`},
		{"limits of swap", "GET", "/metrics/resource", 200, `container_swap_limit_bytes{container="c",namespace="ns",pod="p"} 40 1700000000000`},
		{"healthz verbose", "GET", "/healthz?verbose", 200, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"},
		{"ping", "GET", "/healthz/ping", 200, "ok"},
		{"log check", "GET", "/healthz/log", 200, "ok"},
		{"sync loop", "GET", "/healthz/syncloop", 200, "ok"},
		{"no such check", "GET", "/healthz/other", 404, ""},
		{"cadvisor", "GET", "/metrics/cadvisor", 200, "machine_cpu_cores 2"},
		{"directory of logs", "GET", "/logs/", 200, `<a href="pods/">`},
		{"log of the node", "GET", "/logs/pods/a.log", 200, "a line\n"},
		{"no such log", "GET", "/logs/b.log", 404, ""},
		{"log outside", "GET", "/logs/%2e%2e/secret", 404, ""},
		{"log of a service", "GET", "/logs/?query=docker", 501, "querying the logs of services is not supported"},
		{"profiles", "GET", "/debug/pprof/", 200, "goroutine"},
		{"profile", "GET", "/debug/pprof/heap?debug=1", 200, "heap profile"},
		{"log level", "PUT", "/debug/flags/v", 405, "flags endpoint is disabled."},
		{"checkpoint", "POST", "/checkpoint/ns/p/c", 501, "checkpointing of containers is not supported"},
		{"no such path", "GET", "/spec", 404, ""},
		{"wrong method", "DELETE", "/pods", 405, ""},
		{"logs", "GET", "/containerLogs/ns/p/c", 200, "out\nerr\n"},
		{"stdout only", "GET", "/containerLogs/ns/p/c?stream=Stdout", 200, "out\n"},
		{"logs of another namespace", "GET", "/containerLogs/other/p/c", 404, `pod "p" does not exist`},
		{"logs of no container", "GET", "/containerLogs/ns/p/x", 404, `container "x" not found in pod "p"`},
		{"logs of a waiting container", "GET", "/containerLogs/ns/p/waits", 400, `container "waits" in pod "p" is waiting to start: ContainerCreating`},
		{"logs without image", "GET", "/containerLogs/ns/p/pulls", 400, `container "pulls" in pod "p" is waiting to start: trying and failing to pull image`},
		{"no previous logs", "GET", "/containerLogs/ns/p/tty?previous=true", 400, `previous terminated container "tty" in pod "p" not found`},
		{"logs that the engine lost", "GET", "/containerLogs/ns/p/init", 400, "unable to retrieve container logs for docker://init1"},
		{"bad number", "GET", "/containerLogs/ns/p/c?tailLines=x", 400, "Unable to decode query"},
		{"negative tail", "GET", "/containerLogs/ns/p/c?tailLines=-1", 422, "tailLines"},
		{"run", "POST", "/run/ns/p/c?cmd=both", 200, "to outto err"},
		{"run that fails", "POST", "/run/ns/p/c?cmd=exit+3", 500, "command 'exit 3' exited with 3"},
		{"run by uid", "POST", "/run/ns/p/u/c?cmd=both", 200, "to outto err"},
		{"run by the uid of its mirror pod", "POST", "/run/ns/p/mirror/c?cmd=both", 200, "to outto err"},
		{"run by another uid", "POST", "/run/ns/p/x/c?cmd=both", 404, "pod does not exist"},
		{"run in no pod", "POST", "/run/ns/x/c?cmd=both", 404, "pod does not exist"},
		{"exec without streams", "POST", "/exec/ns/p/c?command=cat", 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"exec in no pod", "POST", "/exec/ns/x/c?command=cat&output=1", 404, "pod does not exist"},
		{"exec in another incarnation", "POST", "/exec/ns/p/other/c?command=cat&output=1", 404, "pod does not exist"},
		{"exec in a container that does not run", "POST", "/exec/ns/p/waits?command=cat&output=1", 500, `container not found ("waits")`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, body := f.do(t, admin, tc.method, tc.path)
			if code != tc.code || !strings.Contains(body, tc.body) {
				t.Errorf("got %d %q, want %d with %q", code, body, tc.code, tc.body)
			}
		})
	}
	f.host.mu.Lock()
	f.host.ends = true
	f.host.mu.Unlock()
	if code, body := f.do(t, admin, "GET", "/metrics/resource"); code != 200 || !strings.Contains(body, `pod_memory_working_set_bytes{namespace="ns",pod="other"}`) {
		t.Errorf("resource metrics beside a pod of the same name that ends: %d %s", code, body)
	}
	f.host.mu.Lock()
	f.host.sick = errors.New("PLEG is not healthy")
	f.host.mu.Unlock()
	if code, body := f.do(t, admin, "GET", "/healthz"); code != 500 || !strings.Contains(body, "PLEG is not healthy") {
		t.Errorf("healthz of a sick kubelet: %d %s", code, body)
	}
	if code, body := f.do(t, admin, "GET", "/healthz/syncloop"); code != 500 || body != "internal server error: PLEG is not healthy\n" {
		t.Errorf("sync loop of a sick kubelet: %d %s", code, body)
	}
	if code, _ := f.do(t, admin, "GET", "/healthz/ping"); code != 200 {
		t.Errorf("ping of a sick kubelet: %d", code)
	}
}

func TestLogOptions(t *testing.T) {
	f := start(t)
	admin := f.as(t, "admin")
	if _, body := f.do(t, admin, "GET", "/containerLogs/ns/p/c?tailLines=5&timestamps=true&previous=true&sinceTime=2026-01-02T03:04:05Z"); body != "out\nerr\n" {
		t.Errorf("log is %q", body)
	}
	o := f.host.logged
	if f.host.logID != "c1" || o.Tail != 5 || !o.Timestamps || o.Follow || !o.Since.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("container %s was asked for %+v", f.host.logID, o)
	}
	if _, body := f.do(t, admin, "GET", "/containerLogs/ns/p/c?limitBytes=6"); body != "out\ner" {
		t.Errorf("limited log is %q", body)
	}
	if f.host.logID != "c2" || f.host.logged.Tail != -1 {
		t.Errorf("container %s was asked for %+v", f.host.logID, f.host.logged)
	}
}

func TestLogsFollow(t *testing.T) {
	f := start(t)
	client, err := rest.HTTPClientFor(f.as(t, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(f.url + "/containerLogs/ns/p/c?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"out\n", "err\n", "more\n", "and more\n"} {
		if strings.Contains(want, "more") {
			f.host.more <- want
		}
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	// A log that is followed does not keep the server from stopping.
	f.stop()
	if _, err := lines.ReadString('\n'); err == nil {
		t.Error("the log goes on after the server stopped")
	}
}

func TestAccess(t *testing.T) {
	f := start(t)
	token := func(s string) *rest.Config {
		c := f.as(t, "")
		c.BearerToken = s
		return c
	}
	foreign := f.as(t, "")
	foreign.CertData, foreign.KeyData = newAuthority(t).issue(t, "admin", 2)
	tests := []struct {
		name, path string
		as         *rest.Config
		code       int
	}{
		{"nobody", "/pods", f.as(t, ""), 401},
		{"certificate of a stranger", "/pods", foreign, 401},
		{"unknown token", "/pods", token("bad"), 401},
		{"known token", "/pods", token("good"), 200},
		{"certificate", "/containerLogs/ns/p/c", f.as(t, "admin"), 200},
		{"fine-grained right", "/pods", f.as(t, "reader"), 200},
		{"metrics", "/metrics/resource", f.as(t, "reader"), 200},
		{"metrics of cgroups", "/metrics/cadvisor", f.as(t, "reader"), 200},
		{"no right to logs of the node", "/logs/", f.as(t, "reader"), 403},
		{"no right to profiles", "/debug/pprof/", f.as(t, "reader"), 403},
		{"no right to stats", "/stats/summary", f.as(t, "reader"), 403},
		{"no right to logs", "/containerLogs/ns/p/c", f.as(t, "reader"), 403},
		{"no right to look for paths", "/nothing", f.as(t, "reader"), 403},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if code, body := f.do(t, tc.as, "GET", tc.path); code != tc.code {
				t.Errorf("got %d %q, want %d", code, body, tc.code)
			}
		})
	}
	if _, body := f.do(t, f.as(t, "reader"), "GET", "/configz"); body != "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[configz proxy])\n" {
		t.Errorf("unexpected refusal %q", body)
	}
	asked, tokens := len(f.asked), f.tokens
	for range 3 {
		f.do(t, token("good"), "GET", "/pods")
		f.do(t, token("bad"), "GET", "/pods")
		f.do(t, f.as(t, "reader"), "GET", "/configz")
	}
	if len(f.asked) != asked || f.tokens != tokens {
		t.Errorf("answers are not remembered: %d more access and %d more token reviews", len(f.asked)-asked, f.tokens-tokens)
	}
}

// TestAccess_Believed: what the API server has said of a token, and of a right, counts for as long as the configuration says.
func TestAccess_Believed(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Now())
	f := start(t, func(c *Config) {
		c.Clock, c.TTLs = now, TTLs{Token: 5 * time.Second, Allowed: 20 * time.Second, Denied: 3 * time.Second}
	})
	as := func(token string) *rest.Config {
		c := f.as(t, "")
		c.BearerToken = token
		return c
	}
	for _, step := range []struct {
		pass                 time.Duration
		good, bad, forbidden int // questions that it takes
	}{
		{0, 2, 1, 2}, {2900 * time.Millisecond, 0, 0, 0}, {100 * time.Millisecond, 0, 0, 2}, {2 * time.Second, 1, 1, 0}, {20 * time.Second, 2, 1, 2},
	} {
		now.SetTime(now.Now().Add(step.pass))
		for _, ask := range []struct {
			who  *rest.Config
			path string
			code int
			want int
		}{{as("good"), "/pods", 200, step.good}, {as("bad"), "/pods", 401, step.bad}, {f.as(t, "reader"), "/configz", 403, step.forbidden}} {
			before := f.questions()
			if code, body := f.do(t, ask.who, "GET", ask.path); code != ask.code {
				t.Errorf("%+v, %s: got %d %q, want %d", step, ask.path, code, body, ask.code)
			}
			if got := f.questions() - before; got != ask.want {
				t.Errorf("%+v, %s, %d: %d questions, want %d", step, ask.path, ask.code, got, ask.want)
			}
		}
	}
}

func TestAttributes(t *testing.T) {
	tests := []struct {
		method, path, verb string
		subresources       []string
	}{
		{"GET", "/stats/summary", "get", []string{"stats"}},
		{"GET", "/metrics/probes", "get", []string{"metrics"}},
		{"GET", "/healthz", "get", []string{"healthz", "proxy"}},
		{"GET", "/healthz/syncloop", "get", []string{"healthz", "proxy"}},
		{"GET", "/metrics", "get", []string{"metrics"}},
		{"GET", "/metrics/cadvisor", "get", []string{"metrics"}},
		{"GET", "/logs/", "get", []string{"log"}},
		{"GET", "/configz", "get", []string{"configz", "proxy"}},
		{"GET", "/pods/", "get", []string{"pods", "proxy"}},
		{"POST", "/checkpoint/ns/p/c", "create", []string{"checkpoint"}},
		{"GET", "/debug/pprof/", "get", []string{"proxy"}},
		{"GET", "/containerLogs/ns/p/c", "get", []string{"proxy"}},
		{"GET", "/runningpods/", "get", []string{"pods", "proxy"}},
		{"POST", "/exec/ns/p/c", "create", []string{"proxy"}},
		{"GET", "/statusz", "get", []string{"statusz"}},
		{"GET", "/flagz", "get", []string{"configz"}},
		{"DELETE", "/metrics/slis", "delete", []string{"metrics"}},
		{"GET", "/podsx", "get", []string{"proxy"}},
		{"PUT", "/", "update", []string{"proxy"}},
	}
	for _, tc := range tests {
		t.Run(tc.method+tc.path, func(t *testing.T) {
			r, err := http.NewRequest(tc.method, tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			verb, subresources := attributes(r)
			if diff := cmp.Diff(tc.subresources, subresources); verb != tc.verb || diff != "" {
				t.Errorf("verb %s, want %s\n%s", verb, tc.verb, diff)
			}
		})
	}
}

// TestOpenPorts checks what is served to everybody, where settings ask for that, and what is not.
func TestOpenPorts(t *testing.T) {
	healthz, readOnly := freeAddress(t), freeAddress(t)
	f := start(t, func(c *Config) { c.Healthz, c.ReadOnly = healthz, readOnly })
	none := &rest.Config{}
	tests := []struct {
		addr, method, path string
		code               int
		body               string // part of it
	}{
		{healthz, "GET", "/healthz", 200, "ok"},
		{healthz, "GET", "/healthz/syncloop", 200, "ok"},
		{healthz, "GET", "/pods", 404, ""},
		{healthz, "GET", "/metrics", 404, ""},
		{readOnly, "GET", "/healthz", 200, "ok"},
		{readOnly, "GET", "/pods", 200, `"kind":"PodList"`},
		{readOnly, "GET", "/stats/summary", 200, `"nodeName":"n"`},
		{readOnly, "GET", "/metrics", 200, "process_start_time_seconds"},
		{readOnly, "GET", "/metrics/cadvisor", 200, "machine_cpu_cores 2"},
		{readOnly, "GET", "/metrics/resource", 200, "container_cpu_usage_seconds_total"},
		{readOnly, "GET", "/configz", 404, ""},
		{readOnly, "GET", "/containerLogs/ns/p/c", 404, ""},
		{readOnly, "GET", "/logs/", 404, ""},
		{readOnly, "GET", "/debug/pprof/", 404, ""},
		{readOnly, "POST", "/run/ns/p/c?cmd=id", 404, ""},
		{readOnly, "POST", "/checkpoint/ns/p/c", 404, ""},
		{readOnly, "POST", "/pods", 405, ""},
	}
	secure := f.url
	for _, tc := range tests {
		t.Run(tc.addr[strings.LastIndex(tc.addr, ":"):]+tc.method+tc.path, func(t *testing.T) {
			f.url = "http://" + tc.addr
			if code, body := f.do(t, none, tc.method, tc.path); code != tc.code || !strings.Contains(body, tc.body) {
				t.Errorf("got %d %q, want %d with %q", code, body, tc.code, tc.body)
			}
		})
	}
	f.url = secure
	if code, _ := f.do(t, f.as(t, ""), "GET", "/pods"); code != http.StatusUnauthorized {
		t.Errorf("without a certificate the API answers %d", code)
	}
	f.stop()
	for _, addr := range []string{healthz, readOnly} {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			t.Errorf("%s is served after the end", addr)
		}
	}
}

// TestOpenPorts_Taken checks that a port which cannot be had is an error that says which, and keeps no other.
func TestOpenPorts_Taken(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	api := freeAddress(t)
	s, err := New(Config{
		Addr: api, Healthz: other.Addr().String(), Host: &fakeHost{}, Client: fake.NewSimpleClientset(),
		Certificate: func() (*tls.Certificate, error) { return nil, errors.New("none") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "listening for the kubelet's health") {
		t.Errorf("got %v", err)
	}
	l, err := net.Listen("tcp", api)
	if err != nil {
		t.Fatalf("the API's port is kept: %v", err)
	}
	_ = l.Close()
}

// TestTLS checks that what of TLS is spoken is what was asked for.
func TestTLS(t *testing.T) {
	f := start(t, func(c *Config) { c.MinVersion = tls.VersionTLS13 })
	for most, ok := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
		roots := x509.NewCertPool()
		roots.AddCert(f.ca.cert)
		conn, err := tls.Dial("tcp", strings.TrimPrefix(f.url, "https://"), &tls.Config{RootCAs: roots, MaxVersion: most})
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != ok {
			t.Errorf("with a client that speaks at most %s: %v", tls.VersionName(most), err)
		}
	}
}

// freeAddress was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
