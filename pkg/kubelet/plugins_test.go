// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// devicePlugin is one as a vendor would write it. Each of its devices is the same file of the node, or the same CDI device.
type devicePlugin struct {
	devicepluginv1beta1.UnimplementedDevicePluginServer
	registrationv1.UnimplementedRegistrationServer
	resource, path, permissions string
	cdi                         string
	devices                     []string
	// nodes are the NUMA nodes that all of them are close to.
	nodes  []*devicepluginv1beta1.NUMANode
	server *grpc.Server
	end    chan struct{}
}

func (p *devicePlugin) GetInfo(context.Context, *registrationv1.InfoRequest) (*registrationv1.PluginInfo, error) {
	return &registrationv1.PluginInfo{Type: registrationv1.DevicePlugin, Name: p.resource, SupportedVersions: []string{"v1beta1"}}, nil
}

func (p *devicePlugin) NotifyRegistrationStatus(context.Context, *registrationv1.RegistrationStatus) (*registrationv1.RegistrationStatusResponse, error) {
	return &registrationv1.RegistrationStatusResponse{}, nil
}

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *devicepluginv1beta1.Empty) (*devicepluginv1beta1.DevicePluginOptions, error) {
	return &devicepluginv1beta1.DevicePluginOptions{}, nil
}

func (p *devicePlugin) ListAndWatch(_ *devicepluginv1beta1.Empty, s grpc.ServerStreamingServer[devicepluginv1beta1.ListAndWatchResponse]) error {
	r := &devicepluginv1beta1.ListAndWatchResponse{}
	for _, id := range p.devices {
		r.Devices = append(r.Devices, &devicepluginv1beta1.Device{
			ID: id, Health: devicepluginv1beta1.Healthy, Topology: &devicepluginv1beta1.TopologyInfo{Nodes: p.nodes},
		})
	}
	if err := s.Send(r); err != nil {
		return err
	}
	select {
	case <-s.Context().Done():
	case <-p.end:
	}
	return nil
}

func (p *devicePlugin) Allocate(_ context.Context, r *devicepluginv1beta1.AllocateRequest) (*devicepluginv1beta1.AllocateResponse, error) {
	if p.cdi != "" {
		return &devicepluginv1beta1.AllocateResponse{ContainerResponses: []*devicepluginv1beta1.ContainerAllocateResponse{{
			CdiDevices: []*devicepluginv1beta1.CDIDevice{{Name: p.cdi}},
		}}}, nil
	}
	return &devicepluginv1beta1.AllocateResponse{ContainerResponses: []*devicepluginv1beta1.ContainerAllocateResponse{{
		Envs:    map[string]string{"GREETING": strings.Join(r.GetContainerRequests()[0].GetDevicesIds(), "+")},
		Devices: []*devicepluginv1beta1.DeviceSpec{{HostPath: p.path, ContainerPath: "/dev/given", Permissions: p.permissions}},
	}}}, nil
}

// serve has the plugin listen at a socket.
func (p *devicePlugin) serve(t *testing.T, socket string) {
	t.Helper()
	p.server, p.end = grpc.NewServer(), make(chan struct{})
	devicepluginv1beta1.RegisterDevicePluginServer(p.server, p)
	registrationv1.RegisterRegistrationServer(p.server, p)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.server.Serve(l) }()
	t.Cleanup(p.stop)
}

func (p *devicePlugin) stop() {
	select {
	case <-p.end:
	default:
		close(p.end)
	}
	p.server.Stop()
}

// register serves the plugin beside the kubelet's socket and asks that to use it.
func (p *devicePlugin) register(t *testing.T, root string) {
	t.Helper()
	dir, name := filepath.Join(root, "device-plugins"), strings.ReplaceAll(p.resource, "/", "_")
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := devicepluginv1beta1.NewRegistrationClient(conn)
	// Until the kubelet is up, it removes sockets.
	if _, err := client.Register(ctx, &devicepluginv1beta1.RegisterRequest{}, grpc.WaitForReady(true)); err == nil {
		t.Fatal("nothing is registered")
	}
	p.serve(t, filepath.Join(dir, name))
	if _, err := client.Register(ctx, &devicepluginv1beta1.RegisterRequest{Version: "v1beta1", Endpoint: name, ResourceName: p.resource}); err != nil {
		t.Fatal(err)
	}
}

func awaitDevices(t *testing.T, w *world, name corev1.ResourceName, capacity, allocatable int64) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err == nil {
			all, healthy := n.Status.Capacity[name], n.Status.Allocatable[name]
			_, known := n.Status.Capacity[name]
			if known && all.Value() == capacity && healthy.Value() == allocatable {
				return
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("the node never has %d of %s, of which %d for pods", capacity, name, allocatable)
}

// listed is what programs on the node are told of devices.
func listed(t *testing.T, root string) string {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(root, "pod-resources", "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	all, err := podresourcesv1.NewPodResourcesListerClient(conn).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range all.GetPodResources() {
		for _, c := range p.GetContainers() {
			for _, d := range c.GetDevices() {
				out = append(out, fmt.Sprintf("%s/%s %s %v", p.GetName(), c.GetName(), d.GetResourceName(), d.GetDeviceIds()))
			}
		}
	}
	return strings.Join(out, ", ")
}

func wanting(name corev1.ResourceName, n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		list := corev1.ResourceList{name: resource.MustParse(n)}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	}
}

