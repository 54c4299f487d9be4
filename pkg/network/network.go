// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package network gives pods their addresses and connects them to the host and to other nodes; touch it to add another
// way of plumbing (a folder beside ptp/) that the kubelet then uses through Plugin.
package network

import (
	"context"
	"net/netip"

	"minik8s.io/minik8s/pkg/network/bandwidth"
)

// Pod is what a plugin is told about a pod that it connects.
type Pod struct {
	SandboxID            string
	Namespace, Name, UID string
	// Bandwidth is kept to from the first packet on.
	Bandwidth bandwidth.Limits
}

// Plugin is one way of connecting pods on a node. Methods are safe for concurrent use and idempotent: the kubelet
// repeats them after a crash.
type Plugin interface {
	// Start prepares the node (sysctls, forwarding and masquerade rules) and must succeed before SetUp.
	Start(ctx context.Context) error
	// Ready is why no pod can be connected yet, nil if one can: the node is not ready until then, and runs pods of its own network only.
	Ready() error
	// Reserve returns the addresses that SetUp will give to a sandbox, the primary first, before it has a network namespace.
	// Idempotent.
	Reserve(ctx context.Context, sandboxID string) ([]netip.Addr, error)
	// SetUp connects the network namespace at netns (a path such as /proc/PID/ns/net) and returns the pod's
	// addresses, the primary first. The allocation is kept on disk under the sandbox's id. Repeating it completes what was left
	// undone, and gives the same addresses. It refuses the node's own namespace.
	SetUp(ctx context.Context, pod Pod, netns string) ([]netip.Addr, error)
	// Addresses returns what SetUp gave to a sandbox, nil if nothing or if its last call failed.
	Addresses(sandboxID string) []netip.Addr
	// TearDown releases the addresses, reserved ones too, and removes the host's end. Absence is success.
	TearDown(ctx context.Context, sandboxID string) error
	// Retain has everything released that belongs to no sandbox in keep, for clean-up after a restart. What depends on others, who may
	// be pods of this node, is released after it has returned, until ctx ends.
	Retain(ctx context.Context, keep map[string]bool) error
	// Purge removes every rule, route, link and file of this plugin from the node. Containers are gone before, and with them the agents
	// that a network may have had: what it does not let go of without them is no error.
	Purge(ctx context.Context) error
}
