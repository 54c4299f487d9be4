// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func driver(capacity bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &capacity}}
}

// capacity is that of class "k" on a node.
func capacity(node, total, largest string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "on-" + node}, StorageClassName: "k"}
	c.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: node}}
	if total != "" {
		c.Capacity = new(resource.MustParse(total))
	}
	if largest != "" {
		c.MaximumVolumeSize = new(resource.MustParse(largest))
	}
	return c
}

func TestFilter_Capacity(t *testing.T) {
	t.Parallel()
	late := class("k", "p", storagev1.VolumeBindingWaitForFirstConsumer)
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		a, b    string
	}{
		{"driver does not say", []runtime.Object{driver(false)}, "", ""},
		{"driver says nothing of these nodes", []runtime.Object{driver(true)}, ErrReasonNoSpace, ErrReasonNoSpace},
		{"room on one node", []runtime.Object{driver(true), capacity("a", "2Gi", ""), capacity("b", "500Mi", "")}, "", ErrReasonNoSpace},
		{"room, but not in one piece", []runtime.Object{driver(true), capacity("a", "2Gi", "1Gi"), capacity("b", "2Gi", "500Mi")}, "", ErrReasonNoSpace},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a"), pt.Node("b")}), append(tc.objects, late, claim("c", "k", ""))...)
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), pt.Pod("p", pt.Claim("c")))
			if diff := cmp.Diff(map[string]string{"a": tc.a, "b": tc.b}, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHasMore(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		old, new any
		want     bool
	}{
		{"new", nil, capacity("a", "1Gi", ""), true},
		{"grown", capacity("a", "1Gi", ""), capacity("a", "2Gi", ""), true},
		{"used up", capacity("a", "1Gi", ""), capacity("a", "500Mi", ""), false},
		{"not known any more", capacity("a", "1Gi", ""), capacity("a", "", ""), false},
	} {
		if got := hasMore(nil, tc.old, tc.new); got != tc.want {
			t.Errorf("%s: may help is %t", tc.name, got)
		}
	}
}

func TestRequeue(t *testing.T) {
	class := func(zone string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "k"}, AllowedTopologies: []corev1.TopologySelectorTerm{
			{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{zone}}}},
		}}
	}
	same := class("1")
	same.Labels = map[string]string{"k": "v"}
	csiNode := func(migrated, driver string) *storagev1.CSINode {
		return &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: migrated}},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver}}},
		}
	}
	for _, tc := range []struct {
		name     string
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"a class", fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Add}, nil, class("1"), true},
		{"a class reaches other nodes", fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Update}, class("1"), class("2"), true},
		{"a class reaches the same nodes", fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Update}, class("1"), same, false},
		{"a driver tells of no limits any more", fwk.ClusterEvent{Resource: fwk.CSIDriver, ActionType: fwk.Update}, driver(true), driver(false), true},
		{"a driver tells of limits now", fwk.ClusterEvent{Resource: fwk.CSIDriver, ActionType: fwk.Update}, driver(false), driver(true), false},
		{"drivers of a node", fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Add}, nil, csiNode("", "d"), true},
		{"a node hands over other volumes", fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Update}, csiNode("", "d"), csiNode("kubernetes.io/gce-pd", "d"), true},
		{"a node hands over the same volumes", fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Update}, csiNode("", "d"), csiNode("", "e"), false},
		{"a driver with limits is gone", fwk.ClusterEvent{Resource: fwk.CSIDriver, ActionType: fwk.Delete}, driver(true), nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			if got := pt.Helps(t, pt.NewPlugin(t, h, New), pt.Pod("p", pt.Claim("c")), tc.event, tc.old, tc.new); got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
