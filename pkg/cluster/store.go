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

// Check is WaitReady without progress, and fails with ErrStore if nothing new can be stored. A cluster whose store is full
// starts all the same, so that one can delete something.
func Check(ctx context.Context, config *rest.Config, nodes int) error {
	if err := WaitReady(ctx, config, nodes, func(string) {}); err != nil {
		return err
	}
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
