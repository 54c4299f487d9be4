// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// newPod is a pod with a container c.
func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func priority(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &n }
}

func requests(name corev1.ResourceName, q string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(q)}
	}
}

func limits(q string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(q)}
	}
}

func emptyDir(name, limit string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		v := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
		if limit != "" {
			q := resource.MustParse(limit)
			v.EmptyDir.SizeLimit = &q
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
}

func bytes(n uint64) *statsv1alpha1.FsStats {
	return &statsv1alpha1.FsStats{UsedBytes: &n, InodesUsed: new(n / 10)}
}

func memoryUse(n uint64) *statsv1alpha1.PodStats {
	m := &statsv1alpha1.MemoryStats{WorkingSetBytes: &n}
	return &statsv1alpha1.PodStats{Memory: m, ProcessStats: &statsv1alpha1.ProcessStats{ProcessCount: new(n / 1000)},
		Containers: []statsv1alpha1.ContainerStats{{Name: "c", Memory: m}}}
}

// diskUse is what the container c writes, and its volume v.
func diskUse(rootfs, logs, volume uint64) *statsv1alpha1.PodStats {
	return &statsv1alpha1.PodStats{
		Containers:  []statsv1alpha1.ContainerStats{{Name: "c", Rootfs: bytes(rootfs), Logs: bytes(logs)}},
		VolumeStats: []statsv1alpha1.VolumeStats{{Name: "v", FsStats: *bytes(volume)}},
	}
}

func TestRank(t *testing.T) {
	t.Parallel()
	memory, storage := corev1.ResourceMemory, corev1.ResourceEphemeralStorage
	for _, tc := range []struct {
		name      string
		signal    Signal
		dedicated bool
		pods      []*corev1.Pod
		usage     Usage
		want      []string
	}{
		{
			name: "memory: above requests, then priority, then how much", signal: MemoryAvailable,
			pods: []*corev1.Pod{
				newPod("within", requests(memory, "9k")), newPod("important", priority(10)), newPod("small"), newPod("large"),
				newPod("low-within", requests(memory, "9k"), priority(-1)), newPod("requested", requests(memory, "4k")),
			},
			usage: Usage{"within": memoryUse(8000), "important": memoryUse(9000), "small": memoryUse(1000), "large": memoryUse(3000), "low-within": memoryUse(1), "requested": memoryUse(6000)},
			want:  []string{"large", "requested", "small", "important", "low-within", "within"},
		},
		{
			name: "who cannot be measured goes first", signal: MemoryAvailable,
			pods:  []*corev1.Pod{newPod("a"), newPod("b", priority(100))},
			usage: Usage{"a": memoryUse(1000)}, want: []string{"b", "a"},
		},
		{
			name: "pids: priority, then how many", signal: PIDAvailable,
			pods:  []*corev1.Pod{newPod("a", priority(5)), newPod("b"), newPod("c")},
			usage: Usage{"a": memoryUse(9000), "b": memoryUse(1000), "c": memoryUse(2000)}, want: []string{"c", "b", "a"},
		},
		{
			name: "disk: all counts on one disk, and of volumes only local ones", signal: ImageFsAvailable,
			pods:  []*corev1.Pod{newPod("foreign"), newPod("a", emptyDir("v", "")), newPod("b"), newPod("requested", requests(storage, "1M"))},
			usage: Usage{"a": diskUse(1, 1, 100), "b": diskUse(50, 10, 0), "foreign": diskUse(0, 0, 1000), "requested": diskUse(1000, 0, 0)},
			want:  []string{"a", "b", "foreign", "requested"},
		},
		{
			name: "disk of volumes and logs", signal: NodeFsAvailable, dedicated: true,
			pods:  []*corev1.Pod{newPod("rootfs"), newPod("logs")},
			usage: Usage{"rootfs": diskUse(1000, 0, 0), "logs": diskUse(0, 10, 0)}, want: []string{"logs", "rootfs"},
		},
		{
			name: "disk of images", signal: ImageFsAvailable, dedicated: true,
			pods:  []*corev1.Pod{newPod("logs"), newPod("rootfs")},
			usage: Usage{"rootfs": diskUse(10, 0, 0), "logs": diskUse(0, 1000, 0)}, want: []string{"rootfs", "logs"},
		},
		{
			name: "inodes cannot be requested", signal: NodeFsInodesFree,
			pods:  []*corev1.Pod{newPod("few"), newPod("many", requests(storage, "1M"))},
			usage: Usage{"few": diskUse(10, 0, 0), "many": diskUse(1000, 0, 0)}, want: []string{"many", "few"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rank(tc.pods, tc.usage, tc.signal, tc.dedicated)
			var got []string
			for _, p := range tc.pods {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	o := Observations{MemoryAvailable: {Available: resource.MustParse("50Mi"), Capacity: resource.MustParse("1Gi")}, NodeFsAvailable: {Available: resource.MustParse("1Gi"), Capacity: resource.MustParse("100Gi")}}
	memory := Threshold{Signal: MemoryAvailable, Value: quantity("100Mi")}
	for _, tc := range []struct {
		name        string
		pod         *corev1.Pod
		usage       *statsv1alpha1.PodStats
		threshold   Threshold
		want        string
		annotations map[string]string
	}{
		{
			name: "above its request", pod: newPod("p", requests(corev1.ResourceMemory, "1Mi")), usage: memoryUse(2 << 20), threshold: memory,
			want:        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was using 2Mi, request is 1Mi, has larger consumption of memory. ",
			annotations: map[string]string{"offending_containers": "c", "offending_containers_usage": "2Mi", "starved_resource": "memory"},
		},
		{
			name: "within its request", pod: newPod("p", requests(corev1.ResourceMemory, "1Gi")), usage: memoryUse(2 << 20), threshold: memory,
			want:        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ",
			annotations: map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory"},
		},
		{
			name: "not measured", pod: newPod("p"), threshold: memory,
			want: "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ", annotations: map[string]string{},
		},
		{
			name: "disk", pod: newPod("p"), usage: diskUse(1<<20, 1<<20, 1<<30), threshold: Threshold{Signal: NodeFsAvailable, Value: Value{Part: 0.5}},
			want:        "The node was low on resource: ephemeral-storage. Threshold quantity: 50Gi, available: 1Gi. Container c was using 2Mi, request is 0, has larger consumption of ephemeral-storage. ",
			annotations: map[string]string{"offending_containers": "c", "offending_containers_usage": "2Mi", "starved_resource": "ephemeral-storage"},
		},
		{
			name: "an ephemeral container", pod: newPod("p", func(p *corev1.Pod) {
				p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "c"}}}
				p.Spec.Containers[0].Name = "d"
			}), usage: memoryUse(2 << 20), threshold: memory,
			want:        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ",
			annotations: map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory"},
		},
		{
			name: "disk that is not counted yet", pod: newPod("p"), threshold: Threshold{Signal: NodeFsAvailable, Value: Value{Part: 0.5}},
			usage: &statsv1alpha1.PodStats{Containers: []statsv1alpha1.ContainerStats{
				{Name: "c", Rootfs: &statsv1alpha1.FsStats{}, Logs: &statsv1alpha1.FsStats{UsedBytes: new(uint64(1))}},
			}},
			want:        "The node was low on resource: ephemeral-storage. Threshold quantity: 50Gi, available: 1Gi. ",
			annotations: map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "ephemeral-storage"},
		},
		{
			name: "inodes", pod: newPod("p"), usage: diskUse(1, 1, 1), threshold: Threshold{Signal: NodeFsInodesFree, Value: quantity("5")},
			want:        "The node was low on resource: inodes. ",
			annotations: map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "inodes"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, annotations := message(tc.pod, tc.usage, tc.threshold, o)
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if diff := cmp.Diff(tc.annotations, annotations); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExceeded(t *testing.T) {
	t.Parallel()
	second := func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1M")}}})
	}
	initial := func(policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers[:1], p.Spec.Containers[1:]
			p.Spec.InitContainers[0].RestartPolicy = policy
		}
	}
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		usage     *statsv1alpha1.PodStats
		dedicated bool
		want      string
		signal    Signal
	}{
		{name: "no limit", pod: newPod("p", emptyDir("v", "")), usage: diskUse(1000, 1000, 1000)},
		{name: "all that it may", pod: newPod("p", emptyDir("v", "100"), limits("130")), usage: diskUse(10, 20, 100)},
		{name: "volume", pod: newPod("p", emptyDir("v", "1Ki")), usage: diskUse(0, 0, 1025), want: `Usage of EmptyDir volume "v" exceeds the limit "1Ki". `, signal: "emptydirfs.limit"},
		{name: "a volume of limit 0 has none", pod: newPod("p", emptyDir("v", "0")), usage: diskUse(0, 0, 1025)},
		{name: "another volume", pod: newPod("p", emptyDir("w", "1Ki")), usage: diskUse(0, 0, 1025)},
		{name: "all of the pod", pod: newPod("p", emptyDir("v", ""), limits("1Ki")), usage: diskUse(24, 1, 1000), want: "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki. ", signal: "ephemeralpodfs.limit"},
		{name: "container", pod: newPod("p", limits("1Ki"), second), usage: diskUse(1024, 1, 0), want: `Container c exceeded its local ephemeral storage limit "1Ki". `, signal: "ephemeralcontainerfs.limit"},
		{name: "sidecar", pod: newPod("p", limits("1Ki"), second, initial(new(corev1.ContainerRestartPolicyAlways))), usage: diskUse(1024, 1, 0),
			want: `Container c exceeded its local ephemeral storage limit "1Ki". `, signal: "ephemeralcontainerfs.limit"},
		{name: "init container, which counts with the pod only", pod: newPod("p", limits("1Ki"), second, initial(nil)), usage: diskUse(1024, 1, 0)},
		{name: "files of a container on another disk", pod: newPod("p", limits("1Ki"), second), usage: diskUse(1024, 1, 0), dedicated: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if signal, got := exceeded(tc.pod, tc.usage, tc.dedicated); got != tc.want || signal != tc.signal {
				t.Errorf("got %q %q, want %q %q", signal, got, tc.signal, tc.want)
			}
		})
	}
}

func TestLimited(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want Scope
	}{
		{"nothing", newPod("p", emptyDir("v", "")), Scope{}},
		{"a volume", newPod("p", emptyDir("v", "1")), Scope{Volumes: true}},
		{"a volume in memory, which its own size limits", newPod("p", emptyDir("v", "1"), func(p *corev1.Pod) { p.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory }), Scope{}},
		{"a container", newPod("p", limits("1")), Scope{Volumes: true, Containers: true}},
	} {
		if got := Limited(tc.pod); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}
