// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicemanager

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

const patient = 20 * time.Second

// plugin under test's eyes: a device plugin as a vendor would write it.
type fakePlugin struct {
	devicepluginv1beta1.UnimplementedDevicePluginServer
	// socket is its name without ".sock"; that of the resource if it is empty.
	socket  string
	options *devicepluginv1beta1.DevicePluginOptions
	lists   chan []*devicepluginv1beta1.Device
	// err is the answer to Allocate, if there is one; hang has it wait for the caller's deadline.
	err    error
	hang   chan struct{}
	server *grpc.Server
	// mute: it fails instead of telling of devices.
	mute bool

	mu                  sync.Mutex
	allocated, prepared [][]string
	// prefers are devices that it would choose.
	prefers []string
}

func (p *fakePlugin) GetDevicePluginOptions(context.Context, *devicepluginv1beta1.Empty) (*devicepluginv1beta1.DevicePluginOptions, error) {
	return p.options, nil
}

func (p *fakePlugin) ListAndWatch(_ *devicepluginv1beta1.Empty, s grpc.ServerStreamingServer[devicepluginv1beta1.ListAndWatchResponse]) error {
	if p.mute {
		return errors.New("no devices today")
	}
	for {
		select {
		case <-s.Context().Done():
			return nil
		case l := <-p.lists:
			if err := s.Send(&devicepluginv1beta1.ListAndWatchResponse{Devices: l}); err != nil {
				return err
			}
		}
	}
}

func (p *fakePlugin) Allocate(ctx context.Context, r *devicepluginv1beta1.AllocateRequest) (*devicepluginv1beta1.AllocateResponse, error) {
	if p.hang != nil {
		close(p.hang)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.err != nil {
		return nil, p.err
	}
	ids := r.GetContainerRequests()[0].GetDevicesIds()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allocated = append(p.allocated, ids)
	return &devicepluginv1beta1.AllocateResponse{ContainerResponses: []*devicepluginv1beta1.ContainerAllocateResponse{{
		Envs:        map[string]string{"IDS": strings.Join(ids, ",")},
		Mounts:      []*devicepluginv1beta1.Mount{{HostPath: "/h", ContainerPath: "/c", ReadOnly: true}},
		Devices:     []*devicepluginv1beta1.DeviceSpec{{HostPath: "/dev/h", ContainerPath: "/dev/c", Permissions: "rw"}},
		Annotations: map[string]string{"a": "b"}, CdiDevices: []*devicepluginv1beta1.CDIDevice{{Name: "v/c=d"}},
	}}}, nil
}

func (p *fakePlugin) PreStartContainer(_ context.Context, r *devicepluginv1beta1.PreStartContainerRequest) (*devicepluginv1beta1.PreStartContainerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared = append(p.prepared, r.GetDevicesIds())
	return &devicepluginv1beta1.PreStartContainerResponse{}, nil
}

func (p *fakePlugin) GetPreferredAllocation(context.Context, *devicepluginv1beta1.PreferredAllocationRequest) (*devicepluginv1beta1.PreferredAllocationResponse, error) {
	return &devicepluginv1beta1.PreferredAllocationResponse{ContainerResponses: []*devicepluginv1beta1.ContainerPreferredAllocationResponse{{DeviceIDs: p.prefers}}}, nil
}

// list are devices; those that are healthy are close to NUMA node 1.
func list(healthy string, unhealthy ...string) []*devicepluginv1beta1.Device {
	var out []*devicepluginv1beta1.Device
	for id := range strings.FieldsSeq(healthy) {
		out = append(out, &devicepluginv1beta1.Device{ID: id, Health: devicepluginv1beta1.Healthy,
			Topology: &devicepluginv1beta1.TopologyInfo{Nodes: []*devicepluginv1beta1.NUMANode{{ID: 1}}}})
	}
	for _, id := range unhealthy {
		out = append(out, &devicepluginv1beta1.Device{ID: id, Health: devicepluginv1beta1.Unhealthy})
	}
	return out
}

// node is a Manager that runs.
type node struct {
	*Manager
	root    string
	clock   *clocktesting.FakeClock
	changed chan struct{}
	woken   chan types.UID
	stop    func()
	// gone are the pods that the node does not have, made those that the engine has.
	mu         sync.Mutex
	gone, made map[types.UID]bool
	counted    []string
}

func (n *node) DevicePluginRegistered(resource string) { n.note("registered " + resource) }

func (n *node) DevicesAllocated(resource string, _ time.Duration) { n.note("allocated " + resource) }

func (n *node) note(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counted = append(n.counted, text)
}

func start(t *testing.T, root string) *node {
	t.Helper()
	n := &node{root: root, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), changed: make(chan struct{}, 100), woken: make(chan types.UID, 100),
		gone: map[types.UID]bool{}, made: map[types.UID]bool{}}
	has := func(set map[types.UID]bool, uid types.UID) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return set[uid]
	}
	n.Manager = New(t.Context(), Config{
		RootDir: root, Clock: n.clock, Known: func(uid types.UID) bool { return !has(n.gone, uid) }, Made: func(uid types.UID) bool { return has(n.made, uid) },
		Changed: func() { n.changed <- struct{}{} }, Wake: func(uid types.UID) { n.woken <- uid }, Counts: n,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Start(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := next(t, done); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop) // what it writes would be in the way of who takes the directory away
	return n
}

func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patient):
		t.Fatal("nothing comes")
	}
	panic("not reached")
}

