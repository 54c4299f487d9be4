// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodevolumelimits keeps a pod off nodes that cannot attach its volumes: a
// CSI driver says in the CSINode how many volumes a node takes, and in its
// CSIDriver whether pods may go where it does not run. Touch it when drivers limit
// volumes in another way.
package nodevolumelimits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
	volumehelper "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "NodeVolumeLimits"
	ErrReason = "node(s) exceed max volume count"

	// byNode is an index of VolumeAttachments.
	byNode = "spec.nodeName"
)

// NodeVolumeLimits is the plugin.
type NodeVolumeLimits struct {
	claims      corelisters.PersistentVolumeClaimLister
	volumes     corelisters.PersistentVolumeLister
	classes     storagelisters.StorageClassLister
	nodes       storagelisters.CSINodeLister
	drivers     storagelisters.CSIDriverLister
	attachments cache.Indexer
	// unbound begins the handles of volumes that are yet to be made: no driver has such a handle.
	unbound string
}

var (
	_ fwk.PreFilterPlugin   = (*NodeVolumeLimits)(nil)
	_ fwk.FilterPlugin      = (*NodeVolumeLimits)(nil)
	_ fwk.EnqueueExtensions = (*NodeVolumeLimits)(nil)
)

// New returns the plugin.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	core, storage := h.SharedInformerFactory().Core().V1(), h.SharedInformerFactory().Storage().V1()
	attachments := storage.VolumeAttachments().Informer()
	// The informer is that of all profiles: the first one makes the index.
	if _, ok := attachments.GetIndexer().GetIndexers()[byNode]; !ok {
		if err := attachments.AddIndexers(cache.Indexers{byNode: nodeOf}); err != nil {
			return nil, fmt.Errorf("indexing VolumeAttachments by node: %w", err)
		}
	}
	return &NodeVolumeLimits{
		claims:      core.PersistentVolumeClaims().Lister(),
		volumes:     core.PersistentVolumes().Lister(),
		classes:     storage.StorageClasses().Lister(),
		nodes:       storage.CSINodes().Lister(),
		drivers:     storage.CSIDrivers().Lister(),
		attachments: attachments.GetIndexer(),
		unbound:     rand.String(32),
	}, nil
}

func nodeOf(obj any) ([]string, error) {
	a, ok := obj.(*storagev1.VolumeAttachment)
	if !ok {
		return nil, nil
	}
	return []string{a.Spec.NodeName}, nil
}

// Name returns the plugin's name.
func (*NodeVolumeLimits) Name() string { return Name }

// PreFilter skips pods without volumes that a driver could attach.
func (*NodeVolumeLimits) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !slices.ContainsFunc(pod.Spec.Volumes, mayBeAttached) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func mayBeAttached(v corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || inline(&v) != nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*NodeVolumeLimits) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// attachable is a volume as its driver knows it.
type attachable struct{ driver, handle string }

// Filter rejects nodes that lack a driver or room for another volume of it. On a
// node without CSINode nothing is known of drivers, so nothing is limited.
func (v *NodeVolumeLimits) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	csi, err := v.nodes.Get(node.Node().Name)
	if err != nil {
		csi = nil // the lister finds none
	}
	wanted := map[attachable]bool{}
	if err := v.collect(wanted, pod, csi, true); err != nil {
		if apierrors.IsNotFound(err) {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
		}
		return fwk.AsStatus(err)
	}
	if len(wanted) == 0 {
		return nil
	}
	if status := v.missing(wanted, csi); !status.IsSuccess() {
		return status
	}
	limits := limitsOf(csi)
	if len(limits) == 0 || v.surelyFit(wanted, limits, node) {
		return nil
	}
	there, err := v.attached(node, csi)
	if err != nil {
		return fwk.AsStatus(err)
	}
	count, more := map[string]int{}, map[string]int{}
	for volume := range there {
		count[volume.driver]++
	}
	for volume := range wanted {
		if !there[volume] { // pods share it
			more[volume.driver]++
		}
	}
	for driver, n := range more {
		if limit, ok := limits[driver]; ok && count[driver]+n > int(limit) {
			return fwk.NewStatus(fwk.Unschedulable, ErrReason)
		}
	}
	return nil
}

