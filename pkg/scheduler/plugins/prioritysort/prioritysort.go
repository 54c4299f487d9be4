// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package prioritysort orders waiting pods by priority, and then by how long they
// wait. Touch it when the queue is to be in another order.
package prioritysort

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name of the plugin.
const Name = "PrioritySort"

// PrioritySort is the plugin.
type PrioritySort struct{}

var _ fwk.QueueSortPlugin = (*PrioritySort)(nil)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &PrioritySort{}, nil
}

// Name returns the plugin's name.
func (*PrioritySort) Name() string { return Name }

// Less tells whether a is tried before b.
func (*PrioritySort) Less(a, b fwk.QueuedEntityInfo) bool {
	if pa, pb := a.GetPriority(), b.GetPriority(); pa != pb {
		return pa > pb
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}
