// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ErrStore says that what keeps the objects is not well: it does not answer, or it is full.
var ErrStore = errors.New("the store is not well")

// Check waits until a cluster that runs is Ready, and fails with ErrStore if nothing new can be stored. A cluster whose store
// is full starts all the same, so that one can delete something.
func Check(ctx context.Context, c Config) error {
	config, err := Admin(c)
	if err != nil {
		return err
	}
	since, err := entries().Since(c.Name)
	if err != nil {
		return err
	}
	if err := waitReady(ctx, config, c, since, func(string) {}); err != nil {
		return err
	}
	return checkStore(ctx, config)
}

func checkStore(ctx context.Context, config *rest.Config) error {
	quiet := rest.CopyConfig(config)
	quiet.Timeout, quiet.WarningHandler = 5*time.Second, rest.NoWarnings{} // that the resource is deprecated
	client, err := kubernetes.NewForConfig(quiet)
	if err != nil {
		return err
	}
	etcd, err := client.CoreV1().ComponentStatuses().Get(ctx, "etcd-0", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("asking how the store is: %w", err)
	}
	return storeError(etcd)
}

func storeError(etcd *corev1.ComponentStatus) error {
	for _, c := range etcd.Conditions {
		if c.Type == corev1.ComponentHealthy && c.Status != corev1.ConditionTrue {
			return fmt.Errorf("%w: %s", ErrStore, c.Message)
		}
	}
	return nil
}
