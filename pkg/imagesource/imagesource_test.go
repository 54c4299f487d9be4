// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package imagesource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"
)

// shelf are images by name; the archive of one that ends with "!" breaks off.
type shelf map[string]string

func (s shelf) SaveImage(_ context.Context, image string, w io.Writer) error {
	text, is := s[image]
	if !is {
		return fmt.Errorf("no %s: %w", image, fs.ErrNotExist)
	}
	if text == "" {
		return errors.New("the engine is away")
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if strings.HasSuffix(text, "!") {
		return errors.New("the disk is broken")
	}
	return nil
}

func TestOpen(t *testing.T) {
	t.Parallel()
	images := shelf{"app:1": "archive", "init:1": "i", "debug:1": "d", "data:1": "v", "broken:1": "arch!", "away:1": "", "other:1": "secret", "mirror:1": "m"}
	pod := func(name, node string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: corev1.PodSpec{NodeName: node}}
		change(p)
		return p
	}
	with := func(names ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, n := range names {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: n})
			}
		}
	}
	pods := []corev1.Pod{
		*pod("a", "two", with("app:1", "broken:1", "away:1", "absent:1")),
		*pod("b", "two", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Image: "init:1"}}
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: "debug:1"}}}
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "data:1"}}}}
		}),
		*pod("c", "three", with("other:1")),
		*pod("d", "two", func(p *corev1.Pod) {
			with("mirror:1")(p)
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}),
	}
	client := fake.NewClientset()
	client.PrependReactor("list", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) { // which the fake does not select
		list := &corev1.PodList{}
		for i := range pods {
			if a.(k8stesting.ListAction).GetListRestrictions().Fields.Matches(fields.Set{"spec.nodeName": pods[i].Spec.NodeName}) {
				list.Items = append(list.Items, pods[i])
			}
		}
		return true, list, nil
	})
	there := true
	handler := NewHandler(func() Images {
		if !there {
			return nil
		}
		return images
	}, client)
	caller := &user.DefaultInfo{Name: "system:node:two", Groups: []string{"system:nodes"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), caller)))
	}))
	defer server.Close()
	source, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	get := func(image string) (string, error) {
		archive, err := source.Open(t.Context(), image)
		if err != nil {
			return "", err
		}
		defer archive.Close()
		data, err := io.ReadAll(archive)
		return string(data), err
	}
	for image, want := range map[string]string{"app:1": "archive", "init:1": "i", "debug:1": "d", "data:1": "v"} {
		if got, err := get(image); err != nil || got != want {
			t.Errorf("%s: %q, %v", image, got, err)
		}
	}
	for image, why := range map[string]string{"absent:1": "no absent:1", "other:1": "no pod of node", "mirror:1": "no pod of node", "": "?image="} {
		if got, err := get(image); got != "" || image != "" && !errors.Is(err, fs.ErrNotExist) || err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %q, %v", image, got, err)
		}
	}
	if got, err := get("broken:1"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %q, %v", got, err)
	}
	if _, err := get("away:1"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "the engine is away") {
		t.Errorf("while the engine is away: %v", err)
	}
	caller = &user.DefaultInfo{Name: "alice"}
	if _, err := get("app:1"); err == nil || !strings.Contains(err.Error(), "for nodes") {
		t.Errorf("a person: %v", err)
	}
	caller, there = &user.DefaultInfo{Name: "system:node:two", Groups: []string{"system:nodes"}}, false
	if _, err := get("app:1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a node: %v", err)
	}
	server.Close()
	if _, err := get("app:1"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a server: %v", err)
	}
}

// endless is an image without an end, which tells that it was given up.
type endless struct{ over chan struct{} }

func (e endless) SaveImage(_ context.Context, _ string, w io.Writer) error {
	for {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			e.over <- struct{}{}
			return err
		}
	}
}

// A node that reads nothing gives up its turn.
func TestHandler_Stall(t *testing.T) {
	t.Parallel()
	images := endless{make(chan struct{}, 1)}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}, Spec: corev1.PodSpec{NodeName: "two", Containers: []corev1.Container{{Image: "app:1"}}}}
	handler := NewHandler(func() Images { return images }, fake.NewClientset(pod))
	handler.stall = 100 * time.Millisecond
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "system:node:two", Groups: []string{"system:nodes"}})))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	source := &Client{http: server.Client()}
	if source.base, _ = url.Parse(server.URL); source.base == nil {
		t.Fatal(server.URL)
	}
	archive, err := source.Open(t.Context(), "app:1")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	select {
	case <-images.over:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for who does not read")
	}
	if _, err := io.Copy(io.Discard, archive); err == nil {
		t.Error("what was given up looks whole")
	}
}
