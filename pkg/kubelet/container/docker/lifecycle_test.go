// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dockercontainer "github.com/docker/docker/api/types/container"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// TestCreate_Ghost checks a daemon that keeps a name for a container which it does not have.
func TestCreate_Ghost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(q.URL.Path, "/_ping"):
			w.Header().Set("API-Version", "1.41")
		case !strings.HasSuffix(q.URL.Path, "/containers/create"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such container"}`)
		case q.URL.Query().Get("name") == "taken":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"message":"Conflict. The container name is already in use by container \"x\"."}`)
		default:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"Id":%q}`, q.URL.Query().Get("name"))
		}
	}))
	t.Cleanup(server.Close)
	r, err := New(Config{Cluster: "c", Node: "n", Host: strings.Replace(server.URL, "http", "tcp", 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	r.ghost = 100 * time.Millisecond
	began := time.Now()
	id, err := r.create(t.Context(), "taken", &dockercontainer.Config{}, &dockercontainer.HostConfig{}, func(dockercontainer.InspectResponse) bool { return false })
	if err != nil || !strings.HasPrefix(id, "taken_") || time.Since(began) < r.ghost {
		t.Errorf("after %s: %q, %v", time.Since(began), id, err)
	}
}

func TestPasses(t *testing.T) {
	t.Parallel()
	cdi, annotated := container.ContainerConfig{CDIDevices: []string{"v/c=d"}}, container.ContainerConfig{Annotations: map[string]string{"a": "b"}}
	for _, tc := range []struct {
		version string
		config  container.ContainerConfig
		want    bool
	}{
		{"1.41", container.ContainerConfig{}, true}, {"1.43", cdi, false}, {"1.44", cdi, true}, {"1.42", annotated, false}, {"1.43", annotated, true},
	} {
		if err := passes(tc.version, tc.config); (err == nil) != tc.want {
			t.Errorf("%s, %v: %v", tc.version, tc.config, err)
		}
	}
}
