// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// heartbeat is how often kubelets renew their leases.
const heartbeat = 10 * time.Second

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// addNodes makes nodes that are Ready and large enough for all pods.
func addNodes(ctx context.Context, c kubernetes.Interface, n int) error {
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("1000"),
	}
	for i := range n {
		_, err := c.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{corev1.LabelHostname: nodeName(i)}},
			Status: corev1.NodeStatus{Allocatable: size, Capacity: size, Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// beat renews the leases of nodes until ctx ends, as their kubelets would.
func beat(ctx context.Context, c kubernetes.Interface, n int) {
	leases := c.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	have := make([]*coordinationv1.Lease, n)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for i := range have {
			spec := coordinationv1.LeaseSpec{HolderIdentity: new(nodeName(i)), LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: time.Now()}}
			var err error
			if have[i] == nil {
				have[i], err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}, Spec: spec}, metav1.CreateOptions{})
			} else {
				next := have[i].DeepCopy()
				next.Spec = spec
				have[i], err = leases.Update(ctx, next, metav1.UpdateOptions{})
			}
			if err != nil { // a plane that is busy: the next beat comes
				if have[i], err = leases.Get(ctx, nodeName(i), metav1.GetOptions{}); err != nil {
					have[i] = nil
				}
			}
		}
	}, heartbeat)
}
