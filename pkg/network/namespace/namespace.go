// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespace makes Linux network namespaces and runs Go functions inside them; touch it if a socket turns up in the wrong
// one.
package namespace

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread that is in the network namespace at path, such as /proc/PID/ns/net, and returns its error. What
// f opens (sockets, files of /proc/sys/net and /proc/thread-self/net) belongs to the namespace for good, and so do programs that it
// starts. f must not start goroutines to do so. An empty path is the process's own namespace.
func Do(path string, f func() error) error {
	if path == "" {
		return f()
	}
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening network namespace %q: %w", path, err)
	}
	defer ns.Close()
	done := make(chan error, 1)
	go onOwnThread(func() {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("entering network namespace %q: %w", path, err)
			return
		}
		done <- f()
	})
	return <-done
}

// onOwnThread runs f on a thread that ends with it, and so need not be brought back to where it was. The process's first
// thread cannot end: it would stay in the namespace and keep it alive, and /proc/self/net would show it.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f() // the thread ends with the goroutine, which never unlocks it
		return
	}
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() { // elsewhere, as this goroutine holds the first thread
		defer close(done)
		onOwnThread(f)
	}()
	<-done
}
