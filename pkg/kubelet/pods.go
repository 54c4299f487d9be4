// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
	"minik8s.io/minik8s/pkg/kubelet/internal/pleg"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// source takes the pods of this node until ctx ends: from the API, or until that answers from the checkpoints.
func (k *Kubelet) source(ctx context.Context, snap *pleg.Snapshot) {
	logger := klog.FromContext(ctx)
	kept, err := k.store.Load()
	if err != nil {
		logger.Error(err, "Some pod checkpoints are lost")
	}
	reg, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.changed(ctx, o) },
		UpdateFunc: func(_, o any) { k.changed(ctx, o) },
		DeleteFunc: func(o any) { k.deleted(ctx, o) },
	})
	if err != nil {
		logger.Error(err, "Watching pods failed")
		return
	}
	synced := func() bool { return reg.HasSynced() && k.nodes.HasSynced() && k.services.HasSynced() }
	patience, cancel := context.WithTimeout(ctx, apiPatience)
	inTime := cache.WaitForCacheSync(patience.Done(), synced)
	cancel()
	if ctx.Err() != nil {
		return
	}
	running := map[types.UID]bool{}
	for uid := range snap.Pods {
		running[uid] = true
	}
	if !inTime {
		logger.Info("API server does not answer, running the pods of the checkpoints", "pods", len(kept))
		k.mu.Lock()
		for _, p := range kept {
			k.workers.Update(p)
		}
		k.mu.Unlock()
		if !cache.WaitForCacheSync(ctx.Done(), synced) {
			return
		}
	}
	k.begin(ctx, kept, running)
	k.tidy(ctx)
	for k.sleep(ctx, housekeeping) {
		k.tidy(ctx)
	}
}

