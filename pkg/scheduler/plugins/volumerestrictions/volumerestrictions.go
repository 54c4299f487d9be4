// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumerestrictions keeps pods apart that may not use a volume at the
// same time: a claim of access mode ReadWriteOncePod, or a disk that is named in
// the pod itself. Touch it when another kind of volume, or another access mode, is
// for one pod only.
package volumerestrictions

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; the reasons are what users see.
const (
	Name                  = "VolumeRestrictions"
	ErrReasonDiskConflict = "node(s) had no available disk"
	ErrReasonOncePod      = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"

	filterKey = "PreFilter" + Name
)

// VolumeRestrictions is the plugin.
type VolumeRestrictions struct {
	handle fwk.Handle
	claims corelisters.PersistentVolumeClaimLister
}

var (
	_ fwk.PreFilterPlugin     = (*VolumeRestrictions)(nil)
	_ fwk.PreFilterExtensions = (*VolumeRestrictions)(nil)
	_ fwk.FilterPlugin        = (*VolumeRestrictions)(nil)
	_ fwk.EnqueueExtensions   = (*VolumeRestrictions)(nil)
)

// New returns the plugin.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &VolumeRestrictions{handle: h, claims: h.SharedInformerFactory().Core().V1().PersistentVolumeClaims().Lister()}, nil
}

// Name returns the plugin's name.
func (*VolumeRestrictions) Name() string { return Name }

// filterState is who else uses the pod's claims.
type filterState struct {
	namespace string
	// claims are the names of those that are for one pod only.
	claims sets.Set[string]
	// users is how often pods that have a node use them.
	users int
}

// Clone implements fwk.StateData.
func (s *filterState) Clone() fwk.StateData {
	c := *s
	return &c
}

// usedBy counts the volumes of a pod that are among the claims. Unlike upstream it
// leaves out claims of the same name in other namespaces: pods would be preempted
// for nothing.
func (s *filterState) usedBy(pod *corev1.Pod) (n int) {
	if pod.Namespace != s.namespace {
		return 0
	}
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && s.claims.Has(c.ClaimName) {
			n++
		}
	}
	return n
}

// PreFilter finds out which claims of the pod are for one pod only, and whether
// they are taken. It skips pods that cannot be in anybody's way.
func (v *VolumeRestrictions) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	s := &filterState{namespace: pod.Namespace, claims: sets.New[string]()}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim, err := v.claims.PersistentVolumeClaims(pod.Namespace).Get(source.ClaimName)
		if apierrors.IsNotFound(err) {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
		}
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("getting claim %q: %w", source.ClaimName, err))
		}
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			s.claims.Insert(claim.Name)
		}
	}
	for name := range s.claims {
		if v.handle.SnapshotSharedLister().StorageInfos().IsPVCUsedByPods(pod.Namespace + "/" + name) {
			s.users++
		}
	}
	if s.users == 0 && !slices.ContainsFunc(pod.Spec.Volumes, hasDisk) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(filterKey, s)
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (v *VolumeRestrictions) PreFilterExtensions() fwk.PreFilterExtensions { return v }

// AddPod implements fwk.PreFilterExtensions.
func (*VolumeRestrictions) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return change(state, added, 1)
}

// RemovePod implements fwk.PreFilterExtensions.
func (*VolumeRestrictions) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return change(state, removed, -1)
}

func change(state fwk.CycleState, pod fwk.PodInfo, sign int) *fwk.Status {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok {
		return fwk.AsStatus(errNoState)
	}
	s.users += sign * s.usedBy(pod.GetPod())
	return nil
}

var errNoState = fmt.Errorf("cannot read %q from cycleState", filterKey)

// Filter rejects nodes on which another pod has a disk of the pod, and all nodes
// while another pod uses a claim that is for one pod only.
func (*VolumeRestrictions) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	for _, other := range node.GetPods() {
		if conflict(pod, other.GetPod()) {
			return fwk.NewStatus(fwk.Unschedulable, ErrReasonDiskConflict)
		}
	}
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok {
		return fwk.AsStatus(errNoState)
	}
	if s.users > 0 {
		return fwk.NewStatus(fwk.Unschedulable, ErrReasonOncePod)
	}
	return nil
}

// hasDisk tells whether a volume is a disk that pods may not share as they like.
func hasDisk(v corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil
}

// conflict tells whether two pods have a disk that they cannot have on one node.
func conflict(pod, other *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if !hasDisk(pod.Spec.Volumes[i]) {
			continue
		}
		for k := range other.Spec.Volumes {
			if sameDisk(&pod.Spec.Volumes[i], &other.Spec.Volumes[k]) {
				return true
			}
		}
	}
	return false
}

// sameDisk tells whether two volumes are one disk that is not read-only in both.
// A disk of EBS is for one pod even then.
func sameDisk(a, b *corev1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		a, b := a.GCEPersistentDisk, b.GCEPersistentDisk
		return a.PDName == b.PDName && (!a.ReadOnly || !b.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && (!a.ISCSI.ReadOnly || !b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		a, b := a.RBD, b.RBD
		return a.RBDPool == b.RBDPool && a.RBDImage == b.RBDImage && (!a.ReadOnly || !b.ReadOnly) &&
			slices.ContainsFunc(a.CephMonitors, func(m string) bool { return slices.Contains(b.CephMonitors, m) })
	}
	return false
}

// EventsToRegister implements fwk.EnqueueExtensions: a pod that had the volume is gone, there is a new node, or the claim that
// was missing. A pod's volumes never change.
func (*VolumeRestrictions) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.AssignedPod, fwk.Delete, framework.Hint(func(pod *corev1.Pod, old, _ any) bool {
			gone := framework.AsPod(old)
			return gone == nil || gone.Namespace == pod.Namespace && (conflict(pod, gone) || shareClaim(pod, gone))
		})),
		framework.Event(fwk.Node, fwk.Add, nil),
		framework.Event(fwk.PersistentVolumeClaim, fwk.Add, framework.Hint(func(pod *corev1.Pod, _, new any) bool {
			claim, ok := new.(*corev1.PersistentVolumeClaim)
			return !ok || claim.Namespace == pod.Namespace && claimsOf(pod).Has(claim.Name)
		})),
	}, nil
}

// shareClaim does not ask for the access mode: to try a pod in vain costs little.
func shareClaim(a, b *corev1.Pod) bool { return claimsOf(a).HasAny(claimsOf(b).UnsortedList()...) }

func claimsOf(pod *corev1.Pod) sets.Set[string] {
	out := sets.New[string]()
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			out.Insert(c.ClaimName)
		}
	}
	return out
}
