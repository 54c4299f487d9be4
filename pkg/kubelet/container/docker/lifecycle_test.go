// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

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

// TestStart_Ending: a daemon that ends accepts nobody any more, but still answers those that it knows. It is told to start nothing.
func TestStart_Ending(t *testing.T) {
	t.Parallel()
	var started atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		switch {
		case strings.HasSuffix(q.URL.Path, "/start"):
			started.Add(1)
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(q.URL.Path, "/create"):
			started.Add(1)
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"Id":"made"}`)
		case strings.HasSuffix(q.URL.Path, "/version"):
			fmt.Fprint(w, `{"Version":"20.10"}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	}))
	t.Cleanup(server.Close)
	r, err := New(Config{Cluster: "c", Node: "n", Host: strings.Replace(server.URL, "http", "tcp", 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.StartContainer(t.Context(), "a"); err != nil || started.Load() != 1 {
		t.Fatalf("%d starts, %v", started.Load(), err)
	}
	if _, err := r.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.ServerVersion(t.Context()); err != nil {
		t.Fatalf("the daemon does not answer those that it knows: %v", err)
	}
	_, sandboxErr := r.StartSandbox(t.Context(), "b")
	_, createErr := r.create(t.Context(), "c", &dockercontainer.Config{}, &dockercontainer.HostConfig{}, func(dockercontainer.InspectResponse) bool { return false })
	for what, err := range map[string]error{"container": r.StartContainer(t.Context(), "a"), "sandbox": sandboxErr, "create": createErr} {
		if !errors.Is(err, container.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := started.Load(); n != 1 {
		t.Errorf("an ending daemon was told to make or start %d", n-1)
	}
}

func TestPasses(t *testing.T) {
	t.Parallel()
	annotated := container.ContainerConfig{Annotations: map[string]string{"a": "b"}}
	for _, tc := range []struct {
		version string
		config  container.ContainerConfig
		want    bool
	}{
		{"1.41", container.ContainerConfig{}, true}, {"1.42", annotated, false}, {"1.43", annotated, true},
	} {
		if err := passes(tc.version, tc.config); (err == nil) != tc.want {
			t.Errorf("%s, %v: %v", tc.version, tc.config, err)
		}
	}
}

// CDI devices are translated for any engine. One that knows them gets those that have no translation, all others refuse them.
func TestInject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `{"cdiVersion":"0.6.0","kind":"v.com/c","devices":[{"name":"plain","containerEdits":{"env":["A=1"]}},
		{"name":"hooked","containerEdits":{"hooks":[{"hookName":"poststop","path":"/bin/true"}]}}]}`
	if err := os.WriteFile(filepath.Join(dir, "v.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, version, info, device string
		dirs                        []string
		want                        container.ContainerConfig
		err                         string
	}{
		{name: "old engine", version: "1.41", dirs: []string{dir}, device: "plain", want: container.ContainerConfig{Env: []string{"A=1"}}},
		{name: "old engine without means", version: "1.41", dirs: []string{dir}, device: "hooked", err: "the engine has no means for a hook (poststop)"},
		{name: "engine that is not to know them", version: "1.44", info: `{}`, dirs: []string{dir}, device: "hooked", err: "the engine has no means for a hook (poststop)"},
		{name: "engine that knows them", version: "1.44", info: `{"CDISpecDirs":["` + dir + `"]}`, device: "plain", want: container.ContainerConfig{Env: []string{"A=1"}}},
		{name: "engine with means", version: "1.44", info: `{"CDISpecDirs":["` + dir + `"]}`, device: "hooked", want: container.ContainerConfig{CDIDevices: []string{"v.com/c=hooked"}}},
		{name: "engine that does not tell", version: "1.44", device: "plain", err: "asking the Docker daemon's configuration"},
		{name: "unknown", version: "1.44", info: `{"CDISpecDirs":["` + dir + `"]}`, device: "other", err: "unresolvable CDI devices v.com/c=other"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch {
				case strings.HasSuffix(q.URL.Path, "/_ping"):
					w.Header().Set("Api-Version", tc.version)
				case tc.info == "":
					http.Error(w, `{"message":"no"}`, http.StatusInternalServerError)
				default:
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, tc.info)
				}
			}))
			t.Cleanup(server.Close)
			r, err := New(Config{Cluster: "c", Node: "n", Host: strings.Replace(server.URL, "http", "tcp", 1), CDIDirs: tc.dirs})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			r.client.NegotiateAPIVersion(t.Context())
			got, err := r.inject(t.Context(), container.ContainerConfig{CDIDevices: []string{"v.com/c=" + tc.device}})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

// A container whose profile of AppArmor the kernel does not know is not made.
func TestArmored(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "profiles")
	if err := armored("absent", list); err != nil {
		t.Errorf("where there is no list: %v", err)
	}
	if err := os.WriteFile(list, []byte("docker-default (enforce)\n/usr/bin/man (complain)\nwith space (audit) (enforce)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for profile, want := range map[string]string{
		"": "<nil>", "unconfined": "<nil>", "docker-default": "<nil>", "/usr/bin/man": "<nil>", "with space (audit)": "<nil>",
		"docker": "apparmor profile not found docker", "non-existent-profile": "apparmor profile not found non-existent-profile",
	} {
		if got := fmt.Sprint(armored(profile, list)); got != want {
			t.Errorf("%q: %s", profile, got)
		}
	}
}
