// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// boundClaim returns a claim and the volume of a driver that it is bound to.
func boundClaim(name string, mode corev1.PersistentVolumeAccessMode) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
	claim.Spec.VolumeName, claim.Status.Phase = "volume-"+name, corev1.ClaimBound
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + name}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}
	return claim, volume
}

func TestScheduler_ReadWriteOncePod(t *testing.T) {
	const message = "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod. " +
		"preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
	claim, volume := boundClaim("c", corev1.ReadWriteOncePod)
	c := start(t, Config{}, pt.Node("a"), pt.Node("b"), claim, volume, pt.Pod("first", pt.On("a"), pt.Claim("c")))
	c.create(pt.Pod("second", pt.Claim("c")))
	c.awaitEvent("FailedScheduling", message)
	c.await("the condition", func() bool { return c.condition("second").Message == message })
	if err := c.client.CoreV1().Pods("default").Delete(c.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await("the second pod on a node", func() bool { return c.pod("second").Spec.NodeName != "" })
}

// Only the pod that has the claim stands in the way, whatever else has a lower
// priority.
func TestScheduler_ReadWriteOncePod_Preempts(t *testing.T) {
	claim, volume := boundClaim("c", corev1.ReadWriteOncePod)
	c := start(t, Config{}, pt.Node("a"), pt.Node("b"), claim, volume,
		pt.Pod("holder", pt.On("a"), pt.Claim("c"), pt.Priority(5)),
		pt.Pod("bystander", pt.On("a"), pt.Priority(1)),
		pt.Pod("elsewhere", pt.On("b"), pt.Priority(1)))
	c.create(pt.Pod("high", pt.Claim("c"), pt.Priority(10)))
	c.awaitEvent("Preempted", "Preempted by pod high on node a")
	c.await("the pod on a node", func() bool { return c.pod("high").Spec.NodeName != "" })
	if c.pod("holder") != nil {
		t.Error("the pod that had the claim is still there")
	}
	for _, name := range []string{"bystander", "elsewhere"} {
		if c.pod(name) == nil {
			t.Errorf("pod %s was preempted for nothing", name)
		}
	}
}

func TestScheduler_VolumeLimit(t *testing.T) {
	const message = "0/1 nodes are available: 1 node(s) exceed max volume count. " +
		"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	one, volumeOne := boundClaim("one", corev1.ReadWriteOnce)
	two, volumeTwo := boundClaim("two", corev1.ReadWriteOnce)
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "d", NodeID: "n", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(1))}}}
	c := start(t, Config{}, pt.Node("n"), node, one, volumeOne, two, volumeTwo, pt.Pod("first", pt.On("n"), pt.Claim("one")))
	c.create(pt.Pod("second", pt.Claim("two")))
	c.awaitEvent("FailedScheduling", message)
	more := node.DeepCopy()
	more.Spec.Drivers[0].Allocatable.Count = new(int32(2))
	if _, err := c.client.StorageV1().CSINodes().Update(t.Context(), more, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitNode("second", "n")
}
