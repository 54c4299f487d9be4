// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package legacyserviceaccounttokencleaner removes the token Secrets that old clusters made for every ServiceAccount
// and that nobody uses: a year without use makes a token invalid, another year deletes it (KEP-2799). Touch it when
// these times change.
package legacyserviceaccounttokencleaner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// period is the time between two passes.
	period = 24 * time.Hour
	// cleanUpPeriod is how long a token has to be unused (--legacy-service-account-token-clean-up-period).
	cleanUpPeriod = 365 * 24 * time.Hour

	// The API server notes in this ConfigMap since when it labels tokens that are used.
	trackingName, trackingSince = "kube-apiserver-legacy-service-account-token-tracking", "since"
)

// Cleaner looks at all token Secrets once a day.
type Cleaner struct {
	Client client.Client
	// Live reads the ConfigMap, which is not in the cache.
	Live  client.Reader
	Clock clock.WithTicker
}

// Setup adds the cleaner to the manager.
func Setup(env setup.Env) error {
	// Watches that a pass needs are started here, so that the cache is complete before the first one.
	for _, obj := range []client.Object{&corev1.Secret{}, &corev1.ServiceAccount{}, &corev1.Pod{}} {
		if _, err := env.Manager.GetCache().GetInformer(context.Background(), obj); err != nil {
			return fmt.Errorf("watching %T: %w", obj, err)
		}
	}
	return env.Manager.Add(&Cleaner{Client: env.Client, Live: env.Live, Clock: env.Clock})
}

// Start makes a pass at once and then every day until ctx ends.
func (c *Cleaner) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithName("legacyserviceaccounttokencleaner")
	ticker := c.Clock.NewTicker(period)
	defer ticker.Stop()
	for {
		if err := c.Clean(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "Cleaning up tokens of service accounts")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Clean makes one pass over all token Secrets.
func (c *Cleaner) Clean(ctx context.Context) error {
	since, err := c.trackedSince(ctx)
	if err != nil {
		return err
	}
	now := c.Clock.Now().UTC()
	if now.Before(since.Add(cleanUpPeriod)) {
		return nil // an older silence is no disuse: uses were not noted
	}
	var secrets corev1.SecretList
	if err := c.Client.List(ctx, &secrets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing secrets: %w", err)
	}
	var errs []error
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if !idle(secret, now) {
			continue
		}
		if needed, err := c.needed(ctx, secret); err != nil || needed {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, c.retire(ctx, secret, now))
	}
	return errors.Join(errs...)
}

// trackedSince returns the first moment from which all uses are noted.
func (c *Cleaner) trackedSince(ctx context.Context) (time.Time, error) {
	var tracking corev1.ConfigMap
	key := types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: trackingName}
	if err := c.Live.Get(ctx, key, &tracking); err != nil {
		return time.Time{}, fmt.Errorf("reading since when the use of tokens is noted: %w", err)
	}
	day, err := time.Parse(time.DateOnly, tracking.Data[trackingSince])
	if err != nil {
		return time.Time{}, fmt.Errorf("reading since when the use of tokens is noted: %w", err)
	}
	return day.AddDate(0, 0, 1), nil
}

// needed tells whether a Secret was not made by an old cluster, as far as that can be told, or a pod uses it.
func (c *Cleaner) needed(ctx context.Context, secret *corev1.Secret) (bool, error) {
	var account corev1.ServiceAccount
	key := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Annotations[corev1.ServiceAccountNameKey]}
	err := c.Client.Get(ctx, key, &account)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the service account of secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if !generated(secret, &account) {
		return true, nil
	}
	var pods corev1.PodList
	if err := c.Client.List(ctx, &pods, client.InNamespace(secret.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing pods: %w", err)
	}
	for i := range pods.Items {
		if uses(&pods.Items[i], secret.Name) {
			return true, nil
		}
	}
	return false, nil
}

// retire labels an idle token as invalid, or deletes one that has been labelled for long enough.
func (c *Cleaner) retire(ctx context.Context, secret *corev1.Secret, now time.Time) error {
	since := secret.Labels[InvalidSinceLabel]
	if _, err := time.Parse(time.DateOnly, since); err != nil {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": secret.UID, "labels": map[string]string{InvalidSinceLabel: now.Format(time.DateOnly)},
		}})
		if err != nil {
			return err
		}
		err = c.Client.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("marking the token in secret %s/%s as invalid: %w", secret.Namespace, secret.Name, err)
		}
		return nil
	}
	if since >= day(now) {
		return nil
	}
	// A use of the token in the last moment would have changed the Secret.
	err := c.Client.Delete(ctx, secret.DeepCopy(), client.Preconditions{ResourceVersion: &secret.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the token secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
