// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"minik8s.io/minik8s/test/integration/framework"
)

const deviceDriver = "devices.example.com"

// addDevices publishes devices of a node as its driver would.
func addDevices(t *testing.T, node string, count int) {
	t.Helper()
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-devices"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range count {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name:       fmt.Sprintf("d%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: new("small")}},
		})
	}
	slices := cluster.Client.ResourceV1().ResourceSlices()
	if _, err := slices.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := slices.Delete(context.Background(), slice.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// addClass makes a class of the driver's devices.
func addClass(t *testing.T, name string, change ...func(*resourcev1.DeviceClass)) {
	t.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", deviceDriver)}}}
	for _, c := range change {
		c(class)
	}
	classes := cluster.Client.ResourceV1().DeviceClasses()
	if _, err := classes.Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := classes.Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func claimSpec(class string) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: fmt.Sprintf("device.attributes[%q].model == 'small'", deviceDriver),
			}}},
		},
	}}}}
}

func addTemplate(t *testing.T, ns, name, class string) {
	t.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.Spec = claimSpec(class)
	if _, err := cluster.Client.ResourceV1().ResourceClaimTemplates(ns).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func addClaim(t *testing.T, ns, name, class string) {
	t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(class)}
	if _, err := cluster.Client.ResourceV1().ResourceClaims(ns).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func using(claim corev1.PodResourceClaim) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		claim.Name = "device"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{claim}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
	}
}

func remove(t *testing.T, ns, name string) {
	t.Helper()
	now := int64(0)
	if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// holders watches who has which device, and remembers when one was given twice.
type holders struct {
	mu    sync.Mutex
	claim map[string]types.UID // by device
	twice []string
	most  int
}

func (h *holders) see(event watch.EventType, c *resourcev1.ResourceClaim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for device, uid := range h.claim {
		if uid == c.UID && (event == watch.Deleted || c.Status.Allocation == nil) {
			delete(h.claim, device)
		}
	}
	if event == watch.Deleted || c.Status.Allocation == nil {
		return
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		device := r.Pool + "/" + r.Device
		if uid, ok := h.claim[device]; ok && uid != c.UID {
			h.twice = append(h.twice, fmt.Sprintf("%s has %s of %s", c.Name, device, uid))
		}
		h.claim[device] = c.UID
	}
	h.most = max(h.most, len(h.claim))
}

// Sixty pods want one of twelve devices each, on two nodes: no device is given twice, and each pod runs when its turn has come.
func TestDevices_Race(t *testing.T) {
	const pods, perNode = 60, 6
	ns := cluster.Namespace(t)
	h := &holders{claim: map[string]types.UID{}}
	defer framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return cluster.Client.ResourceV1().ResourceClaims(ns).Watch(ctx, metav1.ListOptions{})
	}, h.see)()
	addNodes(t, framework.FakeNode{Name: "left"}, framework.FakeNode{Name: "right"})
	addDevices(t, "left", perNode)
	addDevices(t, "right", perNode)
	addClass(t, "race")
	addTemplate(t, ns, "template", "race")
	for i := range pods {
		pod(t, ns, fmt.Sprintf("p%d", i), "1m", using(corev1.PodResourceClaim{ResourceClaimTemplateName: new("template")}))
	}
	ran := map[string]bool{}
	framework.Eventually(t, "each pod has run", func() error {
		list, err := cluster.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				ran[p.Name] = true
				remove(t, ns, p.Name)
			}
		}
		if len(ran) < pods {
			return fmt.Errorf("%d of %d have", len(ran), pods)
		}
		return nil
	})
	framework.Eventually(t, "all claims are gone", func() error {
		list, err := cluster.Client.ResourceV1().ResourceClaims(ns).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.twice) > 0 {
		t.Errorf("devices were given twice: %v", h.twice)
	}
	if h.most == 0 || h.most > 2*perNode {
		t.Errorf("%d devices were in use at most", h.most)
	}
}