// surelyFit tells whether there is room however many of the volumes of the pods there are of a driver: to find out whose they
// are takes long.
func (v *NodeVolumeLimits) surelyFit(wanted map[attachable]bool, limits map[string]int32, node fwk.NodeInfo) bool {
	attachments, err := v.attachments.IndexKeys(byNode, node.Node().Name)
	if err != nil {
		return false
	}
	most := len(wanted) + len(attachments)
	for _, p := range node.GetPods() {
		most += len(p.GetPod().Spec.Volumes)
	}
	for volume := range wanted {
		if limit, ok := limits[volume.driver]; ok && most > int(limit) {
			return false
		}
	}
	return true
}

// attached has the volumes of the node's pods, and those that are attached without
// a pod: of one that has just ended, or for somebody else.
func (v *NodeVolumeLimits) attached(node fwk.NodeInfo, csi *storagev1.CSINode) (map[attachable]bool, error) {
	out := map[attachable]bool{}
	for _, p := range node.GetPods() {
		if err := v.collect(out, p.GetPod(), csi, false); err != nil {
			return nil, err
		}
	}
	list, err := v.attachments.ByIndex(byNode, node.Node().Name)
	if err != nil {
		return nil, fmt.Errorf("listing VolumeAttachments of node %q: %w", node.Node().Name, err)
	}
	for _, obj := range list {
		a, ok := obj.(*storagev1.VolumeAttachment)
		if !ok || a.Spec.Attacher == "" || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if volume, err := v.volumes.Get(*a.Spec.Source.PersistentVolumeName); err == nil && volume.Spec.CSI != nil {
			out[attachable{a.Spec.Attacher, volume.Spec.CSI.VolumeHandle}] = true
		}
	}
	return out, nil
}

// missing rejects a node on which a driver does not run that wants no pods there.
// What is no CSI driver at all is no reason.
func (v *NodeVolumeLimits) missing(wanted map[attachable]bool, csi *storagev1.CSINode) *fwk.Status {
	names := map[string]bool{}
	for volume := range wanted {
		names[volume.driver] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		driver, err := v.drivers.Get(name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fwk.AsStatus(fmt.Errorf("getting CSIDriver %q: %w", name, err))
		}
		if minds(driver) && !runs(csi, name) {
			return fwk.NewStatus(fwk.Unschedulable, name+" CSI driver is not installed on the node")
		}
	}
	return nil
}

// minds tells whether a driver wants no pods where it does not run.
func minds(driver *storagev1.CSIDriver) bool {
	return driver.Spec.PreventPodSchedulingIfMissing != nil && *driver.Spec.PreventPodSchedulingIfMissing
}

func runs(csi *storagev1.CSINode, driver string) bool {
	return csi != nil && slices.ContainsFunc(csi.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

// limitsOf are the numbers of volumes that a node takes, by driver; one that is
// not there does not say.
func limitsOf(csi *storagev1.CSINode) map[string]int32 {
	out := map[string]int32{}
	if csi == nil {
		return out
	}
	for _, d := range csi.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			out[d.Name] = *d.Allocatable.Count
		}
	}
	return out
}

// collect adds the volumes of a pod that a driver attaches. The claims of a new
// pod must be there; one that runs may have lost them.
func (v *NodeVolumeLimits) collect(out map[attachable]bool, pod *corev1.Pod, csi *storagev1.CSINode, isNew bool) error {
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		name, own := claimName(pod, vol)
		if name == "" {
			switch {
			case vol.PersistentVolumeClaim != nil:
				return errors.New("PersistentVolumeClaim had no name")
			case csi != nil:
				if a := inline(vol); a != nil {
					out[*a] = true
				}
			}
			continue
		}
		claim, err := v.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			if isNew {
				return fmt.Errorf("looking up PVC %s/%s: %w", pod.Namespace, name, err)
			}
			continue
		}
		if own {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return err
			}
		}
		if a := v.of(claim, csi); a != nil {
			out[*a] = true
		}
	}
	return nil
}

