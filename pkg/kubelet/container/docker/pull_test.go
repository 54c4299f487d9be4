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
