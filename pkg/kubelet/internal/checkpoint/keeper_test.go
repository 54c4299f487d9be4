// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

// witness is a Life that sees what is in the store when it is asked to do something.
type witness struct {
	t     *testing.T
	store *Store
	seen  []types.UID
	blind bool
}

func (w *witness) look() {
	if w.blind {
		return
	}
	pods, err := w.store.Load()
	if err != nil {
		w.t.Error(err)
	}
	w.seen = nil
	for _, p := range pods {
		w.seen = append(w.seen, p.UID)
	}
}

func (w *witness) Sync(context.Context, *corev1.Pod) (podworker.Result, error) {
	w.look()
	return podworker.Result{}, nil
}
func (w *witness) Terminate(context.Context, *corev1.Pod, time.Duration) error { w.look(); return nil }
func (w *witness) Cleanup(context.Context, *corev1.Pod, bool) error            { w.look(); return nil }
func (w *witness) Forget(*corev1.Pod)                                          { w.look() }

func TestKeep(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{t: t, store: s}
	life := s.Keep(w)
	ctx := t.Context()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "ns"}}
	saved := func() *corev1.Pod {
		t.Helper()
		pods, err := s.Load()
		if err != nil || len(pods) != 1 {
			t.Fatalf("%v, %v", pods, err)
		}
		return pods[0]
	}
	written := func() time.Time {
		t.Helper()
		info, err := os.Stat(filepath.Join(s.dir, "u.json"))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	if _, err := life.Sync(ctx, p); err != nil || len(w.seen) != 1 {
		t.Fatalf("it is synced before it is saved: %v, %v", w.seen, err)
	}
	first := written()
	reported := p.DeepCopy()
	reported.Status.PodIP = "10.0.0.1"
	for _, same := range []*corev1.Pod{p, reported} {
		if _, err := life.Sync(ctx, same); err != nil || written() != first {
			t.Errorf("a change of its status is written, %v", err)
		}
	}
	going := p.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if err := life.Terminate(ctx, going, time.Second); err != nil || saved().DeletionTimestamp == nil {
		t.Errorf("that it is going is not saved, %v", err)
	}
	ended := going.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	if err := life.Cleanup(ctx, ended, true); err != nil || saved().Status.Phase != corev1.PodFailed {
		t.Errorf("that it has ended is not saved, %v", err)
	}
	life.Forget(ended)
	if len(w.seen) != 0 {
		t.Errorf("when it is forgotten it is still saved: %v", w.seen)
	}
	// What cannot be written does not stop the pod.
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	w.blind = true
	if _, err := life.Sync(ctx, p); err != nil {
		t.Error(err)
	}
}