// register asks the kubelet to use a plugin, by its socket.
func (n *node) register(t *testing.T, r *devicepluginv1beta1.RegisterRequest) error {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.root, "device-plugins", "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	_, err = devicepluginv1beta1.NewRegistrationClient(conn).Register(ctx, r, grpc.WaitForReady(true))
	return err
}

// plug serves a plugin and registers it; the node has its devices when it returns.
func (n *node) plug(t *testing.T, res string, p *fakePlugin, devices []*devicepluginv1beta1.Device) *fakePlugin {
	t.Helper()
	n.join(t, res, p)
	p.lists <- devices
	for !n.shows(res, devices) {
		next(t, n.changed)
	}
	return p
}

// join serves a plugin and registers it; of its devices it has not told when it returns.
func (n *node) join(t *testing.T, res string, p *fakePlugin) *fakePlugin {
	t.Helper()
	p.lists, p.server = make(chan []*devicepluginv1beta1.Device, 10), grpc.NewServer()
	if p.socket == "" {
		p.socket = strings.ReplaceAll(res, "/", "_")
	}
	name := p.socket + ".sock"
	if err := n.register(t, &devicepluginv1beta1.RegisterRequest{Version: "v0", ResourceName: res, Endpoint: name}); err == nil { // it is up
		t.Fatal("a plugin of another version is taken")
	}
	path := filepath.Join(n.root, "device-plugins", name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	devicepluginv1beta1.RegisterDevicePluginServer(p.server, p)
	go func() { _ = p.server.Serve(l) }()
	t.Cleanup(p.server.Stop)
	if err := n.register(t, &devicepluginv1beta1.RegisterRequest{Version: "v1beta1", ResourceName: res, Endpoint: name}); err != nil {
		t.Fatal(err)
	}
	return p
}

// shows tells whether the devices of a resource are these.
func (n *node) shows(res string, devices []*devicepluginv1beta1.Device) bool {
	n.Manager.mu.Lock()
	defer n.Manager.mu.Unlock()
	d := n.state.resources[res]
	return d != nil && len(d.known) == len(devices) && !slices.ContainsFunc(devices, func(dev *devicepluginv1beta1.Device) bool {
		return string(d.health(dev.GetID())) != dev.GetHealth()
	})
}

// healthy is how many devices there are for pods.
func (n *node) healthy(res string) int64 {
	_, healthy := n.Resources()
	h := healthy[corev1.ResourceName(res)]
	return h.Value()
}

func (n *node) want(t *testing.T, res string, capacity, allocatable int64) {
	t.Helper()
	all, healthy := n.Resources()
	a, h := all[corev1.ResourceName(res)], healthy[corev1.ResourceName(res)]
	if a.Value() != capacity || h.Value() != allocatable {
		t.Errorf("%s: %d of which %d for pods, want %d and %d", res, a.Value(), h.Value(), capacity, allocatable)
	}
}

func (n *node) ids(uid types.UID, name, res string) []string {
	n.Manager.mu.Lock()
	defer n.Manager.mu.Unlock()
	if a := n.state.pods[uid][name][res]; a != nil {
		return a.Devices
	}
	return nil
}

const res = "example.com/thing"

func asks(name string, number string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{res: resource.MustParse(number), "cpu": resource.MustParse("1")}}}
}

func pod(uid types.UID, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid)}, Spec: corev1.PodSpec{Containers: containers}}
}

