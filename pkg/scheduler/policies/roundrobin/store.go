// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package roundrobin

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// configMap in kube-system has the node that had the last turn, by profile.
	configMap = "scheduler-rounds"
	// readTimeout is short because no pod is scheduled meanwhile. That happens once.
	readTimeout  = 2 * time.Second
	writeTimeout = 5 * time.Second
	// maxFieldManager is what the API accepts.
	maxFieldManager = 128
)

// fieldManager is one for each profile: what a manager does not apply again it would
// remove.
func fieldManager(profile string) string { return "kube-scheduler-" + profile }

// store keeps the round of a profile in the API.
type store struct {
	client  kubernetes.Interface
	profile string
}

// read returns the node that had the last turn, "" if none had one.
func (s store) read(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, configMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the ConfigMap %s: %w", configMap, err)
	}
	return c.Data[s.profile], nil
}

// write makes the ConfigMap if it is not there.
func (s store) write(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	c := applycorev1.ConfigMap(configMap, metav1.NamespaceSystem).WithData(map[string]string{s.profile: node})
	options := metav1.ApplyOptions{FieldManager: fieldManager(s.profile), Force: true}
	if _, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Apply(ctx, c, options); err != nil {
		return fmt.Errorf("writing the ConfigMap %s: %w", configMap, err)
	}
	return nil
}
