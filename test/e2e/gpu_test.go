// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	gpuResource = "nvidia.com/gpu"
	gpuImage    = "minik8s.io/gpu-matrix:1"
)

// gpuPlugin is a device plugin as a vendor would write it, for devices that are not there: of each a container gets the variable by
// which NVIDIA's toolkit goes, and /dev/null under the name of a device.
type gpuPlugin struct {
	devicepluginv1beta1.UnimplementedDevicePluginServer
	lists chan []*devicepluginv1beta1.Device
	first []*devicepluginv1beta1.Device
}

func gpus(health string, ids ...string) []*devicepluginv1beta1.Device {
	var all []*devicepluginv1beta1.Device
	for _, id := range ids {
		all = append(all, &devicepluginv1beta1.Device{ID: id, Health: health})
	}
	return all
}

// GetDevicePluginOptions implements the service.
func (p *gpuPlugin) GetDevicePluginOptions(context.Context, *devicepluginv1beta1.Empty) (*devicepluginv1beta1.DevicePluginOptions, error) {
	return &devicepluginv1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch tells of the devices, and again when they are others.
func (p *gpuPlugin) ListAndWatch(_ *devicepluginv1beta1.Empty, s grpc.ServerStreamingServer[devicepluginv1beta1.ListAndWatchResponse]) error {
	for list := p.first; ; {
		if err := s.Send(&devicepluginv1beta1.ListAndWatchResponse{Devices: list}); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case list = <-p.lists:
		}
	}
}

// Allocate says what a container is to have of some devices.
func (p *gpuPlugin) Allocate(_ context.Context, r *devicepluginv1beta1.AllocateRequest) (*devicepluginv1beta1.AllocateResponse, error) {
	answer := &devicepluginv1beta1.AllocateResponse{}
	for _, c := range r.GetContainerRequests() {
		answer.ContainerResponses = append(answer.ContainerResponses, &devicepluginv1beta1.ContainerAllocateResponse{
			Envs:    map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(c.GetDevicesIds(), ",")},
			Devices: []*devicepluginv1beta1.DeviceSpec{{HostPath: "/dev/null", ContainerPath: "/dev/nvidia0", Permissions: "rw"}},
		})
	}
	return answer, nil
}

// gpuPlugin serves a plugin in the kubelet's folder and registers it there.
func (k *kube) gpuPlugin(t *testing.T, ids ...string) *gpuPlugin {
	t.Helper()
	dir := filepath.Join(k.DataDir, "kubelet", "device-plugins")
	p := &gpuPlugin{lists: make(chan []*devicepluginv1beta1.Device), first: gpus(devicepluginv1beta1.Healthy, ids...)}
	listener, err := net.Listen("unix", filepath.Join(dir, "gpu.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	devicepluginv1beta1.RegisterDevicePluginServer(server, p)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := devicepluginv1beta1.NewRegistrationClient(conn).Register(ctx, &devicepluginv1beta1.RegisterRequest{
		Version: devicepluginv1beta1.Version, Endpoint: "gpu.sock", ResourceName: gpuResource,
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// gpuStandIn makes an image of the name of examples/gpu's, unless that is there.
func gpuStandIn(t *testing.T) {
	t.Helper()
	if exec.CommandContext(t.Context(), "docker", "image", "inspect", gpuImage).Run() == nil {
		t.Fatalf("the image %s is there: it is of real programs, which need a real GPU; remove it to test without", gpuImage)
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "gpu"), "./test/e2e/testdata/gpu")
	build.Dir, build.Env = suite.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM scratch\nCOPY gpu /gpu\nUSER 65532:65532\nENTRYPOINT [\"/gpu\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "docker", "build", "--quiet", "--tag", gpuImage, dir).CombinedOutput(); err != nil {
		t.Fatalf("docker build: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", "image", "rm", gpuImage).CombinedOutput(); err != nil {
			t.Errorf("docker image rm: %v: %s", err, out)
		}
	})
}

// allocatable waits until the node has so many GPUs.
func (k *kube) allocatable(t *testing.T, want int64) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%d GPUs", want), func(ctx context.Context) error {
		nodes, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if q := nodes.Items[0].Status.Allocatable[gpuResource]; q.Value() != want {
			return fmt.Errorf("there are %s", q.String())
		}
		return nil
	})
}