// TestManager_NeverLists: the resource of a plugin that fails before it has told of any device is there, and none of it. The next kubelet
// knows of it, too.
func TestManager_NeverLists(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	n := start(t, root)
	n.plug(t, res, &fakePlugin{mute: true}, nil)
	if all, healthy := n.Resources(); len(all) != 1 || len(healthy) != 1 {
		t.Errorf("resources are %v, %v", all, healthy)
	}
	n.want(t, res, 0, 0)
	n.plug(t, res, &fakePlugin{}, list("a b"))
	n.want(t, res, 2, 2)
	n.stop()
	if all, _ := start(t, root).Resources(); len(all) != 1 {
		t.Errorf("the next kubelet knows of %v", all)
	}
}

// A pod gets devices, has them also under the next kubelet, which its plugin may join later or never, and leaves them to others.
func TestManager(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	n := start(t, root)
	p := n.plug(t, res, &fakePlugin{options: &devicepluginv1beta1.DevicePluginOptions{PreStartRequired: true}}, list("a b", "c"))
	n.want(t, res, 3, 2)
	if err := n.allocate(t.Context(), pod("u", asks("x", "1"), corev1.Container{Name: "y"}, asks("z", "1"))); err != nil {
		t.Fatal(err)
	}
	want := Options{
		Env: map[string]string{"IDS": "a"}, Annotations: map[string]string{"a": "b"}, CDIDevices: []string{"v/c=d"},
		Mounts:  []container.Mount{{HostPath: "/h", ContainerPath: "/c", ReadOnly: true}},
		Devices: []container.Device{{HostPath: "/dev/h", ContainerPath: "/dev/c", Permissions: "rw"}},
	}
	has := func(n *node) {
		t.Helper()
		if got, err := n.Container(t.Context(), "u", "x"); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%v, %s", err, cmp.Diff(want, got))
		}
		if got, err := n.Container(t.Context(), "u", "y"); err != nil || cmp.Diff(Options{}, got) != "" {
			t.Errorf("without devices: %v, %v", got, err)
		}
	}
	has(n)
	n.mu.Lock()
	if diff := cmp.Diff([]string{"registered " + res, "allocated " + res, "allocated " + res}, n.counted); diff != "" {
		t.Errorf("counted: %s", diff)
	}
	n.mu.Unlock()
	if diff := cmp.Diff([][]string{{"a"}}, p.prepared); diff != "" {
		t.Errorf("prepared: %s", diff)
	}
	if got := n.Health("u", "z"); len(got) != 1 || got[0].Resources[0] != (corev1.ResourceHealth{ResourceID: "b", Health: corev1.ResourceHealthStatusHealthy}) {
		t.Errorf("health: %v", got)
	}
	if diff := cmp.Diff([]Device{{res, "b", []int64{1}}}, n.Allocated("u", "z")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Device{{res, "a", []int64{1}}, {res, "b", []int64{1}}}, n.Healthy()); diff != "" {
		t.Error(diff)
	}
	p.lists <- list("a", "b")
	next(t, n.changed)
	if uid := next(t, n.woken); uid != "u" || n.Health("u", "z")[0].Resources[0].Health != corev1.ResourceHealthStatusUnhealthy {
		t.Errorf("woken: %s, health: %v", uid, n.Health("u", "z"))
	}
	n.stop()

	n = start(t, root)
	n.want(t, res, 0, 0)
	has(n)
	if diff := cmp.Diff([]Device{{Resource: res, ID: "b"}}, n.Allocated("u", "z")); diff != "" || n.Healthy() != nil {
		t.Errorf("without the plugin: %s, %v", diff, n.Healthy())
	}
	if got := n.Health("u", "x")[0].Resources[0].Health; got != corev1.ResourceHealthStatusUnknown {
		t.Errorf("health without the plugin: %s", got)
	}
	p = n.plug(t, res, &fakePlugin{}, list("a b"))
	if err := n.allocate(t.Context(), pod("u", asks("x", "1"), corev1.Container{Name: "y"}, asks("z", "1"))); err != nil || len(p.allocated) > 0 {
		t.Errorf("again: %v, %v", err, p.allocated)
	}
	err := n.allocate(t.Context(), pod("v", asks("x", "1")))
	if err == nil || err.Error() != "Allocate failed due to requested number of devices unavailable for example.com/thing. Requested: 1, Available: 0, which is unexpected" {
		t.Errorf("got %v", err)
	}
	if err := n.release("u"); err != nil {
		t.Fatal(err)
	}
	if err := n.allocate(t.Context(), pod("v", asks("x", "2"))); err != nil {
		t.Error(err)
	}
	n.stop()
	n = start(t, root)
	if got := n.ids("v", "x", res); !slices.Equal(got, []string{"a", "b"}) || n.ids("u", "x", res) != nil {
		t.Errorf("v has %v, u has %v", got, n.ids("u", "x", res))
	}
	n.stop()
}

