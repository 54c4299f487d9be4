// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const trackingName, trackingSince = "kube-apiserver-legacy-service-account-token-tracking", "since"

// tokenTracking makes the ConfigMap that says since when the use of tokens kept in Secrets is noted in these: who cleans
// unused ones up must not take an older silence for disuse.
func tokenTracking(ctx context.Context, client kubernetes.Interface, _ Config) error {
	api := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	today := time.Now().UTC().Format(time.DateOnly)
	have, err := api.Get(ctx, trackingName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: trackingName}, Data: map[string]string{trackingSince: today}}, metav1.CreateOptions{})
		return ignoreExists(err)
	}
	if err != nil {
		return err
	}
	if _, err := time.Parse(time.DateOnly, have.Data[trackingSince]); err == nil {
		return nil
	}
	if have.Data == nil {
		have.Data = map[string]string{}
	}
	have.Data[trackingSince] = today
	_, err = api.Update(ctx, have, metav1.UpdateOptions{})
	return err
}
