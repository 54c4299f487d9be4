// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
)

func TestGeneration(t *testing.T) {
	machinetest.Root(t, "to make a network namespace")
	machinetest.Programs(t, "iptables")
	runtime.LockOSThread() // the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		machinetest.Lacks(t, "needs a network namespace: %v", err)
	}
	first, ok := Generation()
	if !ok {
		if nfTables() {
			t.Fatal("it cannot be told")
		}
		return // the kernel does not number them
	}
	if again, ok := Generation(); !ok || again != first {
		t.Errorf("without a change %d is %d, %t", first, again, ok)
	}
	if out, err := exec.Command("iptables", "-N", "TEST").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	second, ok := Generation()
	if !ok || second == first {
		t.Errorf("after a change it is %d still, %t", second, ok)
	}
	if out, err := exec.Command("iptables", "-S").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if third, ok := Generation(); !ok || third != second {
		t.Errorf("after a look %d is %d, %t", second, third, ok)
	}
}
