// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/container"
)

// req makes requirements from "cpu/memory" texts, "-" meaning not set.
func req(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i, q := range strings.Split(text, "/") {
			if q != "-" {
				out[[]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}[i]] = resource.MustParse(q)
			}
		}
		return out
	}
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func pod(list ...corev1.ResourceRequirements) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1-2"}}
	for i, r := range list {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: r})
	}
	return p
}

func TestResources(t *testing.T) {
	podLevel := pod(req("-/-", "-/-"), req("100m/-", "-/-"))
	level := req("1/1Gi", "2/2Gi")
	podLevel.Spec.Resources = &level
	for _, test := range []struct {
		name  string
		pod   *corev1.Pod
		class corev1.PodQOSClass
		cpu   CPUTime
		first container.Resources
		whole container.Resources
	}{
		{"best effort", pod(req("-/-", "-/-")), corev1.PodQOSBestEffort, CPUTime{}, container.Resources{CPUShares: 2}, container.Resources{CPUShares: 2}},
		{"guaranteed", pod(req("500m/64Mi", "500m/64Mi"), req("1/64Mi", "1/64Mi")), corev1.PodQOSGuaranteed, CPUTime{},
			container.Resources{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, MemoryBytes: 64 << 20},
			container.Resources{CPUShares: 1536, CPUQuota: 150000, CPUPeriod: 100000, MemoryBytes: 128 << 20}},
		{"limits alone", pod(req("-/-", "100m/64Mi")), corev1.PodQOSGuaranteed, CPUTime{},
			container.Resources{CPUShares: 102, CPUQuota: 10000, CPUPeriod: 100000, MemoryBytes: 64 << 20},
			container.Resources{CPUShares: 2, CPUQuota: 10000, CPUPeriod: 100000, MemoryBytes: 64 << 20}},
		{"burstable, not all limited", pod(req("100m/32Mi", "1/64Mi"), req("-/-", "-/64Mi")), corev1.PodQOSBurstable, CPUTime{},
			container.Resources{CPUShares: 102, CPUQuota: 100000, CPUPeriod: 100000, MemoryBytes: 64 << 20},
			container.Resources{CPUShares: 102, MemoryBytes: 128 << 20}},
		{"little", pod(req("1m/-", "1m/-")), corev1.PodQOSBurstable, CPUTime{},
			container.Resources{CPUShares: 2, CPUQuota: 1000, CPUPeriod: 100000}, container.Resources{CPUShares: 2, CPUQuota: 1000, CPUPeriod: 100000}},
		{"pod level", podLevel, corev1.PodQOSBurstable, CPUTime{},
			container.Resources{CPUShares: 2048, CPUQuota: 200000, CPUPeriod: 100000, MemoryBytes: 2 << 30},
			container.Resources{CPUShares: 1024, CPUQuota: 200000, CPUPeriod: 100000, MemoryBytes: 2 << 30}},
		{"no quotas", pod(req("1m/-", "200m/-")), corev1.PodQOSBurstable, CPUTime{Unlimited: true, Period: time.Second},
			container.Resources{CPUShares: 2}, container.Resources{CPUShares: 2}},
		{"another period", pod(req("1m/-", "200m/-")), corev1.PodQOSBurstable, CPUTime{Period: 10 * time.Millisecond},
			container.Resources{CPUShares: 2, CPUQuota: 2000, CPUPeriod: 10000}, container.Resources{CPUShares: 2, CPUQuota: 2000, CPUPeriod: 10000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := qos.Of(test.pod); got != test.class {
				t.Errorf("class %s, want %s", got, test.class)
			}
			if diff := cmp.Diff(test.first, ContainerResources(test.pod, &test.pod.Spec.Containers[0], test.cpu)); diff != "" {
				t.Errorf("container (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.whole, podResources(test.pod, test.cpu)); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOOMScoreAdj(t *testing.T) {
	critical := pod(req("-/-", "-/-"))
	critical.Spec.PriorityClassName = "system-node-critical"
	always := corev1.ContainerRestartPolicyAlways
	sidecar := pod(req("-/500", "-/-"))
	sidecar.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always, Resources: req("-/100", "-/-")}}
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		c    *corev1.Container
		want int
	}{
		{"critical", critical, nil, -997},
		{"guaranteed", pod(req("1/1", "1/1")), nil, -997},
		{"best effort", pod(req("-/-", "-/-")), nil, 1000},
		{"nothing requested", pod(req("1/-", "-/-")), nil, 999},
		{"half", pod(req("-/500", "-/-")), nil, 500},
		{"all", pod(req("-/1000", "-/-")), nil, 3},
		{"sidecar", sidecar, &sidecar.Spec.InitContainers[0], 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := test.c
			if c == nil {
				c = &test.pod.Spec.Containers[0]
			}
			if got := OOMScoreAdj(test.pod, c, 1000); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func put(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func contents(t *testing.T, root string, names ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
}

// TestV2 runs on a directory that only looks like a mounted tree.
func TestV2(t *testing.T) {
	mount := t.TempDir()
	levels := []string{"", "m", "m/burstable", "m/burstable/pod1-2"}
	for _, l := range levels {
		put(t, mount, map[string]string{l + "/cgroup.controllers": "cpu io memory pids\n", l + "/cgroup.subtree_control": "cpu io memory\n"})
	}
	m, err := New(Config{Root: "/m", Driver: "cgroupfs", Version: "2", MountPoint: mount, PodPidsLimit: 100})
	if err != nil {
		t.Fatal(err)
	}
	parent, err := m.EnsurePod(pod(req("500m/-", "1/64Mi")))
	if err != nil || parent != "/m/burstable/pod1-2" {
		t.Fatalf("got %q, %v", parent, err)
	}
	want := map[string]string{
		"m/burstable/pod1-2/cpu.weight": "20", "m/burstable/pod1-2/cpu.max": "100000 100000",
		"m/burstable/pod1-2/memory.max": "67108864", "m/burstable/pod1-2/pids.max": "100", "m/burstable/cpu.weight": "20",
		"m/burstable/memory.max": "max", "cgroup.subtree_control": "+pids", "m/cgroup.subtree_control": "+pids",
	}
	names := []string{}
	for n := range want {
		names = append(names, n)
	}
	if diff := cmp.Diff(want, contents(t, mount, names...)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if uids, err := m.Pods(); err != nil || !slices.Equal(uids, []types.UID{"1-2"}) {
		t.Errorf("Pods() = %v, %v", uids, err)
	}
	put(t, mount, map[string]string{
		"m/burstable/pod1-2/cpu.stat": "usage_usec 1500\nuser_usec 1\n", "m/burstable/pod1-2/memory.current": "1000\n",
		"m/burstable/pod1-2/memory.stat": "anon 300\ninactive_file 400\npgfault 5\npgmajfault 6\n", "m/burstable/pod1-2/pids.current": "7\n",
		"m/burstable/pod1-2/memory.swap.current": "3\n", "m/burstable/pod1-2/memory.swap.max": "8\n",
		"m/burstable/pod1-2/io.pressure": "some avg10=0.12 avg60=3.00 avg300=12.50 total=2500\nfull avg10=0.01 avg60=0.00 avg300=0.00 total=500\nhalf a line\n",
	})
	got, err := m.PodStats("1-2")
	got.Time = time.Time{}
	stats := Stats{
		CPU: 1500 * time.Microsecond, MemoryUsage: 1000, WorkingSet: 600, RSS: 300, PageFaults: 5, MajorPageFaults: 6, Processes: 7,
		MemoryLimit: new(uint64(64 << 20)), Swap: new(uint64(3)), SwapLimit: new(uint64(8)), IOPressure: &Pressure{
			Some: Stall{2500 * time.Microsecond, .12, 3, 12.5}, Full: Stall{500 * time.Microsecond, .01, 0, 0},
		},
	}
	if diff := cmp.Diff(stats, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := m.PodStats("absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := m.ContainerStats(parent, "absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent container: %v", err)
	}
}

// A pod that uses more than it is to have keeps what it has, and gets the rest of what it asks for.
func TestEnsurePod_InUse(t *testing.T) {
	mount := t.TempDir()
	for _, l := range []string{"", "m", "m/pod1-2"} {
		put(t, mount, map[string]string{l + "/cgroup.controllers": "cpu memory pids\n", l + "/cgroup.subtree_control": "cpu memory pids\n"})
	}
	m, err := New(Config{Root: "/m", Driver: "cgroupfs", Version: "2", MountPoint: mount})
	if err != nil {
		t.Fatal(err)
	}
	sized := func(r corev1.ResourceRequirements) *corev1.Pod {
		p := pod(req("-/-", "-/-"))
		p.Spec.Resources = &r
		return p
	}
	usage := func(current string) {
		put(t, mount, map[string]string{"m/pod1-2/cpu.stat": "usage_usec 1\n", "m/pod1-2/memory.current": current, "m/pod1-2/memory.stat": "anon 1\n", "m/pod1-2/pids.current": "1\n"})
	}
	usage("50000000\n")
	for _, step := range []struct {
		name, use string
		pod       *corev1.Pod
		memory    string
		cpu       string
		err       string
	}{
		{name: "as made", pod: sized(req("1/64Mi", "1/64Mi")), memory: "67108864", cpu: "100000 100000"},
		{name: "more", pod: sized(req("1/128Mi", "1/128Mi")), memory: "134217728", cpu: "100000 100000"},
		{name: "less than it uses", pod: sized(req("2/32Mi", "2/32Mi")), memory: "134217728", cpu: "200000 100000",
			err: "cannot decrease memory limits: attempting to set pod memory limit (33554432) below current usage (50000000)"},
		{name: "still", pod: sized(req("2/32Mi", "2/32Mi")), memory: "134217728", cpu: "200000 100000",
			err: "cannot decrease memory limits: attempting to set pod memory limit (33554432) below current usage (50000000)"},
		{name: "it uses less now", use: "1000\n", pod: sized(req("2/32Mi", "2/32Mi")), memory: "33554432", cpu: "200000 100000"},
	} {
		if step.use != "" {
			usage(step.use)
		}
		parent, err := m.EnsurePod(step.pod)
		if parent != "/m/pod1-2" || fmt.Sprint(err) != step.err && (err != nil || step.err != "") {
			t.Errorf("%s: %q, %v", step.name, parent, err)
		}
		if diff := cmp.Diff(map[string]string{"m/pod1-2/memory.max": step.memory, "m/pod1-2/cpu.max": step.cpu}, contents(t, mount, "m/pod1-2/memory.max", "m/pod1-2/cpu.max")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// A container is not limited to less than it uses.
func TestShrink(t *testing.T) {
	mount := t.TempDir()
	put(t, mount, map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": "cpu memory pids\n", "m/pod1-2/id/cpu.stat": "usage_usec 1\n", "m/pod1-2/id/memory.current": "50000000\n",
		"m/pod1-2/id/memory.stat": "anon 1\n", "m/pod1-2/id/pids.current": "1\n",
	})
	m, err := New(Config{Root: "/m", Driver: "cgroupfs", Version: "2", MountPoint: mount})
	if err != nil {
		t.Fatal(err)
	}
	p, c := pod(req("1/64Mi", "1/64Mi")), &container.Container{ID: "id", Name: "c"}
	for limit, want := range map[int64]string{
		64 << 20: "<nil>", 32 << 20: `cannot decrease memory limits: attempting to set container "c" memory limit (33554432) below current usage (50000000)`,
	} {
		if got := fmt.Sprint(m.Shrink(p, c, limit)); got != want {
			t.Errorf("to %d: %s", limit, got)
		}
	}
}

func TestTune(t *testing.T) {
	burstable := pod(req("-/256Mi", "-/512Mi"))
	critical := burstable.DeepCopy()
	critical.Spec.Priority = new(int32(2000000000))
	for _, test := range []struct {
		name        string
		config      Config
		pod         *corev1.Pod
		dir         string
		oom, swap   string // as they are
		want, wants string
	}{
		{name: "as the engine leaves it", pod: burstable, oom: "0", swap: "max", want: "1", wants: "0"},
		{name: "done before", pod: burstable, oom: "1", swap: "0", want: "1", wants: "0"},
		{name: "one process", config: Config{SingleProcessOOMKill: true}, pod: burstable, oom: "0", swap: "max", want: "0", wants: "0"},
		{name: "its share", config: Config{Swap: Swap{Limited: true, Memory: 1 << 30, Total: 2 << 30}}, pod: burstable, oom: "1", swap: "max", want: "1", wants: "536870912"},
		{name: "a critical pod has none", config: Config{Swap: Swap{Limited: true, Memory: 1 << 30, Total: 2 << 30}}, pod: critical, oom: "1", swap: "max", want: "1", wants: "0"},
		{name: "nor has a guaranteed one", config: Config{Swap: Swap{Limited: true, Memory: 1 << 30, Total: 2 << 30}}, pod: pod(req("1/1Gi", "1/1Gi")), dir: "m/pod1-2/id", oom: "1", swap: "max", want: "1", wants: "0"},
		{name: "pages", config: Config{Swap: Swap{Limited: true, Memory: 3 << 30, Total: 1 << 30}}, pod: burstable, oom: "1", swap: "89477120", want: "1", wants: "89477120"},
		{name: "version 1", config: Config{Version: "1"}, pod: burstable, oom: "0", swap: "max", want: "0", wants: "max"},
	} {
		t.Run(test.name, func(t *testing.T) {
			mount := t.TempDir()
			dir := test.dir
			if dir == "" {
				dir = "m/burstable/pod1-2/id"
			}
			put(t, mount, map[string]string{dir + "/memory.oom.group": test.oom + "\n", dir + "/memory.swap.max": test.swap + "\n"})
			test.config.Root, test.config.Driver, test.config.MountPoint = "/m", "cgroupfs", mount
			if test.config.Version == "" {
				test.config.Version = "2"
			}
			m, err := New(test.config)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Tune(test.pod, &test.pod.Spec.Containers[0], "id"); err != nil {
				t.Fatal(err)
			}
			got := contents(t, mount, dir+"/memory.oom.group", dir+"/memory.swap.max")
			if o, s := strings.TrimSpace(got[dir+"/memory.oom.group"]), strings.TrimSpace(got[dir+"/memory.swap.max"]); o != test.want || s != test.wants {
				t.Errorf("oom.group %s, swap.max %s, want %s and %s", o, s, test.want, test.wants)
			}
			if err := m.Tune(test.pod, &test.pod.Spec.Containers[0], "ended"); err != nil {
				t.Errorf("of a container that has ended: %v", err)
			}
		})
	}
}

func TestWeight(t *testing.T) {
	for shares, want := range map[int64]int64{0: 1, 2: 1, 1024: 39, 262144: 10000, 1 << 30: 10000} {
		if got := weight(shares); got != want {
			t.Errorf("weight(%d) = %d, want %d", shares, got, want)
		}
	}
}

func TestNewErrors(t *testing.T) {
	for name, config := range map[string]Config{
		"root":     {Root: "/", Driver: "cgroupfs", Version: "1"},
		"relative": {Root: "a", Driver: "cgroupfs", Version: "1"},
		"driver":   {Root: "/a", Driver: "none", Version: "1"},
		"version":  {Root: "/a", Driver: "cgroupfs", Version: ""},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLimitPods(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	m, err := New(Config{Root: "/m", Driver: "cgroupfs", Version: "1", MountPoint: root})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.LimitPods(container.Resources{}); err != nil || m.tree.exists("/m") {
		t.Errorf("a group is made for nothing: %v", err)
	}
	if err := m.LimitPods(container.Resources{CPUShares: 1536, MemoryBytes: 1 << 30, PidsLimit: 77}); err != nil {
		t.Fatal(err)
	}
	hold(t, root, "cpu/m/cpu.shares", "1536")
	hold(t, root, "memory/m/memory.limit_in_bytes", "1073741824")
	hold(t, root, "pids/m/pids.max", "77")
	if err := m.LimitPods(container.Resources{}); err != nil {
		t.Fatal(err)
	}
	hold(t, root, "cpu/m/cpu.shares", "1536")
	hold(t, root, "memory/m/memory.limit_in_bytes", "-1")
	hold(t, root, "pids/m/pids.max", "max")
}

// A pod with CPUs of its own has no limit of CPU time: it would take some of theirs away.
func TestEnsurePod_Exclusive(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	own := false
	m, err := New(Config{Root: "/m", Driver: "cgroupfs", Version: "1", MountPoint: root, Exclusive: func(types.UID) bool { return own }})
	if err != nil {
		t.Fatal(err)
	}
	p := pod(req("1/1Mi", "1/1Mi"))
	for _, want := range []string{"100000", "-1"} {
		if _, err := m.EnsurePod(p); err != nil {
			t.Fatal(err)
		}
		hold(t, root, "cpu/m/pod1-2/cpu.cfs_quota_us", want)
		own = true
	}
}
