// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/containertest"
)

// registryOf serves one image, as "private" to a user u with password p and as "public" to everybody. It returns its
// address and the image's digest.
func registryOf(t *testing.T, layer []byte) (address, digest string) {
	t.Helper()
	sum := func(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/program"}, "User": "77"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{sum(layer)}},
	})
	const manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": sum(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar", "size": len(layer), "digest": sum(layer)}},
	})
	blobs := map[string][]byte{sum(config): config, sum(layer): layer}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		user, password, _ := r.BasicAuth()
		// With one private repository, docker login's question at /v2/ has to be answered with a challenge too.
		if !strings.HasPrefix(r.URL.Path, "/v2/public/") && r.URL.Path != "/v2/" && (user != "u" || password != "p") {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/v2/" {
			if user == "" {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
			return
		}
		_, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
		switch kind, name, _ := strings.Cut(what, "/"); {
		case kind == "manifests" && (name == "1" || name == sum(manifest)):
			w.Header().Set("Content-Type", manifestType)
			w.Header().Set("Docker-Content-Digest", sum(manifest))
			_, _ = w.Write(manifest)
		case kind == "blobs" && blobs[name] != nil:
			_, _ = w.Write(blobs[name])
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), sum(manifest)
}

// TestPull_Stalls checks that a registry which says nothing does not hold a pull for ever.
func TestPull_Stalls(t *testing.T) {
	r := newTestRuntime(t)
	r.stall = 2 * time.Second
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/v2/" {
			select {
			case <-release:
			case <-q.Context().Done():
			}
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(func() { close(release); server.Close() })
	began := time.Now()
	_, err := r.PullImage(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/slow:1", nil)
	if err == nil || !strings.Contains(err.Error(), "no progress for 2s") || time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// TestPull_Queued: a pull whose layers wait for those of others is not given up for its silence, unless that goes on and on.
func TestPull_Queued(t *testing.T) {
	t.Parallel()
	const stall = 400 * time.Millisecond
	for _, test := range []struct {
		name   string
		told   []string // of one layer, before a silence of three times stall
		queue  time.Duration
		silent time.Duration // how long the pull was, if it was given up
	}{
		{name: "it waits", told: []string{"Pulling fs layer", "Waiting"}, queue: time.Minute},
		{name: "it waits for too long", told: []string{"Pulling fs layer", "Waiting"}, queue: 2 * stall, silent: 2 * stall},
		{name: "it is the layer's turn, and the registry does not answer", told: []string{"Pulling fs layer"}, queue: time.Minute, silent: stall},
		{name: "it has waited", told: []string{"Pulling fs layer", "Waiting", "Downloading"}, queue: time.Minute, silent: stall},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("Api-Version", "1.41")
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(q.URL.Path, "/images/create"):
					fmt.Fprint(w, `{"id":"1","status":"Pulling from i"}{"id":"other","status":"Already exists"}`)
					for _, status := range test.told {
						fmt.Fprintf(w, `{"id":"layer","status":%q,"progressDetail":{}}`, status)
					}
					w.(http.Flusher).Flush()
					select {
					case <-time.After(3 * stall):
						fmt.Fprint(w, `{"id":"layer","status":"Pull complete"}{"status":"Status: Downloaded newer image for i:1"}`)
					case <-q.Context().Done():
					}
				case strings.HasSuffix(q.URL.Path, "/images/i:1/json"):
					fmt.Fprint(w, `{"Id":"pulled","RepoTags":["i:1"]}`)
				}
			}))
			t.Cleanup(server.Close)
			r, err := New(Config{Cluster: "c", Node: "n", Host: strings.Replace(server.URL, "http", "tcp", 1)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			r.stall, r.queue = stall, test.queue
			img, err := r.PullImage(t.Context(), "i:1", nil)
			if test.silent == 0 {
				if err != nil || img.ID != "pulled" {
					t.Errorf("got %v, %v", img, err)
				}
				return
			}
			if want := `Cancel pulling image "docker.io/library/i:1" because of no progress for ` + test.silent.String(); err == nil || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// TestFollowPull: what a pull waits for is known from what was told last of each of its layers.
func TestFollowPull(t *testing.T) {
	t.Parallel()
	var words strings.Builder
	var want, got []bool
	for _, step := range []struct {
		id, status string
		queued     bool
	}{
		{id: "latest", status: "Pulling from library/i"},
		{id: "a", status: "Already exists"},
		{id: "b", status: "Pulling fs layer"},
		{id: "c", status: "Pulling fs layer"},
		{id: "c", status: "Waiting"},
		{id: "b", status: "Downloading"},
		{id: "b", status: "Verifying Checksum"},
		{id: "b", status: "Download complete", queued: true},
		{id: "b", status: "Extracting"},
		{id: "b", status: "Pull complete", queued: true},
		{id: "c", status: "Downloading"},
		{id: "c", status: "Retrying in 5 seconds"},
		{id: "c", status: "Pull complete"},
		{status: "Digest: sha256:1"},
	} {
		fmt.Fprintf(&words, `{"id":%q,"status":%q}`+"\r\n", step.id, step.status)
		want = append(want, step.queued)
	}
	words.WriteString(`{"errorDetail":{"message":"m"},"error":"m"}`)
	err := followPull(strings.NewReader(words.String()), func(queued bool) { got = append(got, queued) })
	if diff := cmp.Diff(want, got); diff != "" || err == nil || err.Error() != "m" {
		t.Errorf("error %v, queued (-want +got):\n%s", err, diff)
	}
}

// missingTag is what engines say of a tag that a registry has not, with their own store of images and with containerd's.
var missingTag = regexp.MustCompile("manifest unknown|failed to resolve reference .* not found")

func TestPull(t *testing.T) {
	r := newTestRuntime(t)
	ctx := t.Context()
	address, digest := registryOf(t, programTar(t))
	login := &container.RegistryAuth{Username: "u", Password: "p"}
	private := address + "/private:1"
	if _, err := r.PullImage(ctx, private, nil); err == nil || !strings.Contains(err.Error(), "no basic auth credentials") {
		t.Errorf("without a login: %v", err)
	}
	if _, err := r.PullImage(ctx, private, &container.RegistryAuth{Username: "u", Password: "wrong"}); err == nil {
		t.Error("pulled with a wrong login")
	}
	if _, err := r.PullImage(ctx, address+"/private:2", login); err == nil || !missingTag.MatchString(err.Error()) || errors.Is(err, container.ErrNotFound) {
		t.Errorf("a tag that does not exist: %v", err)
	}
	img, err := r.PullImage(ctx, private, login)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := r.RemoveImage(ctx, img.ID); err != nil {
			t.Errorf("removing it: %v", err)
		}
		if _, err := r.Image(ctx, img.ID); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("after removing it: %v", err)
		}
	})
	if img.User != "77" || len(img.RepoDigests) != 1 || img.RepoDigests[0] != address+"/private@"+digest {
		t.Errorf("got %+v", img)
	}
	for _, ref := range []string{address + "/private@" + digest, address + "/private:1@" + digest} {
		got, err := r.PullImage(ctx, ref, login)
		if err != nil || got.ID != img.ID {
			t.Errorf("by digest, %q: %+v, %v", ref, got, err)
		}
	}
	// The start of an image's id is not its name.
	if _, err := r.Image(ctx, strings.TrimPrefix(img.ID, "sha256:")[:12]); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("by a part of its id: %v", err)
	}
	t.Run("ImageID", func(t *testing.T) {
		p := containertest.NewPod(t, containertest.Subject{Runtime: r, Image: img.ID, Ref: private})
		id := p.Create(p.Config("wait"))
		if got, want := p.Get(id).ImageID, "docker-pullable://"+address+"/private@"+digest; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := r.RemoveImage(t.Context(), img.ID); err == nil {
			t.Error("an image in use was removed")
		}
		if got, err := r.Image(t.Context(), private); err != nil || len(got.RepoDigests) != 1 {
			t.Errorf("an image in use lost its names: %+v, %v", got, err)
		}
	})
}
