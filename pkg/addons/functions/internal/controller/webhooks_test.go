// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
