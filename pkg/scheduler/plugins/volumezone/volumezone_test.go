// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumezone

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func claim(class, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
	c.Spec.StorageClassName, c.Spec.VolumeName = &class, volume
	return c
}

func volume(pairs ...string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", Labels: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		v.Labels[pairs[i]] = pairs[i+1]
	}
	return v
}

func class(mode *storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "k"}, Provisioner: "p", VolumeBindingMode: mode}
}

func TestFilter(t *testing.T) {
	const zone, region, betaZone, betaRegion = corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion
	nodes := []*corev1.Node{
		pt.Node("1a", pt.NodeLabels(zone, "1a", region, "1")),
		pt.Node("1b", pt.NodeLabels(zone, "1b", region, "1")),
		pt.Node("old", pt.NodeLabels(betaZone, "1a", betaRegion, "1")),
		pt.Node("anywhere"),
	}
	all := func(why string) map[string]string {
		return map[string]string{"1a": why, "1b": why, "old": why, "anywhere": why}
	}
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		want    map[string]string
	}{
		{"missing claim", nil, all(`persistentvolumeclaim "c" not found`)},
		{"missing volume", []runtime.Object{claim("k", "v")}, all(`persistentvolume "v" not found`)},
		{"neither volume nor class", []runtime.Object{claim("", "")}, all("PersistentVolumeClaim had no pv name and storageClass name")},
		{"missing class", []runtime.Object{claim("k", "")}, all(`storageclass.storage.k8s.io "k" not found`)},
		{"class without mode", []runtime.Object{claim("k", ""), class(nil)}, all(`VolumeBindingMode not set for StorageClass "k"`)},
		{"bound later", []runtime.Object{claim("k", ""), class(new(storagev1.VolumeBindingWaitForFirstConsumer))}, all("")},
		{"to be bound at once", []runtime.Object{claim("k", ""), class(new(storagev1.VolumeBindingImmediate))}, all("PersistentVolume had no name")},
		{"a volume that is anywhere", []runtime.Object{claim("k", "v"), volume()}, all("")},
		{"a zone", []runtime.Object{claim("k", "v"), volume(zone, "1a")}, map[string]string{"1a": "", "1b": ErrReason, "old": ErrReason, "anywhere": ""}},
		{"a zone, by the old label", []runtime.Object{claim("k", "v"), volume(betaZone, "1a")}, map[string]string{"1a": "", "1b": ErrReason, "old": "", "anywhere": ""}},
		{"several zones", []runtime.Object{claim("k", "v"), volume(zone, "1a__ 1b")}, map[string]string{"1a": "", "1b": "", "old": ErrReason, "anywhere": ""}},
		{"a region and a zone of it", []runtime.Object{claim("k", "v"), volume(region, "1", zone, "1b")}, map[string]string{"1a": ErrReason, "1b": "", "old": ErrReason, "anywhere": ""}},
		{"another region", []runtime.Object{claim("k", "v"), volume(betaRegion, "2")}, map[string]string{"1a": ErrReason, "1b": ErrReason, "old": ErrReason, "anywhere": ""}},
		{"malformed", []runtime.Object{claim("k", "v"), volume(zone, "1a__")}, all("")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(nodes), tc.objects...)
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), pt.Pod("p", pt.Claim("c")))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequeue(t *testing.T) {
	event := func(r fwk.EventResource, a fwk.ActionType) fwk.ClusterEvent {
		return fwk.ClusterEvent{Resource: r, ActionType: a}
	}
	other := claim("k", "v")
	other.Name = "other"
	for _, tc := range []struct {
		name     string
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"a class that waits for its consumer", event(fwk.StorageClass, fwk.Add), nil, class(new(storagev1.VolumeBindingWaitForFirstConsumer)), true},
		{"a class that binds at once", event(fwk.StorageClass, fwk.Add), nil, class(new(storagev1.VolumeBindingImmediate)), false},
		{"the claim is bound", event(fwk.PersistentVolumeClaim, fwk.Update), claim("k", ""), claim("k", "v"), true},
		{"another claim is bound", event(fwk.PersistentVolumeClaim, fwk.Update), other, other, false},
		{"a new volume", event(fwk.PersistentVolume, fwk.Add), nil, volume(), true},
		{"a volume is elsewhere", event(fwk.PersistentVolume, fwk.Update), volume(), volume(corev1.LabelTopologyZone, "z"), true},
		{"a volume is where it was", event(fwk.PersistentVolume, fwk.Update), volume(corev1.LabelTopologyZone, "y__z"), volume(corev1.LabelTopologyZone, "z__y"), false},
		{"a node is elsewhere", event(fwk.Node, fwk.UpdateNodeLabel), pt.Node("n"), pt.Node("n"), true},
		{"a node has other taints", event(fwk.Node, fwk.UpdateNodeTaint), pt.Node("n"), pt.Node("n"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			if got := pt.Helps(t, pt.NewPlugin(t, h, New), pt.Pod("p", pt.Claim("c")), tc.event, tc.old, tc.new); got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
