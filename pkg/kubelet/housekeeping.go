// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/dra"
	"minik8s.io/minik8s/pkg/kubelet/internal/pleg"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/source"
)

// inspectPatience is how long one leftover may hold up the look at the others.
const inspectPatience = 5 * time.Second

// housekeeper has ended what is on the node and belongs to no pod: containers, volumes, cgroups and claims of pods that were removed
// while no kubelet ran. They become pods that are being deleted, and go the way of all pods.
type housekeeper struct {
	pleg    *pleg.PLEG
	workers *podworker.Workers
	intake  *source.Intake
	parts   *parts
	claims  *dra.Manager
}

// tidy looks for leftovers.
func (h *housekeeper) tidy(ctx context.Context) {
	found := h.leftovers(ctx)
	for _, pod := range found {
		h.intake.Leftover(pod)
	}
	keep := map[types.UID]bool{}
	for _, p := range h.workers.Pods() {
		keep[p.UID] = true
	}
	for uid := range found {
		keep[uid] = true // its worker gives them back
	}
	if err := h.parts.hostPorts.Retain(keep); err != nil {
		klog.FromContext(ctx).Error(err, "Withdrawing leftover host ports failed")
	}
}

func (h *housekeeper) leftovers(ctx context.Context) map[types.UID]*corev1.Pod {
	found := map[types.UID]*corev1.Pod{}
	add := func(uid types.UID, namespace, name string) {
		if _, known := h.workers.Stage(uid); !known && found[uid] == nil {
			found[uid] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: namespace, Name: name}}
		}
	}
	for uid, p := range h.pleg.Pods() {
		if _, known := h.workers.Stage(uid); known {
			continue
		}
		// What a pod that has just left the node had may not have been looked at since.
		ictx, cancel := context.WithTimeout(ctx, inspectPatience)
		obs, err := h.pleg.Pod(ictx, uid)
		cancel()
		if err != nil || obs != nil {
			add(uid, p.Namespace, p.Name)
		}
	}
	for _, list := range []func() ([]types.UID, error){h.parts.volumes.Pods, h.parts.cgroups.Pods, h.claims.Pods} {
		uids, err := list()
		if err != nil {
			klog.FromContext(ctx).Error(err, "Looking for leftovers failed")
			continue
		}
		for _, uid := range uids {
			add(uid, "", string(uid))
		}
	}
	return found
}
