// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumezone takes a pod to the zone and region of its volumes, as the
// labels of PersistentVolumes tell them. Touch it when volumes say in another way
// where they are; their node affinity is volumebinding's.
package volumezone

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	volumehelper "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "VolumeZone"
	ErrReason = "node(s) had no available volume zone"

	filterKey = "PreFilter" + Name
	// separator is between the zones of a volume that is in several.
	separator = "__"
)

// successors has the labels that tell where something is, with those of today in
// the place of the old ones.
var successors = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	corev1.LabelTopologyZone:            corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion:          corev1.LabelTopologyRegion,
}

// VolumeZone is the plugin.
type VolumeZone struct {
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
}

var (
	_ fwk.PreFilterPlugin   = (*VolumeZone)(nil)
	_ fwk.FilterPlugin      = (*VolumeZone)(nil)
	_ fwk.EnqueueExtensions = (*VolumeZone)(nil)
)

// New returns the plugin.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	core, storage := h.SharedInformerFactory().Core().V1(), h.SharedInformerFactory().Storage().V1()
	return &VolumeZone{
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		classes: storage.StorageClasses().Lister(),
	}, nil
}

// Name returns the plugin's name.
func (*VolumeZone) Name() string { return Name }

// places are the values that a volume allows, by label.
type places map[string]sets.Set[string]

// filterState has the places of each volume of the pod that has any.
type filterState []places

// Clone returns s itself, which never changes.
func (s filterState) Clone() fwk.StateData { return s }

// PreFilter finds out where the pod's volumes are.
func (v *VolumeZone) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	var s filterState
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		volume, status := v.volume(pod.Namespace, source.ClaimName)
		if !status.IsSuccess() {
			return nil, status
		}
		if volume == nil {
			continue
		}
		if p := placesOf(volume); len(p) > 0 {
			s = append(s, p)
		}
	}
	if len(s) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(filterKey, s)
	return nil, nil
}

// volume returns what a claim is bound to; nil if that is decided only when the
// pod has a node.
func (v *VolumeZone) volume(namespace, name string) (*corev1.PersistentVolume, *fwk.Status) {
	if name == "" {
		return nil, reject("PersistentVolumeClaim had no name")
	}
	claim, err := v.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil, failure(err)
	}
	if claim.Spec.VolumeName != "" {
		volume, err := v.volumes.Get(claim.Spec.VolumeName)
		if err != nil {
			return nil, failure(err)
		}
		return volume, nil
	}
	className := volumehelper.GetPersistentVolumeClaimClass(claim)
	if className == "" {
		return nil, reject("PersistentVolumeClaim had no pv name and storageClass name")
	}
	class, err := v.classes.Get(className)
	switch {
	case err != nil:
		return nil, failure(err)
	case class.VolumeBindingMode == nil:
		return nil, reject(fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", className))
	case *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, reject("PersistentVolume had no name")
	}
	return nil, nil
}

func reject(reason string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// failure keeps the pod waiting for what is missing.
func failure(err error) *fwk.Status {
	if apierrors.IsNotFound(err) {
		return reject(err.Error())
	}
	return fwk.AsStatus(err)
}

// placesOf reads the labels of a volume. One that is malformed counts for nothing.
func placesOf(volume *corev1.PersistentVolume) places {
	out := places{}
	for label := range successors {
		value, ok := volume.Labels[label]
		if !ok {
			continue
		}
		values := sets.New[string]()
		for v := range strings.SplitSeq(value, separator) {
			values.Insert(strings.TrimSpace(v))
		}
		if !values.Has("") {
			out[label] = values
		}
	}
	return out
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*VolumeZone) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes that are elsewhere. A node that does not say where it is
// can be anywhere.
func (*VolumeZone) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	s, ok := framework.ReadState[filterState](state, filterKey)
	if !ok || !isSomewhere(node.Node().Labels) {
		return nil
	}
	for _, volume := range s {
		if !volume.has(node.Node().Labels) {
			return reject(ErrReason)
		}
	}
	return nil
}

func isSomewhere(labels map[string]string) bool {
	for label := range successors {
		if _, ok := labels[label]; ok {
			return true
		}
	}
	return false
}

// has tells whether a node with these labels is among the places. A node may say
// by the label of today what the volume says by the old one.
func (p places) has(labels map[string]string) bool {
	for label, values := range p {
		value, ok := labels[label]
		if !ok {
			value, ok = labels[successors[label]]
		}
		if !ok || !values.Has(value) {
			return false
		}
	}
	return true
}

// EventsToRegister implements fwk.EnqueueExtensions: whatever gives the claim a volume that is known, or moves a volume or a node.
func (*VolumeZone) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		// The binding mode of a class never changes.
		framework.Event(fwk.StorageClass, fwk.Add, framework.Hint(func(_ *corev1.Pod, _, new any) bool {
			class, ok := new.(*storagev1.StorageClass)
			return !ok || class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
		})),
		framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeLabel, nil),
		framework.Event(fwk.PersistentVolumeClaim, fwk.Add|fwk.Update, framework.Hint(func(pod *corev1.Pod, _, new any) bool {
			claim, ok := new.(*corev1.PersistentVolumeClaim)
			return !ok || claim.Namespace == pod.Namespace && uses(pod, claim.Name)
		})),
		framework.Event(fwk.PersistentVolume, fwk.Add|fwk.Update, framework.Hint(func(_ *corev1.Pod, old, new any) bool {
			before, wasThere := old.(*corev1.PersistentVolume)
			after, ok := new.(*corev1.PersistentVolume)
			return !ok || !wasThere || !maps.EqualFunc(placesOf(before), placesOf(after), sets.Set[string].Equal)
		})),
	}, nil
}

func uses(pod *corev1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == claim {
			return true
		}
	}
	return false
}