// The devices of a plugin that goes are not given any more at once, and are no capacity after a while, unless it comes back.
func TestManager_PluginGoes(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	p := n.plug(t, res, &fakePlugin{}, list("a b"))
	p.server.Stop()
	next(t, n.changed)
	n.want(t, res, 2, 0)
	err := n.allocate(t.Context(), pod("u", asks("x", "1")))
	if err == nil || !strings.Contains(err.Error(), "no healthy devices present; cannot allocate unhealthy devices example.com/thing") {
		t.Errorf("got %v", err)
	}
	p = n.plug(t, res, &fakePlugin{}, list("a b c"))
	n.want(t, res, 3, 3)
	// Another takes its place before it has ended.
	n.plug(t, res, &fakePlugin{}, list("d"))
	n.want(t, res, 1, 1)
	p.server.Stop()
	if err := n.allocate(t.Context(), pod("u", asks("x", "1"))); err != nil || !slices.Equal(n.ids("u", "x", res), []string{"d"}) {
		t.Errorf("%v, %v", err, n.ids("u", "x", res))
	}
	n.Manager.mu.Lock()
	last := n.inUse(res)
	n.Manager.mu.Unlock()
	last.leave()
	next(t, n.changed)
	n.clock.Step(grace - time.Second)
	n.want(t, res, 1, 0)
	n.clock.Step(time.Second)
	n.want(t, res, 0, 0)
}

// One of two plugins of a resource waits while the other is in use, and has it again when that has gone.
func TestManager_TwoPlugins(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	older := n.plug(t, res, &fakePlugin{}, list("a b"))
	newer := n.plug(t, res, &fakePlugin{socket: "newer"}, list("c d e"))
	n.want(t, res, 3, 3)
	older.lists <- list("b")
	newer.lists <- list("c d")
	for !n.shows(res, list("c d")) {
		next(t, n.changed)
	}
	newer.server.Stop()
	for !n.shows(res, list("b")) {
		next(t, n.changed)
	}
	n.want(t, res, 1, 1)
	if err := n.allocate(t.Context(), pod("u", asks("x", "1"))); err != nil || !slices.Equal(n.ids("u", "x", res), []string{"b"}) {
		t.Errorf("%v, %v", err, n.ids("u", "x", res))
	}
	older.server.Stop()
	for n.healthy(res) > 0 {
		next(t, n.changed)
	}
	n.want(t, res, 1, 0)
}

// Of a plugin that is in use again and has told of nothing yet nobody gets devices that are another's.
func TestManager_SilentPlugin(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	silent := n.join(t, res, &fakePlugin{})
	n.plug(t, res, &fakePlugin{socket: "newer"}, list("a")).server.Stop()
	for n.healthy(res) > 0 {
		next(t, n.changed)
	}
	n.want(t, res, 1, 0)
	silent.lists <- list("b c")
	for !n.shows(res, list("b c")) {
		next(t, n.changed)
	}
	n.want(t, res, 2, 2)
}