// A pod has its devices while plugin and kubelet come and go. Who finds none fails as upstream, and what a pod had is another's then.
// wipe takes all pods off the engine.
func wipe(t *testing.T, engine *fake.Runtime) {
	t.Helper()
	all, err := engine.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all { // each is one or the other
		if err := errors.Join(engine.RemoveContainer(t.Context(), one.ID), engine.RemoveSandbox(t.Context(), one.ID)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	const name = "example.com/thing"
	w := newWorld(t, fake.Config{})
	stop := w.start()
	p := &devicePlugin{resource: name, path: "/dev/x", permissions: "rw", devices: []string{"a"}}
	p.register(t, w.dir)
	awaitDevices(t, w, name, 1, 1)
	w.create(newPod("one", wanting(name, "1")))
	one := w.await("ready", "one", ready)
	healthy := []corev1.ResourceStatus{{Name: name, Resources: []corev1.ResourceHealth{{ResourceID: "a", Health: corev1.ResourceHealthStatusHealthy}}}}
	if got := one.Status.ContainerStatuses[0].AllocatedResourcesStatus; len(got) != 1 || !slices.Equal(got[0].Resources, healthy[0].Resources) {
		t.Errorf("its devices: %v", got)
	}
	if got := listed(t, w.dir); got != "one/c example.com/thing [a]" {
		t.Errorf("other programs are told: %s", got)
	}
	w.create(newPod("two", wanting(name, "1")))
	two := w.await("failed", "two", phase(corev1.PodFailed))
	const refusal = "Allocate failed due to requested number of devices unavailable for example.com/thing. Requested: 1, Available: 0, which is unexpected"
	if two.Status.Reason != "UnexpectedAdmissionError" || two.Status.Message != "Pod was rejected: "+refusal {
		t.Errorf("%s: %s", two.Status.Reason, two.Status.Message)
	}
	if got := w.events("UnexpectedAdmissionError"); !slices.Contains(got, "UnexpectedAdmissionError: "+refusal) {
		t.Errorf("events: %v", got)
	}
	// The plugin goes, and the kubelet restarts.
	p.stop()
	awaitDevices(t, w, name, 1, 0)
	w.await("unknown health", "one", func(q *corev1.Pod) bool {
		s := q.Status.ContainerStatuses[0].AllocatedResourcesStatus
		return len(s) == 1 && s[0].Resources[0].Health == corev1.ResourceHealthStatusUnknown
	})
	stop()
	stop = w.start()
	awaitDevices(t, w, name, 0, 0)
	// It comes back the other way, by the directory of all plugins.
	p.serve(t, filepath.Join(w.dir, "plugins_registry", "p.sock"))
	awaitDevices(t, w, name, 1, 1)
	again := w.await("healthy", "one", func(q *corev1.Pod) bool {
		s := q.Status.ContainerStatuses[0].AllocatedResourcesStatus
		return len(s) == 1 && s[0].Resources[0].Health == corev1.ResourceHealthStatusHealthy
	})
	if again.Status.ContainerStatuses[0].ContainerID != one.Status.ContainerStatuses[0].ContainerID {
		t.Error("the pod was started again")
	}
	// Nothing of the pod is left, as after a reboot: it waits for the plugin, and is not ready meanwhile.
	p.stop()
	stop()
	wipe(t, w.runtime)
	stop = w.start()
	w.await("not ready", "one", func(q *corev1.Pod) bool { return q != nil && !ready(q) })
	p.serve(t, filepath.Join(w.dir, "plugins_registry", "p.sock"))
	w.await("ready again", "one", ready)
	w.remove("one")
	w.await("gone", "one", func(q *corev1.Pod) bool { return q == nil })
	w.create(newPod("three", wanting(name, "1")))
	w.await("ready", "three", ready)
	stop()
}

// What keeps the sockets for other programs from being made keeps no pod from running, and they are made once it has gone.
func TestSocketsInTheWay(t *testing.T) {
	t.Parallel()
	const name = "example.com/thing"
	w := newWorld(t, fake.Config{})
	var inTheWay []string
	for _, dir := range []string{"device-plugins", "pod-resources"} {
		inTheWay = append(inTheWay, filepath.Join(w.dir, dir))
	}
	for _, path := range inTheWay {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stop := w.start()
	defer stop()
	w.create(newPod("one", nil))
	w.await("ready", "one", ready)
	for _, path := range inTheWay {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	p := &devicePlugin{resource: name, path: "/dev/x", permissions: "rw", devices: []string{"a"}}
	p.register(t, w.dir)
	awaitDevices(t, w, name, 1, 1)
	w.create(newPod("two", wanting(name, "1")))
	w.await("ready", "two", ready)
	if got := listed(t, w.dir); got != "two/c example.com/thing [a]" {
		t.Errorf("other programs are told: %s", got)
	}
}
