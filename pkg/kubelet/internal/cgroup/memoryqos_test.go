// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

const mi = 1 << 20

func TestMemoryQoS(t *testing.T) {
	all := MemoryQoS{ThrottlingFactor: 0.9, Reserve: true, Allocatable: 1000 * mi}
	podLevel := func(requests, limits string, c ...corev1.ResourceRequirements) *corev1.Pod {
		p := pod(c...)
		p.Spec.Resources = new(req(requests, limits))
		return p
	}
	for _, test := range []struct {
		name             string
		qos              MemoryQoS
		pod              *corev1.Pod
		container, whole protection
	}{
		{name: "nothing is asked for", pod: pod(req("-/100Mi", "-/200Mi"))},
		{"guaranteed", all, pod(req("1/100Mi", "1/100Mi")), protection{min: 100 * mi}, protection{min: 100 * mi}},
		{"burstable", all, pod(req("-/100Mi", "-/200Mi")), protection{low: 100 * mi, high: 190 * mi}, protection{low: 100 * mi}},
		{"without a limit", all, pod(req("-/100Mi", "-/-")), protection{low: 100 * mi, high: 910 * mi}, protection{low: 100 * mi}},
		{"best effort", all, pod(req("-/-", "-/-")), protection{high: 900 * mi}, protection{}},
		{"whole pages", MemoryQoS{ThrottlingFactor: 0.5}, pod(req("-/4096", "-/13000")), protection{high: 8192}, protection{}},
		{"no page beyond the request", MemoryQoS{ThrottlingFactor: 0.5}, pod(req("-/5000", "-/5002")), protection{}, protection{}},
		{"of two containers", all, pod(req("-/100Mi", "-/200Mi"), req("-/50Mi", "-/-")), protection{low: 100 * mi, high: 190 * mi}, protection{low: 150 * mi}},
		{"only kept", MemoryQoS{Reserve: true, Allocatable: 1000 * mi}, pod(req("-/100Mi", "-/200Mi")), protection{low: 100 * mi}, protection{low: 100 * mi}},
		{"only slowed down", MemoryQoS{ThrottlingFactor: 0.9, Allocatable: 1000 * mi}, pod(req("-/100Mi", "-/200Mi")), protection{high: 190 * mi}, protection{}},
		{"the pod's limit", all, podLevel("-/100Mi", "-/300Mi", req("-/-", "-/-")), protection{}, protection{low: 100 * mi, high: 280 * mi}},
		{"a limit besides the pod's", all, podLevel("-/100Mi", "-/300Mi", req("-/50Mi", "-/100Mi")), protection{low: 50 * mi, high: 95 * mi}, protection{low: 100 * mi, high: 280 * mi}},
		{"no limit of the pod", all, podLevel("-/100Mi", "-/-", req("-/-", "-/-")), protection{high: 900 * mi}, protection{low: 100 * mi}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.qos.container(test.pod, &test.pod.Spec.Containers[0]); got != test.container {
				t.Errorf("container: %v, want %v", got, test.container)
			}
			if got := test.qos.pod(test.pod); got != test.whole {
				t.Errorf("pod: %v, want %v", got, test.whole)
			}
		})
	}
}

// TestMemoryQoS_Groups: every group above a pod keeps what the pod keeps, for as long as the pod is there, and their limits stay.
func TestMemoryQoS_Groups(t *testing.T) {
	mount := t.TempDir()
	for _, l := range []string{"", "m", "m/pod1-2", "m/burstable", "m/burstable/pod3"} {
		put(t, mount, map[string]string{
			l + "/cgroup.controllers": "", l + "/cgroup.subtree_control": "", l + "/memory.min": "0", l + "/memory.low": "7", l + "/memory.high": "max",
		})
	}
	m, err := New(Config{Root: "/m", Driver: "cgroupfs", Version: "2", MountPoint: mount, MemoryQoS: MemoryQoS{Reserve: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.LimitPods(container.Resources{MemoryBytes: 1000}); err != nil {
		t.Fatal(err)
	}
	burstable := pod(req("-/30", "-/-"))
	burstable.UID = "3"
	for _, p := range []*corev1.Pod{pod(req("1/500", "1/500")), burstable} {
		if _, err := m.EnsurePod(p); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(name string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for file := range want {
			got[file] = contents(t, mount, file)[file]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	kept("two pods", map[string]string{
		"m/memory.min": "530", "m/memory.low": "30", "m/memory.high": "max", "m/memory.max": "1000",
		"m/pod1-2/memory.min": "500", "m/pod1-2/memory.low": "0",
		"m/burstable/memory.min": "0", "m/burstable/memory.low": "30", "m/burstable/pod3/memory.low": "30",
	})
	if err := m.LimitPods(container.Resources{MemoryBytes: 2000}); err != nil {
		t.Fatal(err)
	}
	kept("more for all", map[string]string{"m/memory.min": "530", "m/memory.low": "30", "m/memory.max": "2000"})
	m.record(types.UID("3"), nil) // files of a group that is only a directory do not vanish with it
	if err := m.setClasses(); err != nil {
		t.Fatal(err)
	}
	kept("one pod", map[string]string{"m/memory.min": "500", "m/memory.low": "0", "m/memory.max": "2000", "m/burstable/memory.low": "0"})
}

func TestTune_MemoryQoS(t *testing.T) {
	mount := t.TempDir()
	const dir = "m/burstable/pod1-2/id/"
	put(t, mount, map[string]string{dir + "memory.min": "0\n", dir + "memory.low": "7\n", dir + "memory.high": "max\n"})
	p := pod(req("-/100Mi", "-/200Mi"))
	for _, test := range []struct {
		qos  MemoryQoS
		want map[string]string
	}{
		{MemoryQoS{ThrottlingFactor: 0.5, Reserve: true}, map[string]string{dir + "memory.min": "0\n", dir + "memory.low": "104857600", dir + "memory.high": "157286400"}},
		{MemoryQoS{}, map[string]string{dir + "memory.min": "0\n", dir + "memory.low": "0", dir + "memory.high": "max"}},
	} {
		m, err := New(Config{Root: "/m", Driver: "cgroupfs", Version: "2", MountPoint: mount, MemoryQoS: test.qos})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Tune(p, &p.Spec.Containers[0], "id"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, contents(t, mount, dir+"memory.min", dir+"memory.low", dir+"memory.high")); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.qos, diff)
		}
	}
}
