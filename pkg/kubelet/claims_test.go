// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// draDriver is one as a vendor would write it, with the published helper.
type draDriver struct {
	world *world
	// failed has a value when a call has failed.
	failed chan struct{}

	mu sync.Mutex // guards the fields below
	// done are the claims that were prepared (+) and unprepared (-), with the phase of the pod that a claim is named after.
	done []string
	fail error
}

func (d *draDriver) note(what, name string) error {
	pod, err := d.world.client.CoreV1().Pods("ns").Get(context.Background(), strings.TrimSuffix(name, "-claim"), metav1.GetOptions{})
	if err != nil {
		pod = &corev1.Pod{Status: corev1.PodStatus{Phase: "gone"}}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		select {
		case d.failed <- struct{}{}:
		default:
		}
		return d.fail
	}
	d.done = append(d.done, what+name+" "+string(cmp.Or(pod.Status.Phase, corev1.PodPending))) // at first it has none
	return nil
}

func (d *draDriver) fails(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

func (d *draDriver) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.done)
}

func (d *draDriver) want(t *testing.T, done ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.done, done) {
		t.Errorf("done is %q, want %q", d.done, done)
	}
	d.done = nil
}

func (d *draDriver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		out[c.UID] = kubeletplugin.PrepareResult{Err: d.note("+", c.Name), Devices: []kubeletplugin.Device{
			{Requests: []string{"r"}, PoolName: "n1", DeviceName: "a", CDIDeviceIDs: []string{"d.io/c=" + string(c.UID)}},
		}}
	}
	return out, nil
}

func (d *draDriver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	out := map[types.UID]error{}
	for _, c := range claims {
		out[c.UID] = d.note("-", c.Name)
	}
	return out, nil
}

func (d *draDriver) HandleError(context.Context, error, string) {}

func (d *draDriver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func (d *draDriver) start(t *testing.T) {
	t.Helper()
	dir := d.world.dir
	h, err := kubeletplugin.Start(t.Context(), d, kubeletplugin.DriverName("d.io"), kubeletplugin.NodeName("n1"), kubeletplugin.KubeClient(d.world.client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(dir, "plugins_registry")), kubeletplugin.PluginDataDirectoryPath(filepath.Join(dir, "plugins")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
}

// claiming is a pod with a claim, which is allocated and the pod's.
func (w *world) claiming(name string, change func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name + "-claim", UID: types.UID(name + "-uid")}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d.io", Pool: "n1", Device: "a"}},
	}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID("uid-" + name)}}
	if _, err := w.client.ResourceV1().ResourceClaims("ns").Create(w.t.Context(), c, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return newPod(name, func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: &c.Name}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "r"}}
		if change != nil {
			change(p)
		}
	})
}

// A pod waits for the driver of its claim with nothing made of it, keeps what it has got while the kubelet comes and goes, and is told
// to have ended only when the driver has taken all back.
func TestClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{Program: func(c container.ContainerConfig) fake.Program {
		if c.Pod.Name == "job" {
			return func(context.Context, fake.Process) int { return 0 }
		}
		return nil
	}})
	stop := w.start()
	w.create(w.claiming("one", nil))
	const text = "FailedPrepareDynamicResources: Failed to prepare dynamic resources: prepare dynamic resources: DRA driver d.io is not registered"
	if got := w.events("FailedPrepareDynamicResources"); !slices.Contains(got, text) {
		t.Errorf("events: %q", got)
	}
	w.await("waiting", "one", waitingFor("ContainerCreating"))
	if made := w.runtime.Calls("CreateSandbox"); len(made) > 0 {
		t.Errorf("made before its claim was prepared: %v", made)
	}
	d := &draDriver{world: w, failed: make(chan struct{}, 1)}
	d.start(t)
	one := w.await("ready", "one", ready)
	d.want(t, "+one-claim Pending")
	made := w.runtime.Calls("CreateContainer")
	if len(made) != 1 || !slices.Equal(made[0].Arg.(container.ContainerConfig).CDIDevices, []string{"d.io/c=one-uid"}) {
		t.Errorf("containers: %+v", made)
	}
	if got := one.Status.ContainerStatuses[0].AllocatedResourcesStatus; len(got) != 1 || got[0].Name != "claim:r" || got[0].Resources[0].ResourceID != "d.io/c=one-uid" {
		t.Errorf("its devices: %v", got)
	}

	stop()
	stop = w.start()
	w.create(w.claiming("job", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }))
	w.await("succeeded", "job", phase(corev1.PodSucceeded))
	d.mu.Lock()
	last := len(d.done) - 1
	if last < 1 || d.done[0] != "+job-claim Pending" || !strings.HasPrefix(d.done[last], "-job-claim ") || strings.HasSuffix(d.done[last], "Succeeded") {
		t.Errorf("done is %q", d.done)
	}
	d.done = nil
	d.mu.Unlock()
	if again := w.await("ready", "one", ready); again.Status.ContainerStatuses[0].ContainerID != one.Status.ContainerStatuses[0].ContainerID {
		t.Error("the pod was started again")
	}

	// The driver fails to take it back until it does.
	d.fails(errors.New("not now"))
	w.remove("one")
	select {
	case <-d.failed:
	case <-time.After(20 * time.Second):
		t.Fatal("it is not taken back")
	}
	if p := w.await("there", "one", func(p *corev1.Pod) bool { return p != nil }); p.Status.Phase != corev1.PodRunning {
		t.Errorf("it is told to be %s", p.Status.Phase)
	}
	d.fails(nil)
	w.await("gone", "one", func(p *corev1.Pod) bool { return p == nil })
	d.want(t, "-one-claim Running")

	// Who is removed from the API while no kubelet runs leaves nothing prepared.
	w.create(w.claiming("two", nil))
	w.await("ready", "two", ready)
	stop()
	if err := w.client.CoreV1().Pods("ns").Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stop = w.start()
	for deadline := time.Now().Add(20 * time.Second); d.count() < 2 && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond)
	}
	d.want(t, "+two-claim Pending", "-two-claim gone")
	stop()
}
