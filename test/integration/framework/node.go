// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// FakeNode describes a node whose kubelet is played: it renews its lease, lets the pods bound to it run without doing
// anything, and removes them when they are deleted.
type FakeNode struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// Capacity is also what is allocatable. Default: 8 CPUs, 16 GiB, 110 pods.
	Capacity corev1.ResourceList
	// Ready says whether a running pod is ready; it is asked at every change and at Node.Resync. Default: it is.
	Ready func(*corev1.Pod) bool
	// Heartbeat is the time between two renewals of the lease. Default: one second.
	Heartbeat time.Duration
}

// leaseDuration is a kubelet's.
const leaseDuration = 40 * time.Second

// Node is a FakeNode that runs.
type Node struct {
	Name string

	spec    FakeNode
	number  int
	client  kubernetes.Interface
	lister  corev1listers.PodLister
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	synced  cache.InformerSynced
	shared  informers.SharedInformerFactory
	lastPod atomic.Int32
	stop    func() error
}

// AddNode runs a node until the test ends, which also removes its object.
func (c *Cluster) AddNode(tb testing.TB, spec FakeNode) *Node {
	tb.Helper()
	n, err := c.StartNode(spec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := n.Stop(); err != nil {
			tb.Error(err)
		}
		if err := c.Client.CoreV1().Nodes().Delete(context.Background(), n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			tb.Error(err)
		}
	})
	return n
}

// StartNode registers the node and runs it until the cluster stops.
func (c *Cluster) StartNode(spec FakeNode) (*Node, error) {
	if spec.Capacity == nil {
		spec.Capacity = Resources("8", "16Gi")
	}
	if spec.Ready == nil {
		spec.Ready = func(*corev1.Pod) bool { return true }
	}
	if spec.Heartbeat == 0 {
		spec.Heartbeat = time.Second
	}
	client, err := kubernetes.NewForConfig(c.User("system:node:"+spec.Name, "system:nodes"))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.nodes++
	n := &Node{Name: spec.Name, spec: spec, number: c.nodes, client: client}
	c.mu.Unlock()
	own := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", spec.Name).String()
	})
	n.shared = informers.NewSharedInformerFactoryWithOptions(client, 0, own)
	pods := n.shared.Core().V1().Pods()
	n.lister = pods.Lister()
	n.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](10*time.Millisecond, time.Second))
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			n.queue.Add(key)
		}
	}
	registration, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }})
	if err != nil {
		return nil, err
	}
	n.synced = registration.HasSynced
	if err := n.register(context.Background()); err != nil {
		return nil, fmt.Errorf("registering node %q: %w", n.Name, err)
	}
	n.stop = c.run("node "+n.Name, n.run)
	return n, nil
}

// Stop lets the node fall silent, as when its machine loses power. Its object stays.
func (n *Node) Stop() error { return n.stop() }

// Resources is a capacity with room for 110 pods.
func Resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110"),
	}
}

func (n *Node) register(ctx context.Context) error {
	labels := map[string]string{corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	maps.Copy(labels, n.spec.Labels)
	_, err := n.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: n.spec.Taints},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := n.report(ctx); err != nil {
		return err
	}
	return n.renew(ctx)
}

// report says that the node is well.
func (n *Node) report(ctx context.Context) error {
	status := corev1.NodeStatus{
		Capacity: n.spec.Capacity, Allocatable: n.spec.Capacity,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.hostIP()}, {Type: corev1.NodeHostName, Address: n.Name}},
	}
	now := metav1.Now()
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"},
	} {
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		status.Conditions = append(status.Conditions, c)
	}
	// A patch, because controllers may be at work on the node already.
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Nodes().PatchStatus(ctx, n.Name, patch)
	return err
}

// beat renews the lease, and reports again if somebody thought the node dead.
func (n *Node) beat(ctx context.Context) error {
	if err := n.renew(ctx); err != nil {
		return err
	}
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil // removed by an administrator
		}
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return n.report(ctx)
}

func (n *Node) hostIP() string { return fmt.Sprintf("192.0.2.%d", n.number+1) }

func (n *Node) renew(ctx context.Context) error {
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	spec := coordinationv1.LeaseSpec{HolderIdentity: new(n.Name), LeaseDurationSeconds: new(int32(leaseDuration.Seconds())), RenewTime: new(metav1.NowMicro())}
	lease, err := leases.Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// run plays the kubelet until ctx ends.
func (n *Node) run(ctx context.Context) error {
	defer n.queue.ShutDown() // also when ctx ends before there is a worker
	n.shared.Start(ctx.Done())
	defer n.shared.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), n.synced) {
		return ctx.Err()
	}
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		for n.next(ctx) {
		}
	}()
	defer func() {
		n.queue.ShutDown()
		<-worked
	}()
	ticker := time.NewTicker(n.spec.Heartbeat)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			switch err := n.beat(ctx); {
			case err == nil:
				last = time.Now()
			case ctx.Err() == nil && time.Since(last) > leaseDuration: // one that is refused, by a full store, is followed by the next
				return fmt.Errorf("no heartbeat for %s: %w", leaseDuration, err)
			}
		}
	}
}

func (n *Node) next(ctx context.Context) bool {
	key, down := n.queue.Get()
	if down {
		return false
	}
	defer n.queue.Done(key)
	if err := n.sync(ctx, key); err != nil && ctx.Err() == nil {
		n.queue.AddRateLimited(key)
		return true
	}
	n.queue.Forget(key)
	return true
}

// sync does with a pod what a kubelet would, as far as the API shows it.
func (n *Node) sync(ctx context.Context, key cache.ObjectName) error {
	cached, err := n.lister.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	pods := n.client.CoreV1().Pods(key.Namespace)
	if cached.DeletionTimestamp != nil {
		err := pods.Delete(ctx, key.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(cached.UID))})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // gone, or another one by now
		}
		return err
	}
	if cached.Status.Phase == corev1.PodSucceeded || cached.Status.Phase == corev1.PodFailed {
		return nil
	}
	pod := cached.DeepCopy()
	if !n.observe(pod) {
		return nil
	}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// observe writes the state of a running pod into its status and reports a change.
func (n *Node) observe(pod *corev1.Pod) bool {
	ready := corev1.ConditionFalse
	if n.spec.Ready(pod) {
		ready = corev1.ConditionTrue
	}
	changed := false
	if pod.Status.Phase != corev1.PodRunning {
		changed = true
		last := n.lastPod.Add(1)
		ip := fmt.Sprintf("10.%d.%d.%d", n.number, last>>8, last&0xff)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		pod.Status.HostIP, pod.Status.HostIPs = n.hostIP(), []corev1.HostIP{{IP: n.hostIP()}}
		pod.Status.StartTime = new(metav1.Now())
	}
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status := ready
		if t == corev1.PodInitialized {
			status = corev1.ConditionTrue
		}
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
		if i >= 0 && pod.Status.Conditions[i].Status == status {
			continue
		}
		changed = true
		c := corev1.PodCondition{Type: t, Status: status, LastTransitionTime: metav1.Now()}
		if i >= 0 {
			pod.Status.Conditions[i] = c
		} else {
			pod.Status.Conditions = append(pod.Status.Conditions, c)
		}
	}
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: ready == corev1.ConditionTrue, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ptr.Deref(pod.Status.StartTime, metav1.Now())}},
		})
	}
	return changed
}
