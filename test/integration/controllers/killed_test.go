// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/test/integration/framework"
)

// apiVariable makes the test binary a process that runs nothing but the workload controllers, against the API server at this
// address.
const apiVariable = "MINIK8S_TEST_MANAGER_OF"

// manager is what the process does, until it is killed or its parent ends.
func manager(host string) int {
	ctrl.SetLogger(logr.Discard())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	as := func(user string) *rest.Config {
		return &rest.Config{
			Host: host, BearerToken: user, QPS: -1,
			ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"},
		}
	}
	c, err := controllers.New(controllers.Config{
		RESTConfig: as("system:kube-controller-manager"),
		ClientFor: func(account string) (*rest.Config, error) {
			return as("system:serviceaccount:kube-system:" + account), nil
		},
		Enabled: workloads,
	})
	if err == nil {
		err = c.Start(context.Background())
	}
	fmt.Fprintln(os.Stderr, "the controllers ended:", err)
	return 1
}

// door is what processes with controllers reach the API server through. It kills them.
type door struct {
	cluster *framework.Cluster
	address string

	mu sync.Mutex
	// The following are guarded by mu.
	users map[string]http.Handler
	// victim is the process that runs, left is the number of writes until it is killed (0: never), and written says whether the
	// last one is still done.
	victim  *process
	left    int
	written bool
}

// process is a process with controllers.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
}

func newDoor(t *testing.T, c *framework.Cluster) *door {
	t.Helper()
	d := &door{cluster: c, users: map[string]http.Handler{}}
	server := httptest.NewServer(d)
	d.address = server.URL
	t.Cleanup(func() {
		d.kill()
		server.CloseClientConnections()
		server.Close()
	})
	return d
}

// start runs controllers in a process that is killed (with SIGKILL) at its n-th write, before or after that is done. With 0 it
// lives until kill is called.
func (d *door) start(t *testing.T, n int, written bool) *process {
	t.Helper()
	d.kill()
	command := exec.Command(os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), apiVariable+"="+d.address)
	command.Stderr = os.Stderr
	if _, err := command.StdinPipe(); err != nil { // it ends when this process does
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{command: command, ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // it is killed
		close(p.ended)
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.victim, d.left, d.written = p, n, written
	return p
}

// kill kills the process that runs, if there is one, and waits for its end.
func (d *door) kill() {
	d.mu.Lock()
	p := d.victim
	d.victim = nil
	d.mu.Unlock()
	if p != nil {
		_ = p.command.Process.Kill() // it may have been killed
		<-p.ended
	}
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	victim, written := d.count(r)
	proxy, err := d.proxy(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if victim == nil {
		proxy.ServeHTTP(w, r)
		return
	}
	if written {
		proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	_ = victim.command.Process.Kill()
	<-victim.ended
}

// count counts a write and returns the process that is to be killed at this one, and whether the write is done before.
func (d *door) count(r *http.Request) (victim *process, written bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events") || d.left == 0 {
		return nil, false
	}
	d.left--
	if d.left > 0 {
		return nil, false
	}
	return d.victim, d.written
}

// proxy passes on what a user asks for.
func (d *door) proxy(user string) (http.Handler, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.users[user]; p != nil {
		return p, nil
	}
	var groups []string
	if strings.HasPrefix(user, "system:serviceaccount:") {
		groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + metav1.NamespaceSystem}
	}
	config := d.cluster.User(user, groups...)
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(host)
			r.Out.Header.Del("Authorization")
		},
		Transport: transport, FlushInterval: -1, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	d.users[user] = p
	return p, nil
}
