// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
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

// SecretsRole names the ClusterRole that has the right to read Secrets. The controller has it in those namespaces only where somebody who
// has it binds it to the controller's account.
const SecretsRole = "system:minik8s:addon:functions:secrets"

// forbiddenError is that a Secret may not be read. Somebody has to allow it.
type forbiddenError struct{ error }

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
	if errors.As(err, new(*forbiddenError)) {
		r.poke(name) // the condition says it, too
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

// allowed returns an error if the Secret of a webhook may not be read. What else is wrong with it is told when somebody calls.
func (p *pass) allowed(ctx context.Context, t *v1alpha1.Trigger) error {
	_, err := p.secrets.read(ctx, p.live, types.NamespacedName{Namespace: p.fn.Namespace, Name: t.Webhook.Secret.Name})
	if !errors.As(err, new(*forbiddenError)) {
		return nil
	}
	p.kindRetry = kindRetry
	return err
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
	switch {
	case apierrors.IsNotFound(s.err):
		s.err = fmt.Errorf("there is no Secret %q", name.Name)
	case apierrors.IsForbidden(s.err):
		s.err = &forbiddenError{fmt.Errorf("%w; who may read it can allow it in this namespace: kubectl create rolebinding functions --clusterrole=%s --user=USER",
			s.err, SecretsRole)}
	}
	s.data = found.Data
}