// begin takes all pods of the API at once, those that run already first and then by age, because that decides who is
// admitted; and ends those of the checkpoints that the API no longer has.
func (k *Kubelet) begin(ctx context.Context, kept []*corev1.Pod, running map[types.UID]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = true
	var pods []*corev1.Pod
	known := map[types.UID]bool{}
	for _, o := range k.pods.GetStore().List() {
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName == k.cfg.NodeName {
			pods = append(pods, p)
			known[p.UID] = true
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if running[a.UID] != running[b.UID] {
			if running[a.UID] {
				return -1
			}
			return 1
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	for _, p := range pods {
		k.take(ctx, p, running[p.UID])
	}
	for _, p := range kept {
		if !known[p.UID] {
			if p.DeletionTimestamp == nil {
				p.DeletionTimestamp = &metav1.Time{Time: k.cfg.Clock.Now()}
			}
			k.workers.Update(p)
			k.workers.Remove(p)
		}
	}
}

// changed is called for each new form of a pod in the API.
func (k *Kubelet) changed(ctx context.Context, o any) {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != k.cfg.NodeName {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open {
		k.take(ctx, pod, false)
	}
}

// deleted is called when a pod has left the API.
func (k *Kubelet) deleted(ctx context.Context, o any) {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != k.cfg.NodeName {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open {
		return
	}
	delete(k.rejected, pod.UID)
	if _, ok := k.workers.Stage(pod.UID); !ok {
		k.status.Forget(pod.UID)
		return
	}
	// A kubelet that is killed now must not start the pod again from its checkpoint.
	if pod.DeletionTimestamp == nil {
		gone := pod.DeepCopy()
		gone.DeletionTimestamp = &metav1.Time{Time: k.cfg.Clock.Now()}
		k.save(ctx, gone)
	}
	k.workers.Remove(pod)
}

// take gives a pod to its worker, after asking whether the node takes it if it is new. Callers hold mu.
func (k *Kubelet) take(ctx context.Context, pod *corev1.Pod, running bool) {
	_, known := k.workers.Stage(pod.UID)
	if !known && !running && pod.DeletionTimestamp == nil && !podspec.IsTerminal(pod) {
		if k.rejected[pod.UID] {
			return // its status is on the way
		}
		if r := k.admit(ctx, pod); r != nil {
			klog.FromContext(ctx).Info("Pod rejected", "pod", klog.KObj(pod), "reason", r.Reason, "message", r.Message)
			k.rejected[pod.UID] = true
			k.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, r.Reason, r.Message)
			k.status.Set(pod, status.Rejected(pod, status.Failure{Reason: r.Reason, Message: r.Message}, metav1.NewTime(k.cfg.Clock.Now()).Rfc3339Copy()))
			return
		}
	}
	k.save(ctx, pod)
	k.workers.Update(pod)
}

// admit asks whether the node takes a pod beside those it has.
func (k *Kubelet) admit(ctx context.Context, pod *corev1.Pod) *admission.Refusal {
	var active []*corev1.Pod
	for _, p := range k.workers.Pods() {
		stage, ok := k.workers.Stage(p.UID)
		if !ok || stage >= podworker.Terminated {
			continue
		}
		// The scheduler counts on what a pod has left as soon as its end is reported, which the watch here brings back later.
		newest := *p
		newest.Status = k.status.Base(p)
		if !podspec.IsTerminal(&newest) {
			active = append(active, p)
		}
	}
	n := k.node()
	if n == nil {
		n = k.fetchNode(ctx)
	}
	if n == nil {
		return nil // without its node the pod cannot be judged; it was bound, so it runs
	}
	f := admission.Features{AppArmor: k.host.AppArmor()}
	r := admission.Admit(pod, n, active, f)
	if r != nil {
		// The watch may lag behind a change of the node that made the scheduler choose it.
		if fresh := k.fetchNode(ctx); fresh != nil {
			r = admission.Admit(pod, fresh, active, f)
		}
	}
	return r
}

func (k *Kubelet) node() *corev1.Node {
	o, ok, _ := k.nodes.GetStore().GetByKey(k.cfg.NodeName)
	if !ok {
		return nil
	}
	n, _ := o.(*corev1.Node)
	return n
}

func (k *Kubelet) fetchNode(ctx context.Context) *corev1.Node {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	n, err := k.cfg.Client.CoreV1().Nodes().Get(ctx, k.cfg.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return n
}

// save checkpoints a pod if something but its status has changed. Callers hold mu.
func (k *Kubelet) save(ctx context.Context, pod *corev1.Pod) {
	key, err := json.Marshal([]any{pod.Spec, pod.Labels, pod.Annotations, pod.Generation, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Status.Phase})
	if err == nil && k.saved[pod.UID] == string(key) {
		return
	}
	if err := k.store.Save(pod); err != nil {
		klog.FromContext(ctx).Error(err, "Checkpointing failed")
		return
	}
	k.saved[pod.UID] = string(key)
}

// gone is called when a pod has left the node and the API. It is not called with mu held.
func (k *Kubelet) gone(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.saved, pod.UID)
	if err := k.store.Remove(pod.UID); err != nil {
		klog.Background().Error(err, "Forgetting checkpoint failed")
	}
}

// tidy ends what is on the node and belongs to no pod: containers, volumes and cgroups of pods that were removed while
// no kubelet ran. They become pods that are being deleted, and go the way of all pods.
func (k *Kubelet) tidy(ctx context.Context) {
	logger := klog.FromContext(ctx)
	found := map[types.UID]*corev1.Pod{}
	add := func(uid types.UID, namespace, name string) {
		if found[uid] == nil {
			found[uid] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: namespace, Name: name}}
		}
	}
	// Workers come after listings: a pod that came in between is known then.
	snap, err := k.pleg.Since(ctx, time.Time{})
	if err != nil {
		return
	}
	for uid, p := range snap.Pods {
		add(uid, p.Namespace, p.Name)
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
	keep := map[types.UID]bool{}
	k.mu.Lock()
	for uid, pod := range found {
		if _, ok := k.workers.Stage(uid); ok {
			keep[uid] = true
			continue
		}
		if k.known(uid) {
			continue
		}
		logger.Info("Ending orphaned pod", "pod", klog.KObj(pod), "uid", uid)
		pod.DeletionTimestamp = &metav1.Time{Time: k.cfg.Clock.Now()}
		k.workers.Update(pod)
		k.workers.Remove(pod)
	}
	for _, p := range k.workers.Pods() {
		keep[p.UID] = true
	}
	k.mu.Unlock()
	if err := k.parts.hostPorts.Retain(keep); err != nil {
		logger.Error(err, "Withdrawing leftover host ports failed")
	}
}

// known says whether the API has a pod with this uid on this node. Callers hold mu.
func (k *Kubelet) known(uid types.UID) bool {
	for _, o := range k.pods.GetStore().List() {
		if p, ok := o.(*corev1.Pod); ok && p.UID == uid {
			return true
		}
	}
	return false
}