// Pods share a claim where its device is. It is free for another claim when the last of them has gone.
func TestDevices_SharedClaim(t *testing.T) {
	ns := cluster.Namespace(t)
	addNodes(t, framework.FakeNode{Name: "left"}, framework.FakeNode{Name: "right"})
	addDevices(t, "right", 1)
	addClass(t, "shared")
	addClaim(t, ns, "one", "shared")
	addClaim(t, ns, "two", "shared")
	names := []string{"a", "b", "c"}
	for _, name := range names {
		pod(t, ns, name, "1m", using(corev1.PodResourceClaim{ResourceClaimName: new("one")}))
	}
	for _, name := range names {
		if got := node(t, ns, name); got != "right" {
			t.Errorf("pod %s is on %q", name, got)
		}
	}
	claim, err := cluster.Client.ResourceV1().ResourceClaims(ns).Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || len(claim.Status.ReservedFor) != len(names) || claim.Status.Allocation.AllocationTimestamp == nil {
		t.Errorf("the claim has %+v, %v", claim.Status, err)
	}
	pod(t, ns, "late", "1m", using(corev1.PodResourceClaim{ResourceClaimName: new("two")}))
	unschedulable(t, ns, "late", "0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
	for _, name := range names {
		remove(t, ns, name)
	}
	node(t, ns, "late")
	framework.Eventually(t, "the first claim has no device", func() error {
		claim, err := cluster.Client.ResourceV1().ResourceClaims(ns).Get(t.Context(), "one", metav1.GetOptions{})
		if err == nil && claim.Status.Allocation != nil {
			return errors.New("it has one")
		}
		return err
	})
}

// A pod waits for each thing that is missing, says so, and goes on when it is there.
func TestDevices_Waits(t *testing.T) {
	ns := cluster.Namespace(t)
	addNodes(t, framework.FakeNode{Name: "only"})
	pod(t, ns, "p", "1m", using(corev1.PodResourceClaim{ResourceClaimName: new("claim")}))
	pod(t, ns, "other", "1m")
	node(t, ns, "other")
	addClaim(t, ns, "claim", "late")
	const tail = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
	unschedulable(t, ns, "p", "0/1 nodes are available: request r: device class late does not exist."+tail)
	addClass(t, "late")
	unschedulable(t, ns, "p", "0/1 nodes are available: 1 cannot allocate all claims."+tail)
	addDevices(t, "only", 1)
	node(t, ns, "p")
}

// A device class stands for an extended resource: the scheduler makes a claim for it, and says for which container it is.
func TestDevices_ExtendedResource(t *testing.T) {
	ns := cluster.Namespace(t)
	addNodes(t, framework.FakeNode{Name: "only"})
	addDevices(t, "only", 2)
	addClass(t, "extended", func(c *resourcev1.DeviceClass) { c.Spec.ExtendedResourceName = new("example.com/device") })
	wants := func(p *corev1.Pod) {
		q := framework.Resources("1", "1")[corev1.ResourceCPU]
		p.Spec.Containers[0].Resources.Requests["example.com/device"] = q
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/device": q}
	}
	pod(t, ns, "a", "1m", wants)
	pod(t, ns, "b", "1m", wants)
	node(t, ns, "a")
	node(t, ns, "b")
	p, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status := p.Status.ExtendedResourceClaimStatus
	if status == nil || len(status.RequestMappings) != 1 || !strings.HasPrefix(status.ResourceClaimName, "a-extended-resources-") {
		t.Fatalf("the pod says %+v", status)
	}
	claim, err := cluster.Client.ResourceV1().ResourceClaims(ns).Get(t.Context(), status.ResourceClaimName, metav1.GetOptions{})
	if err != nil || claim.Status.Allocation == nil || claim.Status.Allocation.Devices.Results[0].Request != status.RequestMappings[0].RequestName || len(claim.Status.ReservedFor) != 1 {
		t.Errorf("its claim has %+v, %v", claim.Status, err)
	}
	pod(t, ns, "c", "1m", wants)
	unschedulable(t, ns, "c", "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
	remove(t, ns, "a")
	node(t, ns, "c")
}
