// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/test/integration/framework"
)

// frozen holds the watches of whole pods back while it is frozen, and counts creations of pods and what is read of Jobs.
type frozen struct {
	mu sync.Mutex
	// The following are guarded by mu.
	thawed    chan struct{} // nil unless it is frozen
	created   int
	jobEvents int
}

// wrap is a rest.Config.Wrap.
func (f *frozen) wrap(next http.RoundTripper) http.RoundTripper { return frozenClient{f, next} }

func (f *frozen) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed = make(chan struct{})
}

func (f *frozen) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.thawed != nil {
		close(f.thawed)
		f.thawed = nil
	}
}

// seen returns how many pods were created, and how often something was read of the watch of Jobs.
func (f *frozen) seen() (created, jobEvents int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.created, f.jobEvents
}

type frozenClient struct {
	*frozen
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f frozenClient) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	isWatch := r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true"
	switch {
	case isWatch && strings.HasSuffix(r.URL.Path, "/jobs"):
		resp.Body = &heldBody{ReadCloser: resp.Body, closed: make(chan struct{}), before: func() <-chan struct{} {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.jobEvents++
			return nil
		}}
	case isWatch && strings.HasSuffix(r.URL.Path, "/pods") && !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"):
		resp.Body = &heldBody{ReadCloser: resp.Body, closed: make(chan struct{}), before: func() <-chan struct{} {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.thawed
		}}
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") && resp.StatusCode == http.StatusCreated:
		f.mu.Lock()
		f.created++
		f.mu.Unlock()
	}
	return resp, nil
}

// heldBody is a body from which nothing is handed out before what before returns is closed, unless that is nil.
type heldBody struct {
	io.ReadCloser
	before func() <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if thawed := b.before(); thawed != nil {
		select {
		case <-thawed:
		case <-b.closed:
		}
	}
	return n, err
}

func (b *heldBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

// TestJob_WatchOfMetadata has controllers whose first write to a pod is a patch of metadata, and whose cache of pods then stands
// still. A watch of metadata that is up to date must not make them believe that they see the pods that they created.
func TestJob_WatchOfMetadata(t *testing.T) {
	c := framework.Start(t, framework.Options{Scheduler: true, Controllers: []string{"nodelifecycle"}})
	nodesFor(t, c, 1)
	ns := c.Namespace(t)
	first := startManager(t, c, nil, nil)
	spec := framework.PodSpec("v1")
	spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sum"}, Spec: batchv1.JobSpec{
		Completions: ptr.To[int32](6), Parallelism: ptr.To[int32](3), Template: corev1.PodTemplateSpec{Spec: spec},
	}}
	jobs := c.Client.BatchV1().Jobs(ns)
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(spec string) {
		t.Helper()
		if _, err := jobs.Patch(t.Context(), "sum", types.MergePatchType, []byte(`{"spec":{`+spec+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	podsAre := func(want int) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("there are %d pods", want), func() error {
			pods, err := activePods(c.Client, ns)
			if err == nil && len(pods) != want {
				err = fmt.Errorf("there are %d", len(pods))
			}
			return err
		})
	}
	podsAre(3)
	first.stop(t)
	patch(`"parallelism":1`)
	f := &frozen{}
	startManager(t, c, f.wrap, nil)
	t.Cleanup(f.thaw)
	podsAre(1)
	framework.Eventually(t, "the removed pods are counted", func() error {
		got, err := jobs.Get(t.Context(), "sum", metav1.GetOptions{})
		if err == nil && (got.Status.Active != 1 || ptr.Deref(got.Status.Terminating, 0) != 0) {
			err = fmt.Errorf("status %+v", got.Status)
		}
		return err
	})

	f.freeze()
	patch(`"parallelism":3`)
	framework.Eventually(t, "two pods are created", func() error {
		if created, _ := f.seen(); created < 2 {
			return fmt.Errorf("%d are", created)
		}
		return nil
	})
	for i := range 5 {
		_, before := f.seen()
		patch(fmt.Sprintf(`"activeDeadlineSeconds":%d`, 10_000+i))
		framework.Eventually(t, "the controllers hear of the Job", func() error {
			if _, now := f.seen(); now == before {
				return errors.New("they have not")
			}
			return nil
		})
	}
	f.thaw()
	framework.Eventually(t, "the Job has seen its pods", func() error {
		got, err := jobs.Get(t.Context(), "sum", metav1.GetOptions{})
		if err == nil && (got.Status.Active != 3 || ptr.Deref(got.Status.Terminating, 0) != 0) {
			err = fmt.Errorf("status %+v", got.Status)
		}
		return err
	})
	if created, _ := f.seen(); created != 2 {
		t.Errorf("%d pods were created, want 2", created)
	}
}