// What is to be prepared before each start does not start while nobody can do that.
func TestManager_PreparerGoes(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	prepares := &devicepluginv1beta1.DevicePluginOptions{PreStartRequired: true}
	p := n.plug(t, res, &fakePlugin{options: prepares}, list("a"))
	if err := n.allocate(t.Context(), pod("u", asks("x", "1"))); err != nil {
		t.Fatal(err)
	}
	p.server.Stop()
	next(t, n.changed)
	n.want(t, res, 1, 0)
	const want = "device plugin PreStartContainer rpc failed with err: endpoint of example.com/thing has been stopped"
	if _, err := n.Container(t.Context(), "u", "x"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	n.plug(t, res, &fakePlugin{options: prepares}, list("a"))
	if _, err := n.Container(t.Context(), "u", "x"); err != nil {
		t.Errorf("once it is back: %v", err)
	}
}

func TestManager_Refuses(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	outside := t.TempDir()
	for _, tc := range []struct {
		name, version, resource, endpoint, want string
	}{
		{name: "version", version: "v1alpha", resource: res, endpoint: "s", want: `requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]`},
		{name: "resource of Kubernetes", version: "v1beta1", resource: "cpu", endpoint: "s", want: `the ResourceName "cpu" is invalid`},
		{name: "resource in its domain", version: "v1beta1", resource: "x.kubernetes.io/y", endpoint: "s", want: "is invalid"},
		{name: "resource of a quota", version: "v1beta1", resource: "requests.example.com/y", endpoint: "s", want: "is invalid"},
		{name: "no resource", version: "v1beta1", resource: "a/b/c", endpoint: "s", want: "is invalid"},
		{name: "socket elsewhere", version: "v1beta1", resource: res, endpoint: "../../" + filepath.Base(outside) + "/s", want: "openat2"},
		{name: "socket by its path", version: "v1beta1", resource: res, endpoint: filepath.Join(outside, "s"), want: "openat2"},
		{name: "no socket", version: "v1beta1", resource: res, endpoint: "none", want: "no such file"},
		{name: "the kubelet's own", version: "v1beta1", resource: res, endpoint: "kubelet.sock", want: "failed to get device plugin options"},
	} {
		err := n.register(t, &devicepluginv1beta1.RegisterRequest{Version: tc.version, ResourceName: tc.resource, Endpoint: tc.endpoint})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if all, _ := n.Resources(); len(all) > 0 {
		t.Errorf("resources: %v", all)
	}
}

// A plugin that hangs holds up nobody but who needs it, what was chosen meanwhile is not given twice, and it is free again when
// the plugin fails.
func TestManager_Hangs(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	slow := n.plug(t, res, &fakePlugin{hang: make(chan struct{})}, list("a"))
	n.plug(t, "example.com/other", &fakePlugin{}, list("o"))
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- n.allocate(ctx, pod("u", asks("x", "1"))) }()
	next(t, slow.hang)
	other := corev1.Container{Name: "x", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.com/other": resource.MustParse("1")}}}
	if err := n.allocate(t.Context(), pod("v", other)); err != nil {
		t.Error(err)
	}
	if err := n.allocate(t.Context(), pod("w", asks("x", "1"))); err == nil || !strings.Contains(err.Error(), "Available: 0") {
		t.Errorf("a device is given twice: %v", err)
	}
	cancel()
	if err := next(t, waits); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	bad := n.plug(t, res, &fakePlugin{err: errors.New("broken")}, list("a"))
	if err := n.allocate(t.Context(), pod("u", asks("x", "1"))); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
	bad.server.Stop()
	n.plug(t, res, &fakePlugin{}, list("a"))
	if err := n.allocate(t.Context(), pod("w", asks("x", "1"))); err != nil {
		t.Error(err)
	}
}

// Devices of pods that left the node while no kubelet ran are free, those of pods that still have containers are not, and
// neither are pods that run given anything.
func TestManager_Leftovers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	n := start(t, root)
	n.plug(t, res, &fakePlugin{}, list("a b c"))
	for _, uid := range []types.UID{"gone", "ending"} {
		if err := n.allocate(t.Context(), pod(uid, asks("x", "1"))); err != nil {
			t.Fatal(err)
		}
	}
	n.stop()
	n = start(t, root)
	defer n.stop()
	n.mu.Lock()
	n.gone["gone"], n.gone["ending"], n.made["ending"], n.made["before"] = true, true, true, true
	n.mu.Unlock()
	n.plug(t, res, &fakePlugin{}, list("a b c"))
	if err := n.allocate(t.Context(), pod("before", asks("x", "1"))); err != nil || n.ids("before", "x", res) != nil {
		t.Errorf("one that runs: %v, %v", err, n.ids("before", "x", res))
	}
	if err := n.allocate(t.Context(), pod("new", asks("x", "2"))); err != nil || !slices.Equal(n.ids("new", "x", res), []string{"a", "c"}) {
		t.Errorf("%v, %v", err, n.ids("new", "x", res))
	}
}

// TestLife_Returns: of a pod with devices nothing is left after a reboot. It starts when the plugin is back with them, and fails if they
// are not there in time.
func TestLife_Returns(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	n := start(t, root)
	n.plug(t, res, &fakePlugin{}, list("a b"))
	for _, uid := range []types.UID{"u", "v"} {
		if err := n.allocate(t.Context(), pod(uid, asks("x", "1"))); err != nil {
			t.Fatal(err)
		}
	}
	n.stop()
	n = start(t, root)
	defer n.stop()
	var did []string
	inner := &life{}
	equipped := n.Life(inner, func(_ context.Context, p *corev1.Pod, f status.Failure) { did = append(did, p.Name+": "+f.Message) },
		func(_ context.Context, p *corev1.Pod) error { did = append(did, p.Name+" waits"); return nil })
	sync := func(uid types.UID) podworker.Result {
		t.Helper()
		result, err := equipped.Sync(t.Context(), pod(uid, asks("x", "1")))
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if got := sync("u"); got.Requeue == 0 || inner.did != nil {
		t.Errorf("without its plugin: %+v, %v", got, inner.did)
	}
	n.plug(t, res, &fakePlugin{}, list("a", "b"))
	sync("u")
	if diff := cmp.Diff([]string{"sync"}, inner.did); diff != "" {
		t.Errorf("with its plugin: %s", diff)
	}
	if got := sync("v"); got.Requeue == 0 {
		t.Errorf("without its device: %+v", got)
	}
	n.clock.Step(returnPatience)
	sync("v")
	want := []string{"u waits", "v waits", "v: Allocate failed due to previously allocated devices are no longer healthy; cannot allocate unhealthy devices " + res + ", which is unexpected"}
	if diff := cmp.Diff(want, did); diff != "" {
		t.Error(diff)
	}
	if got := n.ids("u", "x", res); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the other has %v", got)
	}
}

func TestManager_Prefers(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	n.plug(t, res, &fakePlugin{options: &devicepluginv1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}, prefers: []string{"d", "none", "b"}}, list("a b c d"))
	if err := n.allocate(t.Context(), pod("u", asks("x", "3"))); err != nil || !slices.Equal(n.ids("u", "x", res), []string{"a", "b", "d"}) {
		t.Errorf("%v, %v", err, n.ids("u", "x", res))
	}
}

