// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

const (
	// attachPatience is how long a pod waits for its volume before that is told, as upstream's podAttachAndMountTimeout.
	attachPatience = 2*time.Minute + 3*time.Second
	// glance is between two looks at the node in memory, poll between two questions to the API server.
	glance, poll = 100 * time.Millisecond, time.Second
)

// attached waits until the volume is attached to this node, and returns what the driver is to be told of that. Before, the node's
// status must say that the volume is in use: from then on it stays attached.
func (c *CSI) attached(whole context.Context, v *volume) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(whole, attachPatience)
	defer cancel()
	unique := uniqueName(v.driver, v.handle)
	err := c.await(ctx, glance, func() (bool, error) { return c.reported(unique) || !c.attachesStill(v.driver), nil })
	var found map[string]string
	if err == nil {
		err = c.await(ctx, poll, func() (done bool, err error) {
			if !c.attachesStill(v.driver) {
				return true, nil
			}
			found, done, err = c.attachment(ctx, v)
			return done, err
		})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		if c.exhausted(whole, v) {
			return nil, &plugin.AttachLimitError{Volumes: v.name}
		}
		err = plugin.ErrNotAttached
	}
	return found, err
}

// reported says whether the API knows that the volume is in use, and the controller that it is attached.
func (c *CSI) reported(unique corev1.UniqueVolumeName) bool {
	c.mu.Lock()
	told := c.told[unique]
	c.mu.Unlock()
	node := c.cfg.Node()
	if !told || node == nil {
		return false
	}
	for _, a := range node.Status.VolumesAttached {
		if a.Name == unique {
			return true
		}
	}
	return false
}

// attachment asks whether the volume is attached, and by what.
func (c *CSI) attachment(ctx context.Context, v *volume) (map[string]string, bool, error) {
	name := attachmentName(v.handle, v.driver, c.cfg.NodeName)
	a, err := c.cfg.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // nobody has made it, or the authorizer has not seen it yet
		return nil, false, nil
	case err != nil:
		return nil, false, unavailable(fmt.Errorf("kubernetes.io/csi: getting VolumeAttachment %s: %w", name, err))
	}
	return a.Status.AttachmentMetadata, a.Status.Attached && a.DeletionTimestamp == nil, nil
}

// await asks again and again until the answer is yes, an error, or ctx ends.
func (c *CSI) await(ctx context.Context, every time.Duration, ask func() (bool, error)) error {
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		timer := c.cfg.Clock.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}