// claimName returns the claim behind a volume, and whether it is the pod's own.
func claimName(pod *corev1.Pod, vol *corev1.Volume) (name string, own bool) {
	switch {
	case vol.PersistentVolumeClaim != nil:
		return vol.PersistentVolumeClaim.ClaimName, false
	case vol.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, vol), true
	}
	return "", false
}

// of returns the volume behind a claim, nil if no driver is known to attach it. If
// there is no volume yet, the class tells whose it will be.
func (v *NodeVolumeLimits) of(claim *corev1.PersistentVolumeClaim, csi *storagev1.CSINode) *attachable {
	if claim.Spec.VolumeName != "" {
		if volume, err := v.volumes.Get(claim.Spec.VolumeName); err == nil {
			return bound(volume, csi)
		}
	}
	className := volumehelper.GetPersistentVolumeClaimClass(claim)
	if className == "" {
		return nil
	}
	class, err := v.classes.Get(className)
	if err != nil {
		return nil
	}
	driver := class.Provisioner
	if migrated, ok := successors[driver]; ok {
		if csi == nil {
			return nil
		}
		driver = migrated
	}
	return &attachable{driver, v.unbound + "-" + claim.Namespace + "/" + claim.Name}
}

func bound(volume *corev1.PersistentVolume, csi *storagev1.CSINode) *attachable {
	if c := volume.Spec.CSI; c != nil {
		if c.Driver == "" || c.VolumeHandle == "" {
			return nil
		}
		return &attachable{c.Driver, c.VolumeHandle}
	}
	if csi == nil {
		return nil
	}
	return migrated(volume)
}

// EventsToRegister implements fwk.EnqueueExtensions: a node that takes more, or has fewer volumes, the claim that was missing, or a
// driver that does not mind any more where it does not run.
func (*NodeVolumeLimits) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.CSINode, fwk.Add, nil),
		framework.Event(fwk.CSINode, fwk.Update, framework.Hint(takesMore)),
		framework.Event(fwk.CSIDriver, fwk.Update|fwk.Delete, framework.Hint(func(_ *corev1.Pod, old, new any) bool {
			before, ok := old.(*storagev1.CSIDriver)
			after, isThere := new.(*storagev1.CSIDriver)
			return !ok || minds(before) && (!isThere || !minds(after))
		})),
		framework.Event(fwk.AssignedPod, fwk.Delete, framework.Hint(func(_ *corev1.Pod, old, _ any) bool {
			gone := framework.AsPod(old)
			return gone == nil || (gone.Spec.NodeName != "" || gone.Status.NominatedNodeName != "") && slices.ContainsFunc(gone.Spec.Volumes, mayBeAttached)
		})),
		framework.Event(fwk.PersistentVolumeClaim, fwk.Add, framework.Hint(func(pod *corev1.Pod, _, new any) bool {
			claim, ok := new.(*corev1.PersistentVolumeClaim)
			return !ok || claim.Namespace == pod.Namespace && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
				name, _ := claimName(pod, &v)
				return name == claim.Name
			})
		})),
		framework.Event(fwk.VolumeAttachment, fwk.Delete, framework.Hint(func(pod *corev1.Pod, old, _ any) bool {
			gone, ok := old.(*storagev1.VolumeAttachment)
			return !ok || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
				a := inline(&v)
				return a == nil && mayBeAttached(v) || a != nil && a.driver == gone.Spec.Attacher
			})
		})),
	}, nil
}

// takesMore tells whether a driver came to a node, or may have more volumes there than before: any number, without a limit.
func takesMore(_ *corev1.Pod, old, new any) bool {
	before, ok := old.(*storagev1.CSINode)
	after, alsoOK := new.(*storagev1.CSINode)
	if !ok || !alsoOK {
		return true
	}
	was, is := limitsOf(before), limitsOf(after)
	return slices.ContainsFunc(after.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		old, wasLimited := was[d.Name]
		now, isLimited := is[d.Name]
		return !runs(before, d.Name) || wasLimited && (!isLimited || now > old)
	})
}
