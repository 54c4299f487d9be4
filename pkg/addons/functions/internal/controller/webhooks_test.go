// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

// store has the Secret hook, once there is one, and may take until it is given up to say so.
type store struct {
	client.Reader
	there, hangs atomic.Bool
	reads        atomic.Int32
}

func (s *store) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.reads.Add(1)
	if s.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	<-time.After(time.Second)
	if !s.there.Load() {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	obj.(*corev1.Secret).Data = map[string][]byte{"secret": []byte("x")}
	return nil
}

// guarded has Secrets that may not be read until it is allowed.
type guarded struct {
	client.Reader
	allowed bool
}

func (g *guarded) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if !g.allowed {
		return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("not yours"))
	}
	obj.(*corev1.Secret).Data = map[string][]byte{"secret": []byte("x")}
	return nil
}

// A webhook whose Secret may not be read is told of by the condition before somebody calls, and looked at again.
func TestPull_SecretForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &guarded{}
		r := &Reconciler{secrets: secrets{all: map[types.NamespacedName]*secret{}}, live: api}
		fn := &v1alpha1.Function{Spec: v1alpha1.FunctionSpec{Triggers: []v1alpha1.Trigger{
			{Name: "hook", Webhook: &v1alpha1.WebhookTrigger{Secret: v1alpha1.SecretKey{Name: "s", Key: "secret"}}},
		}}}
		for _, allowed := range []bool{false, true} {
			api.allowed = allowed
			p := &pass{Reconciler: r, fn: fn, state: &state{}}
			p.pull(t.Context())
			if allowed && (p.problem.reason != "" || p.nextTrigger() != 0) {
				t.Errorf("allowed: %+v, looked at again after %s", p.problem, p.nextTrigger())
			}
			if !allowed && (p.problem.reason != v1alpha1.ReasonSecret || !strings.Contains(p.problem.message, "--clusterrole="+SecretsRole) || p.nextTrigger() != kindRetry) {
				t.Errorf("not allowed: %+v, looked at again after %s", p.problem, p.nextTrigger())
			}
			<-time.After(secretKept + time.Second)
		}
	})
}

func TestTriggerFailed_IsShort(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(1)
	(&Reconciler{recorder: recorder}).triggerFailed(&v1alpha1.Function{}, "hook", errors.New(strings.Repeat("é", 1000)))
	if note := strings.TrimPrefix(<-recorder.Events, "Warning TriggerFailed "); len(note) > maxNote || !utf8.ValidString(note) || !strings.HasSuffix(note, "é...") {
		t.Errorf("%d bytes: %q", len(note), note)
	}
}

// TestSecrets has many ask at once, for a Secret that is not there, then is, and for an API server that does not answer.
func TestSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, api := secrets{all: map[types.NamespacedName]*secret{}}, &store{}
		read := func(ctx context.Context) (string, error) {
			data, err := s.read(ctx, api, types.NamespacedName{Namespace: "default", Name: "hook"})
			return string(data["secret"]), err
		}
		answers := make(chan error)
		for range 100 {
			go func() {
				_, err := read(t.Context())
				answers <- err
			}()
		}
		for range 100 {
			if err := <-answers; err == nil || err.Error() != `there is no Secret "hook"` {
				t.Fatalf("a Secret that is not there: %v", err)
			}
		}
		if n := api.reads.Load(); n != 1 {
			t.Errorf("%d reads for 100 that ask at once", n)
		}
		api.there.Store(true)
		<-time.After(secretKept + time.Second)
		if value, err := read(t.Context()); err != nil || value != "x" || api.reads.Load() != 2 {
			t.Errorf("once it is there: %q, %v after %d reads", value, err, api.reads.Load())
		}
		api.hangs.Store(true)
		<-time.After(secretKept + time.Second)
		begin := time.Now()
		if _, err := read(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != secretTimeout {
			t.Errorf("an API server that does not answer: %v after %s", err, time.Since(begin))
		}
		<-time.After(secretKept + time.Second)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := read(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: %v", err)
		}
		<-time.After(secretTimeout) // the read goes on for others, and ends
	})
}
