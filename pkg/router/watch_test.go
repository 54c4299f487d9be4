// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// unlisted is a cache of kinds that take long to be listed. It counts how often somebody looks whether they have been.
type unlisted struct {
	cache.Cache
	cache.Informer
	looks atomic.Int32
}

// patience is after how many looks the kinds have been listed.
const patience = 1000

func (u *unlisted) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return u, nil
}

func (u *unlisted) RemoveInformer(context.Context, client.Object) error { return nil }

func (u *unlisted) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil //nolint:nilnil // nobody asks for it
}

func (u *unlisted) HasSynced() bool { return u.looks.Add(1) > patience }

// Nobody waits for a kind that is left before it has been listed.
func TestWatch_Leave(t *testing.T) {
	t.Parallel()
	u := &unlisted{}
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithoutCancel(t.Context()) // it goes on after the test
		scheme, err := newScheme()
		if err != nil {
			t.Fatal(err)
		}
		w := &watch{
			cache: u, client: fake.NewClientBuilder().WithScheme(scheme).Build(), trigger: make(chan struct{}, 1), watched: map[schema.GroupVersionKind]watched{},
		}
		for range 2 {
			if listed, err := w.ask(ctx, &corev1.Service{}); err != nil || listed {
				t.Fatal(listed, err)
			}
		}
		if err := w.leave(ctx, &corev1.Service{}); err != nil || len(w.watched) != 0 {
			t.Fatal(w.watched, err)
		}
	})
	if u.looks.Load() >= patience {
		t.Error("somebody has gone on waiting")
	}
}
