// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// badEngine is the machine's Docker behind a proxy that holds requests up or turns them away.
type badEngine struct {
	socket string

	mu   sync.Mutex
	hold func(*http.Request) bool // requests that get no answer until it changes
	away bool
	free chan struct{} // closed when hold changes
}

// newBadEngine serves Docker at a socket of its own until the test ends.
func newBadEngine(t *testing.T) *badEngine {
	t.Helper()
	docker := "/var/run/docker.sock"
	if h := os.Getenv("DOCKER_HOST"); h != "" {
		docker = strings.TrimPrefix(h, "unix://")
	}
	e := &badEngine{socket: filepath.Join(t.TempDir(), "s"), free: make(chan struct{})}
	l, err := net.Listen("unix", e.socket)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "docker"}) },
		FlushInterval: -1,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", docker)
		}},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			e.mu.Lock()
			hold, away, free := e.hold != nil && e.hold(r), e.away, e.free
			e.mu.Unlock()
			if away {
				panic(http.ErrAbortHandler) // the connection breaks
			}
			if !hold {
				break
			}
			select {
			case <-free:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return e
}

// holds lets requests wait; nil lets go of them.
func (e *badEngine) holds(hold func(*http.Request) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = hold
	close(e.free)
	e.free = make(chan struct{})
}

// goes lets the engine go away, or come back.
func (e *badEngine) goes(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = away
}

// An engine that is stuck with one container, or with all, or gone for a while, restarts nothing, and what it is not stuck with
// goes on.
func TestBadEngine(t *testing.T) {
	engine := newBadEngine(t)
	c := newCluster(t, "engine")
	c.Env = []string{"DOCKER_HOST=unix://" + engine.socket}
	k := up(t, c)
	since := k.readySince(t)
	probe := &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/guestbook", "toolbox"}}}}
	create := func(name string, p *corev1.Probe) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: "c", Image: frontendImage, Command: []string{"/guestbook", "static", "/"}, LivenessProbe: p}},
		}}
		if _, err := k.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitReady := func(name string, restarts int32) {
		t.Helper()
		eventually(t, 40*time.Second, name+" Ready", func(ctx context.Context) error {
			p, err := k.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := p.Status.ContainerStatuses; len(s) != 1 || !s[0].Ready || s[0].RestartCount != restarts {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	create("stuck", nil)
	create("other", nil)
	create("probed", probe)
	for _, name := range []string{"stuck", "other", "probed"} {
		awaitReady(name, 0)
	}
	ids := map[string]string{}
	for _, name := range []string{"stuck", "other", "probed"} {
		p, err := k.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, ids[name], _ = strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	}

	// One container cannot be inspected, and has just ended.
	engine.holds(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/containers/"+ids["stuck"]+"/json") })
	for _, name := range []string{"stuck", "other"} {
		if out, err := exec.Command("docker", "kill", ids[name]).CombinedOutput(); err != nil {
			t.Fatalf("docker kill: %v: %s", err, out)
		}
	}
	awaitReady("other", 1)
	create("new", nil)
	awaitReady("new", 0)
	if now := k.readySince(t); !now.Equal(since) {
		t.Errorf("the node was not Ready between %s and %s", since, now)
	}
	engine.holds(nil)
	awaitReady("stuck", 1)

	// Nothing is answered for longer than the probe has patience, then nobody is there.
	for _, bad := range []func(bool){
		func(bad bool) {
			if !bad {
				engine.holds(nil)
				return
			}
			engine.holds(func(*http.Request) bool { return true })
		},
		engine.goes,
	} {
		bad(true)
		create("late", nil)
		wait, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		<-wait.Done()
		cancel()
		bad(false)
		awaitReady("late", 0)
		k.kubectl(t, "delete", "pod", "late", "--wait=true", "--timeout=60s")
	}
	for name, restarts := range map[string]int32{"stuck": 1, "other": 1, "probed": 0, "new": 0} {
		awaitReady(name, restarts)
	}

	// It never comes back.
	engine.goes(true)
	fails(t, c, "down", []string{"--purge"}, engine.socket, "--force")
	if err := c.Down(t.Context(), "--purge", "--force"); err != nil {
		t.Fatal(err)
	}
	if err := removeContainers(c.Name); err != nil {
		t.Fatal(err)
	}
	gone(t, c)
}

// readySince is when the node became Ready.
func (k *kube) readySince(t *testing.T) time.Time {
	t.Helper()
	nodes, err := k.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		t.Fatalf("%v, %v", nodes, err)
	}
	for _, c := range nodes.Items[0].Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	t.Fatalf("the node is not Ready: %+v", nodes.Items[0].Status.Conditions)
	return time.Time{}
}
