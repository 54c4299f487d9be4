// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package attachdetach asks CSI drivers, by VolumeAttachments, to attach volumes to the nodes of the pods that use them,
// and to detach them when no pod does and the node has unmounted them. Touch it when volumes are attached too late, or
// detached too early.
//
// What is attached is read from the VolumeAttachments at every pass, so a restart forgets nothing but for how long a
// detachment has waited. See https://kubernetes.io/docs/concepts/storage/volumes/#csi and KEP 2268 for nodes that are
// shut down.
package attachdetach

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// unmountTimeout is how long a node that is not Ready may keep a volume that no pod needs, as upstream's
// maxWaitForUnmountDuration.
const unmountTimeout = 6 * time.Minute

// attachTimeout is after how long pods are told, again and again, that nobody attaches their volume, as upstream's csiTimeout.
const attachTimeout = 2 * time.Minute

// ceaseTimeout is how long a driver that needs no attachments any more keeps those it has: a pod may be about to mount by one.
// Upstream looks at its drivers as often as that.
const ceaseTimeout = time.Minute

// Reconciler attaches and detaches the volumes of one node.
type Reconciler struct {
	Client client.Client
	Events record.EventRecorder
	Clock  clock.PassiveClock

	mu      sync.Mutex
	waiting map[string]time.Time // guarded by mu; when a detachment was wanted first, by the name of the attachment
	// refused are the attachments that other nodes are in the way of. Pods are told that once.
	refused last[bool]
	// late is when pods were told last that nobody attaches their volume.
	late last[time.Time]
}

// last has what the last pass about a node has found out about some attachments, by their names. Safe for concurrent use.
type last[V any] struct {
	mu sync.Mutex
	of map[string]map[string]V // guarded by mu; by node
}

func (l *last[V]) on(node string) map[string]V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[node]
}

func (l *last[V]) set(node string, found map[string]V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(found) == 0 {
		delete(l.of, node)
		return
	}
	if l.of == nil {
		l.of = map[string]map[string]V{}
	}
	l.of[node] = found
}

// plan is what a pass does about the attachments of a node.
type plan struct {
	attach []*wanted
	detach []*storagev1.VolumeAttachment
	// report is what the node's status should say.
	report []corev1.AttachedVolume
	// again is when to look again at what waits to be unmounted or attached, zero for never.
	again time.Duration
}

// Reconcile looks at the node in req.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var node *corev1.Node
	found := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, found); err == nil {
		node = found
	} else if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("getting the node: %w", err)
	}
	wants := map[string]*wanted{}
	if managed(node) {
		var err error
		if wants, err = r.wants(ctx, req.Name); err != nil {
			return reconcile.Result{}, err
		}
	}
	p, err := r.plan(ctx, req.Name, node, wants)
	if err != nil {
		return reconcile.Result{}, err
	}
	// The node learns that it may not mount a volume any more before it is detached.
	if err := r.report(ctx, node, p.report, wants); err != nil {
		return reconcile.Result{}, err
	}
	for _, attachment := range p.detach {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, attachment.DeepCopy(), client.Preconditions{UID: &attachment.UID})); err != nil {
			return reconcile.Result{}, fmt.Errorf("detaching %s: %w", attachment.Name, err)
		}
		r.forget(attachment.Name)
	}
	for _, w := range p.attach {
		if err := r.Client.Create(ctx, w.attachment(req.Name)); err != nil && !apierrors.IsAlreadyExists(err) {
			return reconcile.Result{}, fmt.Errorf("attaching volume %q: %w", w.volume.Name, err)
		}
	}
	return reconcile.Result{RequeueAfter: p.again}, nil
}

