// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinetest says what a test needs of the machine that it runs on, and what comes of it if that is not there.
// Touch it when tests need something more.
package machinetest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// All is the variable that make test sets to 1: every test has to run. Elsewhere a test that the machine does not allow is
// skipped.
const All = "MINIK8S_ALL_TESTS"

// Root ends the test unless it is root that runs it; what says for which purpose.
func Root(tb testing.TB, what string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		Lacks(tb, "needs root: %s", what)
	}
}

// Programs ends the test unless all of the programs are in PATH.
func Programs(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Lacks(tb, "needs %s: %v", name, err)
		}
	}
}

// Mounts ends the test unless it may mount: root of a container often may not.
func Mounts(tb testing.TB) {
	tb.Helper()
	Root(tb, "to mount")
	dir := tb.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		Lacks(tb, "needs to be let mount: %v", err)
	}
	if err := syscall.Unmount(dir, 0); err != nil {
		tb.Fatal(err)
	}
}

// Lacks ends the test because of what the machine has not or does not allow: skipped, or failed where every test has to
// run. It is for the very first thing that tells so. What goes wrong after that is a failure.
func Lacks(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv(All) == "1" {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}