// What a container has by a claim is not taken from a plugin of the same resource as well.
func TestManager_Claimed(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	n.plug(t, res, &fakePlugin{}, list("a"))
	p := pod("u", asks("c", "1"), asks("d", "1"))
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: res, RequestName: "r"}},
	}
	provider := Provider{n.Manager}
	for i := range p.Spec.Containers { // there is one device, which d gets
		if err := provider.Allocate(p, &p.Spec.Containers[i], topology.Hint{}); err != nil {
			t.Error(err)
		}
	}
	if hints := provider.Hints(p, &p.Spec.Containers[0]); len(hints) > 0 {
		t.Errorf("what is claimed has hints: %v", hints)
	}
	if err := n.allocate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if c, d := n.ids("u", "c", res), n.ids("u", "d", res); len(c) != 0 || !slices.Equal(d, []string{"a"}) {
		t.Errorf("the containers have %v and %v", c, d)
	}
}

// life notes what is done.
type life struct {
	podworker.Life
	did []string
}

func (l *life) Sync(context.Context, *corev1.Pod) (podworker.Result, error) {
	l.did = append(l.did, "sync")
	return podworker.Result{}, nil
}

func (l *life) Terminate(context.Context, *corev1.Pod, time.Duration) error {
	l.did = append(l.did, "terminate")
	return nil
}

func TestLife(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	n.plug(t, res, &fakePlugin{}, list("a"))
	inner := &life{}
	equipped := n.Life(inner, func(_ context.Context, p *corev1.Pod, f status.Failure) {
		inner.did = append(inner.did, p.Name+" "+f.Reason)
	}, nil)
	for _, step := range []func() error{
		func() error { _, err := equipped.Sync(t.Context(), pod("u", asks("x", "1"))); return err },
		func() error { _, err := equipped.Sync(t.Context(), pod("v", asks("x", "1"))); return err },
		func() error { return equipped.Terminate(t.Context(), pod("u"), 0) },
		func() error { _, err := equipped.Sync(t.Context(), pod("w", asks("x", "1"))); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"sync", "v UnexpectedAdmissionError", "sync", "terminate", "sync"}, inner.did); diff != "" {
		t.Error(diff)
	}
	if got := n.ids("w", "x", res); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	// What cannot be written down does not begin.
	if err := n.release("w"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(n.root); err != nil {
		t.Fatal(err)
	}
	if _, err := equipped.Sync(t.Context(), pod("x", asks("x", "1"))); err == nil || len(inner.did) != 5 {
		t.Errorf("it begins: %v, %v", err, inner.did)
	}
}