// plan compares what is wanted on the node, by the name of the attachment, with what there is in the cluster.
func (r *Reconciler) plan(ctx context.Context, name string, node *corev1.Node, wants map[string]*wanted) (plan, error) {
	var p plan
	here, err := r.attachments(ctx, index.AttachedTo(name))
	if err != nil {
		return p, err
	}
	have, late, before := map[string]bool{}, map[string]time.Time{}, r.late.on(name)
	for _, a := range here {
		if a.Spec.Source.PersistentVolumeName == nil {
			continue // of a volume inside a pod, which is not from here
		}
		have[a.Name] = true
		if w := wants[a.Name]; w != nil {
			r.forget(a.Name)
			switch e := a.Status.AttachError; {
			case a.DeletionTimestamp == nil && a.Status.Attached:
				p.report = append(p.report, corev1.AttachedVolume{Name: w.unique})
			case e != nil:
				r.failed(w, e.Message)
			case a.DeletionTimestamp == nil: // else it is on its way out, and is made anew then
				late[a.Name] = r.hurry(w, a, before[a.Name])
				p.lookAfter(attachTimeout - r.Clock.Since(late[a.Name]))
			}
			continue
		}
		if a.DeletionTimestamp != nil {
			continue
		}
		unique, ours, err := r.owned(ctx, a)
		if err != nil {
			return p, err
		}
		if !ours {
			continue
		}
		attaches, err := r.attaches(ctx, a.Spec.Attacher)
		if err != nil {
			return p, err
		}
		since := r.wait(a.Name)
		if mayDetach(node, unique, since) && (attaches || since >= ceaseTimeout) {
			p.detach = append(p.detach, a)
			continue
		}
		if !attaches {
			p.lookAfter(ceaseTimeout - since)
		}
		p.lookAfter(unmountTimeout - since)
		if a.Status.Attached && unique != "" {
			p.report = append(p.report, corev1.AttachedVolume{Name: unique})
		}
	}
	r.late.set(name, late)
	p.attach, err = r.attachable(ctx, name, wants, have)
	return p, err
}

// lookAfter makes sure that the node is looked at again after some time, or before.
func (p *plan) lookAfter(d time.Duration) {
	if d > 0 && (p.again == 0 || d < p.again) {
		p.again = d
	}
}

// attachable are those of the wanted volumes that are not on the node and can come there. The pods of the others learn why not.
func (r *Reconciler) attachable(ctx context.Context, name string, wants map[string]*wanted, have map[string]bool) ([]*wanted, error) {
	var attach []*wanted
	refused, before := map[string]bool{}, r.refused.on(name)
	for _, key := range sortedKeys(wants) {
		w := wants[key]
		if have[key] {
			continue
		}
		nodes, err := r.elsewhere(ctx, w.volume, name)
		if err != nil {
			return nil, err
		}
		if len(nodes) == 0 {
			attach = append(attach, w)
			continue
		}
		if !before[key] {
			if err := r.refuse(ctx, w, nodes); err != nil {
				return nil, err
			}
		}
		refused[key] = true
	}
	r.refused.set(name, refused)
	return attach, nil
}

func (r *Reconciler) attachments(ctx context.Context, which client.ListOption) ([]*storagev1.VolumeAttachment, error) {
	found, err := ownwrites.Peek[*storagev1.VolumeAttachment](ctx, r.Client, &storagev1.VolumeAttachmentList{}, which)
	if err != nil {
		return nil, fmt.Errorf("listing attachments: %w", err)
	}
	return found, nil
}

// elsewhere are the nodes other than this one which keep a volume that only one node may have.
func (r *Reconciler) elsewhere(ctx context.Context, volume *corev1.PersistentVolume, node string) ([]string, error) {
	if !exclusive(volume) {
		return nil, nil
	}
	all, err := r.attachments(ctx, index.AttachmentsOf(volume.Name))
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, a := range all {
		if a.Spec.NodeName != node {
			nodes = append(nodes, a.Spec.NodeName)
		}
	}
	return nodes, nil
}

