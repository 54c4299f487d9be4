// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// place makes files with what they hold.
func place(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func hold(t *testing.T, root, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(root, name))
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("%s: %q, %v, want %q", name, got, err, want)
	}
}

// withPages asks for huge pages of 2 MiB.
func withPages(limits ...string) *corev1.Pod {
	p := &corev1.Pod{}
	p.UID = "u"
	for i, l := range limits {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Mi")}
		if l != "" {
			list["hugepages-2Mi"] = resource.MustParse(l)
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Resources: corev1.ResourceRequirements{Limits: list, Requests: list}})
	}
	return p
}

func TestLimitHugePages_V1(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	m, err := New(Config{Root: "/m", Driver: "cgroupfs", Version: "1", MountPoint: root})
	if err != nil {
		t.Fatal(err)
	}
	p := withPages("4Mi", "2Mi")
	if err := m.tree.limitHugePages("/m/podu", podHugePages(p)); err != nil { // there is no such controller
		t.Fatal(err)
	}
	pages := map[string]string{
		"hugetlb.2MB.limit_in_bytes": "9223372036852678656", "hugetlb.1GB.limit_in_bytes": "9223372036852678656", "hugetlb.2MB.rsvd.limit_in_bytes": "7",
		"hugetlb.2MB.usage_in_bytes": "0",
	}
	for _, group := range []string{"m/podu", "m/podu/id"} {
		files := map[string]string{}
		for name, text := range pages {
			files["hugetlb/"+group+"/"+name] = text
		}
		for _, c := range own {
			files[c+"/"+group+"/x"] = ""
		}
		place(t, root, files)
	}
	if err := m.tree.limitHugePages("/m/podu", podHugePages(p)); err != nil {
		t.Fatal(err)
	}
	if err := m.Tune(p, &p.Spec.Containers[1], "id"); err != nil {
		t.Fatal(err)
	}
	if err := m.Tune(p, &p.Spec.Containers[1], "gone"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "hugetlb/m/podu/gone")); err == nil {
		t.Error("a group is made for a container that has gone")
	}
	for name, want := range map[string]string{
		"hugetlb/m/podu/hugetlb.2MB.limit_in_bytes": "6291456", "hugetlb/m/podu/hugetlb.1GB.limit_in_bytes": "0",
		"hugetlb/m/podu/hugetlb.2MB.rsvd.limit_in_bytes": "7", "hugetlb/m/podu/hugetlb.2MB.usage_in_bytes": "0",
		"hugetlb/m/podu/id/hugetlb.2MB.limit_in_bytes": "2097152", "hugetlb/m/podu/id/hugetlb.1GB.limit_in_bytes": "0",
	} {
		hold(t, root, name, want)
	}
}

func TestLimitHugePages_V2(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tree := v2{mount: root}
	p := withPages("4Mi", "")
	files := map[string]string{"cgroup.controllers": "cpu memory"}
	for _, group := range []string{"", "m/", "m/podu/"} {
		files[group+"cgroup.subtree_control"] = "cpu"
		if group != "" {
			files[group+"cgroup.controllers"] = "cpu hugetlb"
			files[group+"hugetlb.2MB.max"], files[group+"hugetlb.64KB.max"], files[group+"hugetlb.2MB.rsvd.max"] = "max", "max", "max"
		}
	}
	place(t, root, files)
	if err := tree.limitHugePages("/m/podu", podHugePages(p)); err != nil {
		t.Fatal(err)
	}
	hold(t, root, "m/podu/hugetlb.2MB.max", "max") // there is no such controller
	place(t, root, map[string]string{"cgroup.controllers": "cpu hugetlb"})
	if err := tree.limitHugePages("/m/podu", podHugePages(p)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"m/podu/hugetlb.2MB.max": "4194304", "m/podu/hugetlb.64KB.max": "0", "m/podu/hugetlb.2MB.rsvd.max": "max", "m/hugetlb.2MB.max": "max",
		"cgroup.subtree_control": "+hugetlb", "m/cgroup.subtree_control": "+hugetlb", "m/podu/cgroup.subtree_control": "cpu",
	} {
		hold(t, root, name, want)
	}
}

func TestKernelSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{64 << 10: "64KB", 2 << 20: "2MB", 512 << 20: "512MB", 1 << 30: "1GB", 16 << 30: "16GB"} {
		if got := kernelSize(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
	if got := hugePagesOf(corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi"), "hugepages-1Gi": resource.MustParse("1Gi"), "memory": resource.MustParse("1")}).String(); got != "1GB=1073741824,2MB=4194304" {
		t.Error(got)
	}
}
