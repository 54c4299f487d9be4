// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podresources tells programs on the node, such as monitors of devices, which devices, CPUs and memory each pod has alone
// (KEP-606, KEP-2043, API v1, and v1alpha1 for older ones). Touch it when that API grows, or when pods have more that is theirs alone.
package podresources

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podresourcesv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/dra"
	"minik8s.io/minik8s/pkg/kubelet/internal/memorymanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/socket"
)

const (
	// folder is where programs look, below the kubelet's directory; file is the socket in it, which only root may use.
	folder, file = "pod-resources", "kubelet.sock"
	// maxRequest bounds a request, in bytes.
	maxRequest = 16 << 10
	// Requests per second of all programs together, and how many at once: upstream's.
	qps, burst = 100, 10
)

// Devices knows who has which devices.
type Devices interface {
	// Allocated are those of a container, Healthy all that can be allocated.
	Allocated(pod types.UID, container string) []devicemanager.Device
	Healthy() []devicemanager.Device
}

// Claims knows what containers have by resource claims.
type Claims interface {
	Claims(pod *corev1.Pod, c *corev1.Container) []dra.Claim
}

// CPUs knows who has which CPUs, and which containers can have.
type CPUs interface {
	Own(pod types.UID, container string) cpuset.CPUSet
	Allocatable() cpuset.CPUSet
}

// Memory likewise.
type Memory interface {
	Own(pod types.UID, container string) []memorymanager.Block
	Allocatable() []memorymanager.Block
}

// Config is what a Server is made from; all fields are required.
type Config struct {
	// RootDir is the kubelet's directory.
	RootDir string
	// Pods are those that run, or are to run, or are ending.
	Pods    func() []*corev1.Pod
	Devices Devices
	Claims  Claims
	CPUs    CPUs
	Memory  Memory
	// Intercept is around each request.
	Intercept grpc.UnaryServerInterceptor
}

// Server serves the API.
type Server struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	cfg Config
}

// New returns a Server; nothing happens before Start.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest), grpc.ChainUnaryInterceptor(socket.Limit(qps, burst), s.cfg.Intercept))
	podresourcesv1.RegisterPodResourcesListerServer(server, s)
	podresourcesv1alpha1.RegisterPodResourcesListerServer(server, first{server: s})
	return socket.Serve(ctx, s.cfg.RootDir, folder, file, server)
}

// List implements the API.
func (s *Server) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	out := &podresourcesv1.ListPodResourcesResponse{}
	for _, p := range s.cfg.Pods() {
		out.PodResources = append(out.PodResources, s.of(p))
	}
	return out, nil
}

// Get implements the API.
func (s *Server) Get(_ context.Context, r *podresourcesv1.GetPodResourcesRequest) (*podresourcesv1.GetPodResourcesResponse, error) {
	for _, p := range s.cfg.Pods() {
		if p.Name == r.GetPodName() && p.Namespace == r.GetPodNamespace() {
			return &podresourcesv1.GetPodResourcesResponse{PodResources: s.of(p)}, nil
		}
	}
	return nil, fmt.Errorf("pod %s in namespace %s not found", r.GetPodName(), r.GetPodNamespace())
}

// GetAllocatableResources implements the API.
func (s *Server) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (
	*podresourcesv1.AllocatableResourcesResponse, error) {
	return &podresourcesv1.AllocatableResourcesResponse{
		Devices: told(s.cfg.Devices.Healthy()), CpuIds: cpuIDs(s.cfg.CPUs.Allocatable()), Memory: memory(s.cfg.Memory.Allocatable()),
	}, nil
}

// of are the resources of a pod: of its containers but init containers, which end.
func (s *Server) of(p *corev1.Pod) *podresourcesv1.PodResources {
	out := &podresourcesv1.PodResources{Name: p.Name, Namespace: p.Namespace}
	for c, t := range podspec.Containers(p) {
		if t == container.TypeEphemeral || t == container.TypeInit && !podspec.IsSidecar(c) {
			continue
		}
		out.Containers = append(out.Containers, &podresourcesv1.ContainerResources{
			Name: c.Name, Devices: told(s.cfg.Devices.Allocated(p.UID, c.Name)), DynamicResources: claimed(s.cfg.Claims.Claims(p, c)),
			CpuIds: cpuIDs(s.cfg.CPUs.Own(p.UID, c.Name)),
			Memory: memory(s.cfg.Memory.Own(p.UID, c.Name)),
		})
	}
	return out
}

// claimed has all devices of a claim.
func claimed(claims []dra.Claim) []*podresourcesv1.DynamicResource {
	var out []*podresourcesv1.DynamicResource
	for _, c := range claims {
		r := &podresourcesv1.DynamicResource{ClaimName: c.Name, ClaimNamespace: c.Namespace}
		for _, d := range c.Devices {
			of := &podresourcesv1.ClaimResource{DriverName: d.Driver, PoolName: d.Pool, DeviceName: d.Name, ShareId: d.ShareID}
			for _, name := range d.CDI {
				of.CdiDevices = append(of.CdiDevices, &podresourcesv1.CDIDevice{Name: name})
			}
			r.ClaimResources = append(r.ClaimResources, of)
		}
		out = append(out, r)
	}
	return out
}

func cpuIDs(set cpuset.CPUSet) []int64 {
	var out []int64
	for _, id := range set.List() {
		out = append(out, int64(id))
	}
	return out
}

func memory(blocks []memorymanager.Block) []*podresourcesv1.ContainerMemory {
	var out []*podresourcesv1.ContainerMemory
	for _, b := range blocks {
		topology := &podresourcesv1.TopologyInfo{}
		for _, id := range b.Nodes {
			topology.Nodes = append(topology.Nodes, &podresourcesv1.NUMANode{ID: int64(id)})
		}
		out = append(out, &podresourcesv1.ContainerMemory{MemoryType: string(b.Type), Size: b.Size, Topology: topology})
	}
	return out
}

// told is an entry for each device, as upstream.
func told(devices []devicemanager.Device) []*podresourcesv1.ContainerDevices {
	var out []*podresourcesv1.ContainerDevices
	for _, d := range devices {
		topology := &podresourcesv1.TopologyInfo{}
		for _, n := range d.NUMANodes {
			topology.Nodes = append(topology.Nodes, &podresourcesv1.NUMANode{ID: n})
		}
		out = append(out, &podresourcesv1.ContainerDevices{ResourceName: d.Resource, DeviceIds: []string{d.ID}, Topology: topology})
	}
	return out
}