// TestGPU runs the Job of examples/gpu on a node with two GPUs: each pod gets one of its own, the others wait until one is free, and
// all finish. What takes the place of the GPUs is a plugin; the kubelet, the scheduler and the engine are the real ones.
func TestGPU(t *testing.T) {
	enabled(t)
	gpuStandIn(t)
	k := up(t, newCluster(t, "gpu"))
	job := filepath.Join(suite.root, "examples", "gpu", "job.yaml")
	// Before there is a plugin, the pods wait, and say what for.
	k.kubectl(t, "apply", "-f", job)
	eventually(t, 30*time.Second, "pods that wait for GPUs", func(context.Context) error {
		out := k.kubectl(t, "get", "pods", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="PodScheduled")].message}`)
		if strings.Count(out, "Insufficient "+gpuResource) != 4 {
			return fmt.Errorf("they say %q", out)
		}
		return nil
	})
	p := k.gpuPlugin(t, "GPU-a", "GPU-b")
	k.allocatable(t, 2)
	most := 0
	eventually(t, 3*time.Minute, "the Job's end", func(ctx context.Context) error {
		pods, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=matrix"})
		if err != nil {
			return err
		}
		running, ended := 0, 0
		for i := range pods.Items {
			switch pod := &pods.Items[i]; {
			case pod.Status.Phase == corev1.PodFailed:
				t.Fatalf("pod %s failed: %+v", pod.Name, pod.Status.ContainerStatuses)
			case pod.Status.Phase == corev1.PodSucceeded:
				ended++
			case pod.Spec.NodeName != "":
				running++
			}
		}
		most = max(most, running)
		if ended < 4 {
			return fmt.Errorf("%d of 4 have ended", ended)
		}
		return nil
	})
	if most > 2 {
		t.Errorf("%d pods had a GPU at a time, of 2 that there are", most)
	}
	k.kubectl(t, "wait", "--for=condition=Complete", "--timeout=30s", "job/matrix")
	k.oneGPUEach(t)
	k.kubectl(t, "delete", "-f", job)

	// A GPU that fails is none that is given.
	p.lists <- append(gpus(devicepluginv1beta1.Healthy, "GPU-a"), gpus(devicepluginv1beta1.Unhealthy, "GPU-b")...)
	k.allocatable(t, 1)
	p.lists <- p.first
	k.allocatable(t, 2)
	k.runPage(t, filepath.Join(suite.root, "docs", "gpu.md"))
	if exec.CommandContext(t.Context(), "docker", "image", "inspect", "minik8s.io/slurm:22.05").Run() == nil {
		k.runCourse(t, "08-gpu", 4)
	} else {
		k.runCourse(t, "08-gpu", 1, "a job for Slurm")
	}
}

// oneGPUEach looks at what the containers have seen, and that nobody had a GPU while another one had it.
func (k *kube) oneGPUEach(t *testing.T) {
	t.Helper()
	pods, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=matrix"})
	if err != nil {
		t.Fatal(err)
	}
	type use struct {
		from, to time.Time
		pod      string
	}
	uses := map[string][]use{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		log, err := k.client.CoreV1().Pods("default").GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		device, ok := strings.CutPrefix(strings.TrimSpace(string(log)), "device: ")
		if !ok || device != "GPU-a" && device != "GPU-b" {
			t.Errorf("pod %s has seen %q", pod.Name, log)
		}
		if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Terminated == nil {
			t.Error(errors.New("its container has no end"), pod.Name)
			continue
		}
		ended := pod.Status.ContainerStatuses[0].State.Terminated
		uses[device] = append(uses[device], use{ended.StartedAt.Time, ended.FinishedAt.Time, pod.Name})
	}
	for device, all := range uses {
		slices.SortFunc(all, func(a, b use) int { return a.from.Compare(b.from) })
		for i := 1; i < len(all); i++ {
			if all[i].from.Before(all[i-1].to) {
				t.Errorf("%s was given to %s until %s, and to %s from %s", device, all[i-1].pod, all[i-1].to, all[i].pod, all[i].from)
			}
		}
	}
	if len(uses) != 2 {
		t.Errorf("used were %d GPUs of 2", len(uses))
	}
}
