// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/dns/internal/hosts"
)

func reconciler(t *testing.T, text string, objects ...v1alpha1.Dns) (*Reconciler, *events.FakeRecorder) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Dns{})
	for i := range objects {
		b.WithObjects(&objects[i])
	}
	dir := t.TempDir()
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Client: b.Build(), Recorder: recorder, Cluster: "one", file: hosts.File{Path: filepath.Join(dir, "hosts"), Lock: filepath.Join(dir, "lock")}, ended: &atomic.Bool{}}
	if err := os.WriteFile(r.file.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r, recorder
}

func (r *Reconciler) want(t *testing.T, text string) {
	t.Helper()
	if got, err := os.ReadFile(r.file.Path); err != nil || string(got) != text {
		t.Errorf("the file is %q, %v, want %q", got, err, text)
	}
}

const (
	user = "127.0.0.1 localhost\n10.0.0.1 taken.test\n"
	ours = "# minik8s one begin\n192.0.2.1\tshop.test\t# minik8s one\n# minik8s one end\n"
)

func TestReconcile(t *testing.T) {
	t.Parallel()
	r, recorder := reconciler(t, user, object("shop", "shop.test", "192.0.2.1"), object("taken", "taken.test", "192.0.2.1"))
	for range 2 { // the second time changes nothing, and says nothing
		if result, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil || result.RequeueAfter != checkInterval {
			t.Fatal(result, err)
		}
		r.want(t, user+ours)
	}
	for name, want := range map[string]string{"shop": "Written", "taken": "NameTaken"} {
		d := &v1alpha1.Dns{}
		if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, d); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.InHostsFile)
		if c == nil || c.Reason != want || c.ObservedGeneration != 1 || !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.Programmed) {
			t.Errorf("%s: %v", name, d.Status.Conditions)
		}
	}
	if n := len(recorder.Events); n != 1 {
		t.Errorf("%d events", n)
	}
	if err := r.Client.DeleteAllOf(t.Context(), &v1alpha1.Dns{}, client.InNamespace("ns")); err != nil {
		t.Fatal(err)
	}
	if result, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil || result.RequeueAfter != 0 {
		t.Fatal(result, err)
	}
	r.want(t, user)
}

// A file that cannot be changed is told of by a condition, and tried again.
func TestReconcile_Fails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		file func(*Reconciler)
	}{
		{"not written", func(r *Reconciler) { r.file.Lock = filepath.Join(r.file.Path, "lock") }},
		{"not read", func(r *Reconciler) { r.file.Path = filepath.Dir(r.file.Path) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, recorder := reconciler(t, user, object("shop", "shop.test", "192.0.2.1"), object("away", "away.test"))
			tc.file(r)
			if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err == nil {
				t.Fatal("no error")
			}
			d := &v1alpha1.Dns{}
			if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "shop"}, d); err != nil {
				t.Fatal(err)
			}
			if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.InHostsFile); c == nil || c.Reason != v1alpha1.ReasonWriteFailed || !strings.Contains(c.Message, "as root") {
				t.Errorf("condition is %v", c)
			}
			if n := len(recorder.Events); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// It is tried again later and later, but as often at least as a file that can be changed is looked at.
func TestFailures(t *testing.T) {
	t.Parallel()
	limiter, last := failures(), time.Duration(0)
	for range 100 {
		next := limiter.When(reconcile.Request{})
		if next < last || next < time.Second || next > checkInterval {
			t.Fatalf("after %s comes %s", last, next)
		}
		last = next
	}
	if last != checkInterval {
		t.Errorf("at last %s", last)
	}
}

// Once the add-on has ended, nothing is written any more.
func TestRemoveAtEnd(t *testing.T) {
	t.Parallel()
	r, _ := reconciler(t, user+ours, object("shop", "shop.test", "192.0.2.1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.removeAtEnd(ctx); err != nil {
		t.Fatal(err)
	}
	r.want(t, user)
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	r.want(t, user)
}

// A file that cannot be changed at that moment is tried again.
func TestRemoveAtEnd_TriesAgain(t *testing.T) {
	t.Parallel()
	r, _ := reconciler(t, user+ours)
	away := filepath.Join(t.TempDir(), "away")
	r.file.Lock = filepath.Join(away, "lock")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ended := make(chan error, 1)
		go func() { ended <- r.removeAtEnd(ctx) }()
		synctest.Wait() // it has failed
		r.want(t, user+ours)
		if err := os.Mkdir(away, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
	r.want(t, user)
}
