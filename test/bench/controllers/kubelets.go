// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1apply "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// playKubelets makes nodes and lets their pods run, those of Jobs to their end, until ctx is over. Pods of Jobs need no node.
func playKubelets(ctx context.Context, k *controlPlane, scale float64) error {
	if err := makeNamespace(ctx, k, scale); err != nil {
		return err
	}
	if err := k.makeNodes(ctx, part(fakeNodes, scale)); err != nil {
		return err
	}
	go k.beat(ctx, part(fakeNodes, scale))
	if err := k.settle(ctx, part(fakeNodes, scale)); err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactoryWithOptions(k.client, 0, informers.WithNamespace(namespace))
	pods := shared.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			queue.Add(key)
		}
	}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }}); err != nil {
		return err
	}
	shared.Start(ctx.Done())
	context.AfterFunc(ctx, queue.ShutDown)
	for range writes {
		go func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				pod, err := pods.Lister().Pods(key.Namespace).Get(key.Name)
				if err == nil {
					err = k.advance(ctx, pod.DeepCopy())
				}
				if err == nil || apierrors.IsNotFound(err) {
					queue.Forget(key)
				} else {
					queue.AddRateLimited(key)
				}
				queue.Done(key)
			}
		}()
	}
	return nil
}

// makeNodes makes nodes that are ready.
func (k *controlPlane) makeNodes(ctx context.Context, n int) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		now := metav1.Now()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now},
		}}}
		_, err := k.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

// fallSilent makes nodes with pods that run, lets the nodes say nothing more, and waits until the manager has noted that of the
// last node and the last pod.
func fallSilent(ctx context.Context, k *controlPlane, scale float64) error {
	if err := makeNamespace(ctx, k, scale); err != nil {
		return err
	}
	nodes := part(fakeNodes, scale)
	if err := k.makeNodes(ctx, nodes); err != nil {
		return err
	}
	alive, silence := context.WithCancel(ctx)
	defer silence()
	go k.beat(alive, nodes)
	if err := k.settle(ctx, nodes); err != nil {
		return err
	}
	err := each(ctx, nodes*podsPerSilentNode, func(ctx context.Context, i int) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)}, Spec: podSpec()}
		pod.Spec.NodeName = nodeName(i % nodes)
		pod, err := k.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return k.advance(ctx, pod)
	})
	if err != nil {
		return err
	}
	silence()
	return wait.PollUntilContextTimeout(ctx, 2*time.Second, 15*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := k.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		ready := slices.ContainsFunc(list.Items, func(p corev1.Pod) bool {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		})
		return !ready && len(list.Items) == nodes*podsPerSilentNode, nil
	})
}

// settle waits until the manager has found so many nodes ready: what it has to do for new nodes is not what is measured.
func (k *controlPlane) settle(ctx context.Context, nodes int) error {
	return until(ctx, nodes, func(ctx context.Context) (int, error) {
		list, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		settled := 0
		for i := range list.Items {
			if len(list.Items[i].Spec.Taints) == 0 {
				settled++
			}
		}
		return settled, nil
	})
}

// beat renews the leases of the nodes until ctx is over; without, their pods would become unready after a while.
func (k *controlPlane) beat(ctx context.Context, nodes int) {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		_ = each(ctx, nodes, func(ctx context.Context, i int) error { // the next beat makes up for one that is missed
			spec := coordinationv1apply.LeaseSpec().WithHolderIdentity(nodeName(i)).WithRenewTime(metav1.NowMicro())
			lease := coordinationv1apply.Lease(nodeName(i), corev1.NamespaceNodeLease).WithSpec(spec)
			_, err := leases.Apply(ctx, lease, metav1.ApplyOptions{FieldManager: "kubelet", Force: true})
			return err
		})
	}, 10*time.Second)
}

// advance takes a pod one step on, as its kubelet would.
func (k *controlPlane) advance(ctx context.Context, pod *corev1.Pod) error {
	pods := k.client.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		return pods.Delete(ctx, pod.Name, now)
	}
	phase := corev1.PodRunning
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		phase = corev1.PodSucceeded
	}
	if pod.Status.Phase == phase || phase == corev1.PodRunning && pod.Spec.NodeName == "" {
		return nil
	}
	now := metav1.NewTime(time.Now())
	pod.Status.Phase = phase
	pod.Status.StartTime = &now
	if phase == corev1.PodRunning {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	}
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}
