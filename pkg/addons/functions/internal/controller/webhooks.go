// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/activator"
	"minik8s.io/minik8s/pkg/addons/functions/internal/trigger"
)

// Bounds of Secrets of webhooks: who is not known must not be able to have the API server asked at will.
const (
	secretKept    = 10 * time.Second
	secretTimeout = 5 * time.Second
)

// webhook is asked by the activator whether a request may call a function.
func (r *Reconciler) webhook(ctx context.Context, name types.NamespacedName, webhook string, header http.Header, body []byte) error {
	var fn v1alpha1.Function
	if err := r.client.Get(ctx, name, &fn); err != nil {
		return err
	}
	i := slices.IndexFunc(fn.Spec.Triggers, func(t v1alpha1.Trigger) bool { return t.Name == webhook && t.Webhook != nil })
	if i < 0 {
		return activator.ErrNoWebhook
	}
	key := fn.Spec.Triggers[i].Webhook.Secret
	data, err := r.secrets.read(ctx, r.live, types.NamespacedName{Namespace: fn.Namespace, Name: key.Name})
	if err == nil && len(data[key.Key]) == 0 {
		err = fmt.Errorf("there is nothing at key %q of Secret %q", key.Key, key.Name)
	}
	if err != nil {
		r.triggerFailed(&fn, webhook, err)
		return err
	}
	if err := trigger.Verify(data[key.Key], header, body, time.Now()); err != nil {
		return fmt.Errorf("%w: %w", activator.ErrUnproved, err)
	}
	return nil
}

// secrets are what has been read in the last seconds.
type secrets struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*secret
}

// secret is one that has been read, or is being read.
type secret struct {
	at   time.Time
	done chan struct{} // closed when there is data, or an error
	data map[string][]byte
	err  error
}

// read returns what a Secret has, or had a few seconds ago. It is read once for all that ask meanwhile.
func (s *secrets) read(ctx context.Context, from client.Reader, name types.NamespacedName) (map[string][]byte, error) {
	now := time.Now()
	s.mu.Lock()
	maps.DeleteFunc(s.all, func(_ types.NamespacedName, old *secret) bool { return now.Sub(old.at) > secretKept })
	have := s.all[name]
	if have == nil {
		have = &secret{at: now, done: make(chan struct{})}
		s.all[name] = have
		go have.read(context.WithoutCancel(ctx), from, name)
	}
	s.mu.Unlock()
	select {
	case <-have.done:
		return have.data, have.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *secret) read(ctx context.Context, from client.Reader, name types.NamespacedName) {
	defer close(s.done)
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	var found corev1.Secret
	s.err = from.Get(ctx, name, &found)
	if apierrors.IsNotFound(s.err) {
		s.err = fmt.Errorf("there is no Secret %q", name.Name)
	}
	s.data = found.Data
}