// owned tells whether an attachment was made here, and the name that its volume has in the status of nodes, "" if the
// volume is gone.
func (r *Reconciler) owned(ctx context.Context, a *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, bool, error) {
	volume := &corev1.PersistentVolume{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: *a.Spec.Source.PersistentVolumeName}, volume)
	if apierrors.IsNotFound(err) {
		return "", generated(a.Name), nil
	}
	if err != nil {
		return "", false, fmt.Errorf("getting volume %q: %w", *a.Spec.Source.PersistentVolumeName, err)
	}
	csi := volume.Spec.CSI
	if csi == nil || csi.Driver != a.Spec.Attacher {
		return "", false, nil
	}
	return uniqueName(csi), a.Name == attachmentName(csi, a.Spec.NodeName), nil
}

// wait returns how long the attachment has been waiting to be removed, beginning now if it has not.
func (r *Reconciler) wait(name string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since, ok := r.waiting[name]; ok {
		return r.Clock.Since(since)
	}
	if r.waiting == nil {
		r.waiting = map[string]time.Time{}
	}
	r.waiting[name] = r.Clock.Now()
	return 0
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, name)
}

// report writes what is attached into the node's status, where its kubelet waits for it, and tells the pods.
func (r *Reconciler) report(ctx context.Context, node *corev1.Node, attached []corev1.AttachedVolume, wants map[string]*wanted) error {
	if !managed(node) {
		return nil
	}
	status := merge(node.Status.VolumesAttached, attached)
	if equality.Semantic.DeepEqual(status, node.Status.VolumesAttached) {
		return nil
	}
	known := map[corev1.UniqueVolumeName]bool{}
	for _, v := range node.Status.VolumesAttached {
		known[v.Name] = true
	}
	before := node.DeepCopy()
	node.Status.VolumesAttached = status
	err := r.Client.Status().Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("reporting attached volumes: %w", err)
	}
	isNew := map[corev1.UniqueVolumeName]bool{}
	for _, v := range attached {
		isNew[v.Name] = !known[v.Name]
	}
	for _, w := range wants {
		if isNew[w.unique] {
			message := fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", w.volume.Name)
			r.tell(w.pods, corev1.EventTypeNormal, "SuccessfulAttachVolume", message)
		}
	}
	return nil
}

// refuse tells the pods why their volume cannot come to their node yet.
func (r *Reconciler) refuse(ctx context.Context, w *wanted, nodes []string) error {
	var users []*corev1.Pod
	for _, node := range nodes {
		there, err := r.wants(ctx, node)
		if err != nil {
			return err
		}
		for _, other := range there {
			if other.volume.Name == w.volume.Name {
				users = append(users, other.pods...)
			}
		}
	}
	for i := range w.pods {
		message := fmt.Sprintf("Waiting for detach for volume %q %s", w.volume.Name, inUseBy(users, w.pods[i].Namespace))
		r.tell(w.pods[i:i+1], corev1.EventTypeWarning, "FailedAttachVolume", message)
	}
	return nil
}

// hurry tells the pods if nobody has attached their volume for too long since they were told last, or since that was wanted, and returns
// when that was.
func (r *Reconciler) hurry(w *wanted, a *storagev1.VolumeAttachment, told time.Time) time.Time {
	since := told
	if since.IsZero() {
		since = a.CreationTimestamp.Time
	}
	if r.Clock.Since(since) < attachTimeout {
		return since
	}
	r.failed(w, fmt.Sprintf("timed out waiting for external-attacher of %s CSI driver to attach volume %s", a.Spec.Attacher, w.volume.Spec.CSI.VolumeHandle))
	return r.Clock.Now()
}

func (r *Reconciler) failed(w *wanted, why string) {
	r.tell(w.pods, corev1.EventTypeWarning, "FailedAttachVolume", fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", w.volume.Name, why))
}

func (r *Reconciler) tell(pods []*corev1.Pod, kind, reason, message string) {
	for _, pod := range pods {
		r.Events.Event(pod, kind, reason, message)
	}
}
