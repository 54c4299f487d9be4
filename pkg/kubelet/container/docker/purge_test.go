// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// daemon is as much of Docker as a purge needs.
type daemon struct {
	containers map[string]string // kind by ID
	broken     map[string]bool   // cannot be removed
	busy       map[string]int    // are dead and cannot be removed so many times; mu guards it
	hangs      map[string]bool   // are neither removed nor ended, and never answered

	mu      sync.Mutex // guards the fields below
	removed []string
	killed  []string
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, verb := path.Base(r.URL.Path), ""
	if r.Method == http.MethodPost { // to do something to a container
		id, verb = path.Base(path.Dir(r.URL.Path)), id
	}
	switch {
	case id == "_ping":
		w.Header().Set("Api-Version", minAPIVersion)
	case d.hangs[id]:
		<-r.Context().Done()
	case r.Method == http.MethodDelete && d.broken[id]:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"message":"device or resource busy: %s"}`, id)
	case r.Method == http.MethodDelete && d.isBusy(id):
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"message":"device or resource busy: %s"}`, id)
	case verb == "" && path.Base(r.URL.Path) == "json" && d.containers[path.Base(path.Dir(r.URL.Path))] != "": // one
		_, _ = w.Write([]byte(`{"State":{"Status":"dead"}}`))
	case r.Method == http.MethodDelete:
		d.mu.Lock()
		d.removed = append(d.removed, id)
		d.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case verb == "kill":
		d.mu.Lock()
		d.killed = append(d.killed, id)
		d.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case verb == "wait":
		_, _ = w.Write([]byte(`{"StatusCode":137}`))
	default:
		list := []any{}
		for id, kind := range d.containers {
			if !strings.Contains(r.URL.Path, "/containers/") {
				break // images
			}
			list = append(list, map[string]any{"Id": id, "Labels": map[string]string{labelKind: kind}})
		}
		_ = json.NewEncoder(w).Encode(list)
	}
}

func (d *daemon) isBusy(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[id] == 0 {
		return false
	}
	d.busy[id]--
	return true
}

// runtime serves the daemon until the test ends, and returns a Runtime with little patience on it.
func (d *daemon) runtime(t *testing.T) *Runtime {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: d}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close() // what hangs ends
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	r, err := New(Config{Host: "unix://" + socket, Cluster: "c", Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	r.patience, r.dead = 300*time.Millisecond, 200*time.Millisecond
	return r
}

func TestPurge_RemovesAsMuchAsItCan(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		daemon *daemon
		want   []string
		wantIn []string // the error
		wantIs error
	}{
		{"all", &daemon{containers: map[string]string{"a": kindContainer, "s": kindSandbox}}, []string{"a", "s"}, nil, nil},
		{
			"some are stuck",
			&daemon{containers: map[string]string{"a": kindContainer, "b": kindContainer, "c": kindContainer, "s": kindSandbox, "t": kindSandbox}, broken: map[string]bool{"a": true, "s": true}},
			[]string{"b", "c", "t"},
			[]string{`removing container "a"`, `removing container "s"`},
			nil,
		},
		{"one is dead and goes later", &daemon{containers: map[string]string{"a": kindContainer, "s": kindSandbox}, busy: map[string]int{"a": 2}}, []string{"a", "s"}, nil, nil},
		{
			"one is dead and stays", &daemon{containers: map[string]string{"a": kindContainer, "s": kindSandbox}, busy: map[string]int{"a": 1000}},
			[]string{"s"}, []string{`removing container "a"`}, container.ErrDead,
		},
		{"one hangs", &daemon{containers: map[string]string{"a": kindContainer, "b": kindContainer}, hangs: map[string]bool{"a": true}}, []string{"b"}, []string{"does not get on", `removing container "a"`}, container.ErrUnavailable},
		{"the daemon hangs", &daemon{hangs: map[string]bool{"json": true}}, nil, []string{"does not get on", "listing the containers"}, container.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := tc.daemon
			r := d.runtime(t)
			err := r.Purge(t.Context())
			if (err == nil) != (len(tc.wantIn) == 0) || tc.wantIs != nil && !errors.Is(err, tc.wantIs) {
				t.Errorf("error %v", err)
			}
			for _, want := range tc.wantIn {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if slices.Sort(d.removed); !slices.Equal(d.removed, tc.want) {
				t.Errorf("removed %v, want %v", d.removed, tc.want)
			}
		})
	}
}

// A daemon that hangs keeps nobody for ever who takes a node away or ends its containers, and what does not hang is removed or ended.
func TestNode_DaemonThatHangs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		do    func(*Runtime, context.Context) error
		hangs string
		done  func(*daemon) []string
		want  []string
	}{
		{"remove", (*Runtime).PurgeNode, "a", func(d *daemon) []string { return d.removed }, []string{"b"}}, // sandboxes last
		{"remove, no list", (*Runtime).PurgeNode, "json", func(d *daemon) []string { return d.removed }, nil},
		{"kill", (*Runtime).KillNode, "a", func(d *daemon) []string { return d.killed }, []string{"b", "s"}},
		{"kill, no list", (*Runtime).KillNode, "json", func(d *daemon) []string { return d.killed }, nil},
		{"remove all", (*Runtime).PurgeNode, "", func(d *daemon) []string { return d.removed }, []string{"a", "b", "s"}},
		{"kill all", (*Runtime).KillNode, "", func(d *daemon) []string { return d.killed }, []string{"a", "b", "s"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := &daemon{containers: map[string]string{"a": kindContainer, "b": kindContainer, "s": kindSandbox}, hangs: map[string]bool{tc.hangs: true}}
			r := d.runtime(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := tc.do(r, ctx)
			if hangs := tc.hangs != ""; ctx.Err() != nil || hangs != errors.Is(err, container.ErrUnavailable) || hangs != (err != nil) {
				t.Errorf("error %v, %v", err, ctx.Err())
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			got := tc.done(d)
			if slices.Sort(got); !slices.Equal(got, tc.want) {
				t.Errorf("done to %v, want %v", got, tc.want)
			}
		})
	}
}
