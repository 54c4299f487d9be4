// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	draDriverName = "dra.e2e.minik8s.io"
	// cdiDir is where the kubelet looks for what drivers say of their devices.
	cdiDir = "/var/run/cdi"
)

// draDriver is one as a vendor would write it, with the published helper: a container gets a variable and a device node.
type draDriver struct {
	node string
	// asked has a value for each claim that is to be unprepared while hang is not nil.
	asked chan struct{}

	mu   sync.Mutex // guards the fields below
	done []string
	hang chan struct{}
}

func (d *draDriver) spec(claim types.UID) string {
	return filepath.Join(cdiDir, draDriverName+"-"+string(claim)+".json")
}

// draSpecs are the files of prepared claims.
func draSpecs() ([]string, error) {
	return filepath.Glob(filepath.Join(cdiDir, draDriverName+"-*.json"))
}

func removeDRASpecs(t *testing.T) {
	t.Helper()
	left, err := draSpecs()
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		t.Error(err)
	}
}

func (d *draDriver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		text := fmt.Sprintf(`{"cdiVersion": "0.6.0", "kind": "%s/claim", "devices": [{"name": "%s", "containerEdits": {
			"env": ["DRA_DEVICE=%s"], "deviceNodes": [{"path": "/dev/given", "hostPath": "/dev/null", "permissions": "rw"}]}}]}`,
			draDriverName, c.UID, c.Status.Allocation.Devices.Results[0].Device)
		err := os.MkdirAll(cdiDir, 0o755)
		if err == nil {
			err = os.WriteFile(d.spec(c.UID), []byte(text), 0o600)
		}
		d.note("+")
		out[c.UID] = kubeletplugin.PrepareResult{Err: err, Devices: []kubeletplugin.Device{{
			Requests: []string{"r"}, PoolName: d.node, DeviceName: "a", CDIDeviceIDs: []string{draDriverName + "/claim=" + string(c.UID)},
		}}}
	}
	return out, nil
}

func (d *draDriver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	hang := d.hang
	d.mu.Unlock()
	if hang != nil {
		d.asked <- struct{}{}
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out := map[types.UID]error{}
	for _, c := range claims {
		err := os.Remove(d.spec(c.UID))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		d.note("-")
		out[c.UID] = err
	}
	return out, nil
}

func (d *draDriver) HandleError(context.Context, error, string) {}

// WatchHealthStatus tells once more before what was told before is forgotten.
func (d *draDriver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		report := kubeletplugin.DeviceHealthReport{Devices: []kubeletplugin.DeviceHealth{{PoolName: d.node, DeviceName: "a", Health: kubeletplugin.HealthStatusHealthy}}}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case reports <- report:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (d *draDriver) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, what)
}

func (d *draDriver) want(t *testing.T, done ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.done, done) {
		t.Errorf("the driver has done %q, want %q", d.done, done)
	}
}

// draDriver starts a driver that finds the kubelet's directory in the cluster's.
func (k *kube) draDriver(t *testing.T, node string) *draDriver {
	t.Helper()
	removeDRASpecs(t) // of a run that was killed
	root := filepath.Join(k.DataDir, "kubelet")
	d := &draDriver{node: node, asked: make(chan struct{}, 100)}
	own := filepath.Join(root, "plugins", draDriverName)
	if err := os.MkdirAll(own, 0o750); err != nil {
		t.Fatal(err)
	}
	helper, err := kubeletplugin.Start(context.WithoutCancel(t.Context()), d, kubeletplugin.DriverName(draDriverName), kubeletplugin.NodeName(node), kubeletplugin.KubeClient(k.client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(root, "plugins_registry")), kubeletplugin.PluginDataDirectoryPath(own))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		helper.Stop()
		removeDRASpecs(t)
		_ = os.Remove(cdiDir) // unless others use it
	})
	if err := helper.PublishResources(t.Context(), resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		node: {Slices: []resourceslice.Slice{{Devices: []resourcev1.Device{{Name: "a"}}}}},
	}}); err != nil {
		t.Fatal(err)
	}
	return d
}

// slice waits for what the driver tells of its devices, another one than before.
func (k *kube) slice(t *testing.T, before types.UID) types.UID {
	t.Helper()
	var found types.UID
	eventually(t, 60*time.Second, "a new ResourceSlice", func(ctx context.Context) error {
		list, err := k.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourcev1.ResourceSliceSelectorDriver + "=" + draDriverName})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].UID == before {
			return fmt.Errorf("there are %d, before there was %q", len(list.Items), before)
		}
		found = list.Items[0].UID
		return nil
	})
	return found
}

// claimingPod runs on the node with a claim of its own, whoever allocates that.
func claimingPod(node string) *corev1.Pod {
	seconds := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "claiming"},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &seconds,
			ResourceClaims: []corev1.PodResourceClaim{{Name: "device", ResourceClaimTemplateName: new("template")}},
			Containers: []corev1.Container{{
				Name: "c", Image: frontendImage, Command: []string{"/guestbook", "static", "/"},
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "device"}}},
			}},
		},
	}
}

