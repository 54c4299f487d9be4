// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podresourcesv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/dra"
	"minik8s.io/minik8s/pkg/kubelet/internal/memorymanager"
)

// held are the devices of containers, by UID/container.
type held map[string][]devicemanager.Device

func (h held) Allocated(pod types.UID, name string) []devicemanager.Device {
	return h[string(pod)+"/"+name]
}

func (h held) Healthy() []devicemanager.Device { return h[""] }

// claimer has one claim for each container that uses some.
type claimer struct{}

func (claimer) Claims(pod *corev1.Pod, c *corev1.Container) []dra.Claim {
	if len(c.Resources.Claims) == 0 {
		return nil
	}
	return []dra.Claim{{Namespace: pod.Namespace, Name: "claim", Devices: []dra.Device{
		{Driver: "d", Pool: "p", Name: "x", CDI: []string{"v/c=x", "v/c=y"}}, {Driver: "d", Pool: "p", Name: "y", ShareID: new("s")},
	}}}
}

// cpus and blocks likewise.
type cpus map[string]cpuset.CPUSet

func (c cpus) Own(pod types.UID, name string) cpuset.CPUSet { return c[string(pod)+"/"+name] }
func (c cpus) Allocatable() cpuset.CPUSet                   { return c[""] }

type blocks map[string][]memorymanager.Block

func (b blocks) Own(pod types.UID, name string) []memorymanager.Block { return b[string(pod)+"/"+name] }
func (b blocks) Allocatable() []memorymanager.Block                   { return b[""] }

func TestServer(t *testing.T) {
	t.Parallel()
	a, b := devicemanager.Device{Resource: "v/r", ID: "a", NUMANodes: []int64{0, 1}}, devicemanager.Device{Resource: "v/r", ID: "b"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{
		InitContainers:      []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
		Containers:          []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "r"}}}}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}},
	}}
	root := t.TempDir()
	var requests atomic.Int32
	s := New(Config{
		RootDir: root, Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} },
		Claims:  claimer{},
		Devices: held{"u/init": {b}, "u/side": {b}, "u/c": {a}, "": {a, b}},
		CPUs:    cpus{"u/c": cpuset.New(2, 1), "": cpuset.New(1, 2, 3)},
		Memory:  blocks{"u/c": {{Nodes: []int{0, 1}, Type: "memory", Size: 5}}, "": {{Nodes: []int{0}, Type: "hugepages-2Mi", Size: 7}}},
		Intercept: func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			requests.Add(1)
			return handle(ctx, request)
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	path := filepath.Join(root, "pod-resources", "kubelet.sock")
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := podresourcesv1.NewPodResourcesListerClient(conn)

	toldA := &podresourcesv1.ContainerDevices{ResourceName: "v/r", DeviceIds: []string{"a"}, Topology: &podresourcesv1.TopologyInfo{
		Nodes: []*podresourcesv1.NUMANode{{ID: 0}, {ID: 1}},
	}}
	toldB := &podresourcesv1.ContainerDevices{ResourceName: "v/r", DeviceIds: []string{"b"}, Topology: &podresourcesv1.TopologyInfo{}}
	claimed := []*podresourcesv1.DynamicResource{{ClaimName: "claim", ClaimNamespace: "ns", ClaimResources: []*podresourcesv1.ClaimResource{
		{DriverName: "d", PoolName: "p", DeviceName: "x", CdiDevices: []*podresourcesv1.CDIDevice{{Name: "v/c=x"}, {Name: "v/c=y"}}},
		{DriverName: "d", PoolName: "p", DeviceName: "y", ShareId: new("s")},
	}}}
	want := &podresourcesv1.PodResources{Name: "p", Namespace: "ns", Containers: []*podresourcesv1.ContainerResources{
		{Name: "side", Devices: []*podresourcesv1.ContainerDevices{toldB}}, {
			Name: "c", Devices: []*podresourcesv1.ContainerDevices{toldA}, CpuIds: []int64{1, 2}, DynamicResources: claimed,
			Memory: []*podresourcesv1.ContainerMemory{{MemoryType: "memory", Size: 5, Topology: &podresourcesv1.TopologyInfo{Nodes: []*podresourcesv1.NUMANode{{ID: 0}, {ID: 1}}}}},
		},
	}}
	list, err := client.List(ctx, &podresourcesv1.ListPodResourcesRequest{}, grpc.WaitForReady(true))
	if diff := cmp.Diff(&podresourcesv1.ListPodResourcesResponse{PodResources: []*podresourcesv1.PodResources{want}}, list, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	old, err := podresourcesv1alpha1.NewPodResourcesListerClient(conn).List(ctx, &podresourcesv1alpha1.ListPodResourcesRequest{})
	wantOld := &podresourcesv1alpha1.ListPodResourcesResponse{PodResources: []*podresourcesv1alpha1.PodResources{{
		Name: "p", Namespace: "ns", Containers: []*podresourcesv1alpha1.ContainerResources{{
			Name: "c", Devices: []*podresourcesv1alpha1.ContainerDevices{{ResourceName: "v/r", DeviceIds: []string{"a"}}},
		}},
	}}}
	if diff := cmp.Diff(wantOld, old, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("v1alpha1: %v %s", err, diff)
	}
	got, err := client.Get(ctx, &podresourcesv1.GetPodResourcesRequest{PodName: "p", PodNamespace: "ns"})
	if diff := cmp.Diff(want, got.GetPodResources(), protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := client.Get(ctx, &podresourcesv1.GetPodResourcesRequest{PodName: "p", PodNamespace: "x"}); err == nil || !strings.Contains(err.Error(), "pod p in namespace x not found") {
		t.Errorf("got %v", err)
	}
	all, err := client.GetAllocatableResources(ctx, &podresourcesv1.AllocatableResourcesRequest{})
	wantAll := &podresourcesv1.AllocatableResourcesResponse{
		Devices: []*podresourcesv1.ContainerDevices{toldA, toldB}, CpuIds: []int64{1, 2, 3},
		Memory: []*podresourcesv1.ContainerMemory{{MemoryType: "hugepages-2Mi", Size: 7, Topology: &podresourcesv1.TopologyInfo{Nodes: []*podresourcesv1.NUMANode{{ID: 0}}}}},
	}
	if diff := cmp.Diff(wantAll, all, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if n := requests.Load(); n != 5 {
		t.Errorf("%d requests", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
