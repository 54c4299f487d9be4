// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

func TestLimitsOf(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory, pids string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "pid": resource.MustParse(pids)}
	}
	for _, tc := range []struct {
		reserved []corev1.ResourceList
		want     container.Resources
	}{
		{nil, container.Resources{CPUShares: 4096, MemoryBytes: 8 << 30, PidsLimit: 1000}},
		{[]corev1.ResourceList{list("500m", "1Gi", "100"), {"memory": resource.MustParse("1Gi")}}, container.Resources{CPUShares: 3584, MemoryBytes: 6 << 30, PidsLimit: 900}},
		{[]corev1.ResourceList{list("5", "9Gi", "1001")}, container.Resources{CPUShares: 2, MemoryBytes: 1, PidsLimit: 1}},
	} {
		if diff := cmp.Diff(tc.want, limitsOf(list("4", "8Gi", "1000"), tc.reserved)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestMaxProcesses(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "proc/sys/kernel")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []struct{ name, text string }{{"pid_max", "4000\n"}, {"threads-max", "3000\n"}} {
		if _, err := maxProcesses(root); err == nil {
			t.Errorf("without %s there is no error", file.name)
		}
		if err := os.WriteFile(filepath.Join(dir, file.name), []byte(file.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := maxProcesses(root); err != nil || n != 3000 {
		t.Errorf("%d, %v", n, err)
	}
}

// Pods have limits together if something is reserved, and lose those of an earlier process else.
func TestEnforce(t *testing.T) {
	for _, values := range [][]string{{"pods"}, {"none"}} {
		w := newWorld(t, fake.Config{})
		w.settings = configuration.Default()
		w.settings.EnforceNodeAllocatable, w.settings.SystemReserved = values, map[string]string{"cpu": "10m"}
		w.start()
		w.create(newPod("a", nil))
		w.await("ready", "a", ready)
		if got := w.cgroups.limits.Load(); got == nil || (got.MemoryBytes > 0) != (values[0] == "pods") {
			t.Errorf("%v: %+v", values, got)
		}
	}
}
