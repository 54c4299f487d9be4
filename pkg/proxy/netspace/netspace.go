// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package netspace runs a function inside a network namespace, so that one process can look after a node whose
// network is not its own.
package netspace

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// Do runs f in the network namespace at path (such as /proc/PID/ns/net); an empty path is the process's own
// namespace. Programs and sockets that f creates belong to the namespace; goroutines that f starts do not.
func Do(path string, f func() error) error {
	if path == "" {
		return f()
	}
	target, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("opening network namespace %q: %w", path, err)
	}
	defer target.Close()

	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("opening the current network namespace: %w", err)
	}
	defer home.Close()
	if err := netns.Set(target); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering network namespace %q: %w", path, err)
	}
	ferr := f()
	if err := netns.Set(home); err != nil {
		// The thread stays locked, and so ends with its goroutine instead of serving others in a
		// foreign namespace.
		return fmt.Errorf("leaving network namespace %q: %w", path, err)
	}
	runtime.UnlockOSThread()
	return ferr
}
