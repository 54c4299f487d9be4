// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/source"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// inspectPatience is how long one leftover may hold up the look at the others.
const inspectPatience = 5 * time.Second

// judge is the node as source.Intake asks it about pods.
type judge Kubelet

var _ source.Node = (*judge)(nil)

func (j *judge) Current() *corev1.Node {
	o, ok, _ := j.nodes.GetStore().GetByKey(j.cfg.NodeName)
	if !ok {
		return nil
	}
	n, _ := o.(*corev1.Node)
	return n
}

func (j *judge) Fetch(ctx context.Context) *corev1.Node {
	n, err := j.cfg.Client.CoreV1().Nodes().Get(ctx, j.cfg.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return n
}

// Admit asks whether the node takes a pod beside those it has.
func (j *judge) Admit(ctx context.Context, pod *corev1.Pod, node *corev1.Node, final bool) bool {
	active := (*Kubelet)(j).active()
	f := admission.Features{AppArmor: j.host.AppArmor(), UnsafeSysctls: j.cfg.Configuration.AllowedUnsafeSysctls, Pressure: (*Kubelet)(j).pressure()}
	r := admission.Admit(pod, node, active, f)
	if r == nil || !final {
		return r == nil
	}
	if victims, ok := admission.Preempt(pod, node, active, f); ok {
		for _, v := range victims {
			(*evictor)(j).preempt(ctx, v)
		}
		return true
	}
	klog.FromContext(ctx).Info("Pod rejected", "pod", klog.KObj(pod), "reason", r.Reason, "message", r.Message)
	j.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, r.Reason, r.Message)
	j.status.Set(pod, status.Rejected(pod, status.Failure{Reason: r.Reason, Message: r.Message}, metav1.NewTime(j.cfg.Clock.Now()).Rfc3339Copy()))
	return false
}

// Allot decides whether a pod that has been resized gets what it asks for.
func (j *judge) Allot(pod, have *corev1.Pod) (*corev1.Pod, bool) {
	others := slices.DeleteFunc((*Kubelet)(j).active(), func(p *corev1.Pod) bool { return p.UID == pod.UID })
	run, pending := allocation.Decide(pod, have, j.Current(), others)
	if j.resizes.Set(pod.UID, pending) && pending != nil {
		klog.Background().V(2).Info("Pod resize waits", "pod", klog.KObj(pod), "reason", pending.Reason, "message", pending.Message)
		j.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "Resize"+pending.Reason, fmt.Sprintf("Pod resize %s: %s", pending.Reason, pending.Message))
	}
	return run, pending != nil
}

func (j *judge) Gone(uid types.UID) { j.status.Forget(uid) }

// tidy has ended what is on the node and belongs to no pod: containers, volumes and cgroups of pods that were removed while no
// kubelet ran. They become pods that are being deleted, and go the way of all pods.
func (k *Kubelet) tidy(ctx context.Context, intake *source.Intake) {
	logger := klog.FromContext(ctx)
	found := map[types.UID]*corev1.Pod{}
	add := func(uid types.UID, namespace, name string) {
		if _, known := k.workers.Stage(uid); !known && found[uid] == nil {
			found[uid] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: namespace, Name: name}}
		}
	}
	for uid, p := range k.pleg.Pods() {
		if _, known := k.workers.Stage(uid); known {
			continue
		}
		// What a pod that has just left the node had may not have been looked at since.
		ictx, cancel := context.WithTimeout(ctx, inspectPatience)
		obs, err := k.pleg.Pod(ictx, uid)
		cancel()
		if err != nil || obs != nil {
			add(uid, p.Namespace, p.Name)
		}
	}
	for _, list := range []func() ([]types.UID, error){k.parts.volumes.Pods, k.parts.cgroups.Pods} {
		uids, err := list()
		if err != nil {
			logger.Error(err, "Looking for leftovers failed")
			continue
		}
		for _, uid := range uids {
			add(uid, "", string(uid))
		}
	}
	for _, pod := range found {
		intake.Leftover(pod)
	}
	keep := map[types.UID]bool{}
	for _, p := range k.workers.Pods() {
		keep[p.UID] = true
	}
	for uid := range found {
		keep[uid] = true // its worker gives them back
	}
	if err := k.parts.hostPorts.Retain(keep); err != nil {
		logger.Error(err, "Withdrawing leftover host ports failed")
	}
}
