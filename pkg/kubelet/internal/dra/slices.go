// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"context"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"
)

const (
	// wipeDelay is how long a driver may be away before its ResourceSlices are removed, upstream's: a pod that is replaced takes
	// less.
	wipeDelay = 30 * time.Second
	// firstWipe and lastWipe are the waits before what has failed is done again, wipePatience is how long one removal may take.
	firstWipe, lastWipe, wipePatience = time.Second, 5 * time.Minute, 30 * time.Second
)

// watchUse begins to wait, or ends that, when a driver may have become unusable, or usable again. The caller holds mu.
func (m *Manager) watchUse(driver string) {
	usable := slices.ContainsFunc(m.drivers[driver], func(i *instance) bool { return i.connected })
	end, waiting := m.wipes[driver]
	switch {
	case usable && waiting:
		end()
		delete(m.wipes, driver)
	case !usable && !waiting && m.life.Err() == nil:
		ctx, cancel := context.WithCancel(m.life)
		m.wipes[driver] = cancel
		m.wg.Go(func() {
			defer cancel()
			if m.sleep(ctx, wipeDelay) {
				m.removeSlices(ctx, driver)
			}
		})
	}
}

// removeSlices removes what a driver has told of this node's devices, "" for all drivers, until that succeeds or ctx ends.
func (m *Manager) removeSlices(ctx context.Context, driver string) {
	logger := klog.FromContext(ctx).WithValues("driverName", driver)
	selector := fields.Set{resourcev1.ResourceSliceSelectorNodeName: m.cfg.NodeName}
	if driver != "" {
		selector[resourcev1.ResourceSliceSelectorDriver] = driver
	}
	for wait := firstWipe; ; wait = min(2*wait, lastWipe) {
		rctx, cancel := context.WithTimeout(ctx, wipePatience)
		err := m.cfg.Client.ResourceV1().ResourceSlices().DeleteCollection(rctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: selector.String()})
		cancel()
		if err == nil || apierrors.IsNotFound(err) {
			logger.V(2).Info("Deleted ResourceSlices", "fieldSelector", selector)
			return
		}
		logger.V(2).Info("Deleting ResourceSlices failed, retrying", "fieldSelector", selector, "err", err)
		if !m.sleep(ctx, wait) {
			return
		}
	}
}

// sleep waits for d and returns false if ctx ended first.
func (m *Manager) sleep(ctx context.Context, d time.Duration) bool {
	t := m.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return ctx.Err() == nil
	}
}