// allocate gives the device to the claim that was made for the pod, as a scheduler would.
func (k *kube) allocate(t *testing.T, ns, pod, node string) {
	t.Helper()
	eventually(t, 30*time.Second, "the claim of "+pod, func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.Status.ResourceClaimStatuses) == 0 {
			return errors.New("it has none")
		}
		c, err := k.client.ResourceV1().ResourceClaims(ns).Get(ctx, *p.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: draDriverName, Pool: node, Device: "a"}},
		}}
		_, err = k.client.ResourceV1().ResourceClaims(ns).UpdateStatus(ctx, c, metav1.UpdateOptions{})
		return err
	})
}

// A driver of dynamic resource allocation, as its users write it, gives a variable and a device to a container. Both outlive the
// process; a kubelet that is killed while they are taken back has that done by the next one, before the pod goes.
func TestDRA(t *testing.T) {
	k := up(t, newCluster(t, "dra"))
	nodes, err := k.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node := nodes.Items[0].Name
	d := k.draDriver(t, node)
	slice := k.slice(t, "")
	const ns = "default"
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "template"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "class"}}}
	if _, err := k.client.ResourceV1().ResourceClaimTemplates(ns).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.client.CoreV1().Pods(ns).Create(t.Context(), claimingPod(node), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "an event about the claim", func(context.Context) error {
		if out := k.kubectl(t, "get", "events", "-o", "jsonpath={.items[*].reason}"); !strings.Contains(out, "FailedPrepareDynamicResources") {
			return fmt.Errorf("there are %s", out)
		}
		return nil
	})
	d.want(t)
	k.allocate(t, ns, "claiming", node)
	k.kubectl(t, "wait", "pod/claiming", "--for=condition=Ready", "--timeout=60s")
	k.kubectl(t, "wait", "pod/claiming", "--for=jsonpath={.status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health}=Healthy", "--timeout=30s")
	pod, err := k.client.CoreV1().Pods(ns).Get(t.Context(), "claiming", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := pod.Status.ContainerStatuses[0].ContainerID
	out, err := exec.CommandContext(t.Context(), "docker", "inspect", "-f", "{{.State.Pid}}", strings.TrimPrefix(id, "docker://")).Output()
	if err != nil {
		t.Fatal(err)
	}
	variables, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(out)), "environ"))
	if err != nil || !slices.Contains(strings.Split(string(variables), "\x00"), "DRA_DEVICE=a") {
		t.Errorf("its variables: %q, %v", variables, err)
	}
	// The container itself opens the device.
	if text, err := fetch(t.Context(), "GET", "http://"+pod.Status.PodIP+":8080/dev/given", ""); err != nil || text != "" {
		t.Errorf("its device: %q, %v", text, err)
	}

	kill(t, k)
	k = up(t, k.Cluster)
	k.slice(t, slice) // the node's identity may remove the old one
	d.want(t, "+")
	if again := k.kubectl(t, "get", "pod", "claiming", "-o", "jsonpath={.status.containerStatuses[0].containerID}"); again != id {
		t.Errorf("its container is %s, before it was %s", again, id)
	}

	hang := make(chan struct{})
	d.mu.Lock()
	d.hang = hang
	d.mu.Unlock()
	k.kubectl(t, "delete", "pod", "claiming", "--wait=false")
	select {
	case <-d.asked:
	case <-time.After(time.Minute):
		t.Fatal("nobody takes the device back")
	}
	kill(t, k)
	d.mu.Lock()
	d.hang = nil
	d.mu.Unlock()
	d.want(t, "+")
	k = up(t, k.Cluster)
	eventually(t, 60*time.Second, "the pod gone", func(ctx context.Context) error {
		_, err := k.client.CoreV1().Pods(ns).Get(ctx, "claiming", metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	d.want(t, "+", "-")
	close(hang)
	k.schedulesClaim(t, ns)
	d.want(t, "+", "-", "+", "-")
	if left, err := draSpecs(); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// schedulesClaim runs a pod for which the scheduler chooses the node and the device.
func (k *kube) schedulesClaim(t *testing.T, ns string) {
	t.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", draDriverName)}}}
	pod := claimingPod("")
	pod.Name = "scheduled"
	if _, err := k.client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the pod waits for its class", func(context.Context) error {
		out := k.kubectl(t, "-n", ns, "get", "pod", "scheduled", "-o", `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`)
		if !strings.Contains(out, `device class class does not exist`) {
			return fmt.Errorf("its condition says %q", out)
		}
		return nil
	})
	if _, err := k.client.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "-n", ns, "wait", "pod/scheduled", "--for=condition=Ready", "--timeout=60s")
	k.kubectl(t, "-n", ns, "delete", "pod", "scheduled", "--timeout=60s")
	eventually(t, 30*time.Second, "no claim", func(ctx context.Context) error {
		claims, err := k.client.ResourceV1().ResourceClaims(ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(claims.Items) > 0 {
			err = fmt.Errorf("%s is there", claims.Items[0].Name)
		}
		return err
	})
}
