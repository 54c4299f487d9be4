// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Whether claims outlive their pod is decided by the garbage collector, from owner references: a claim which the set owns goes
// with the set (whenDeleted), one that the pod owns goes when the pod was scaled away (whenScaled).
// See https://kep.k8s.io/1847.

// Ownership is what a claim's owner references should be.
type Ownership struct {
	References []metav1.OwnerReference
	// Change says that they are different now.
	Change bool
	// Conflict says that something else controls the claim, so that the policy does not apply to it.
	Conflict bool
}

// owner is somebody whose reference may be on a claim.
type owner struct {
	metav1.Object
	kind schema.GroupVersionKind
}

func (o owner) isNamed(ref *metav1.OwnerReference) bool {
	return ref.APIVersion == o.kind.GroupVersion().String() && ref.Kind == o.kind.Kind && ref.Name == o.GetName()
}

// Own returns the ownership of a claim of the pod. References to a set or pod of the same name that is no more mean that the
// claim is about to be collected; those are left alone.
func Own(set *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) Ownership {
	owners := []owner{{set, kind}, {pod, podKind}}
	policy := policyOf(set)
	keeps := policy.WhenDeleted == appsv1.RetainPersistentVolumeClaimRetentionPolicyType && policy.WhenScaled == appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	own := Ownership{References: []metav1.OwnerReference{}}
	var ours []metav1.OwnerReference
	stale := false
	for _, ref := range claim.OwnerReferences {
		isOurs := false
		for _, o := range owners {
			if o.isNamed(&ref) {
				isOurs = true
				stale = stale || ref.UID != o.GetUID()
			}
		}
		if isOurs {
			ours = append(ours, ref)
			continue
		}
		own.References = append(own.References, ref)
		own.Conflict = own.Conflict || !keeps && ptr.Deref(ref.Controller, false)
	}
	if stale {
		return Ownership{References: claim.OwnerReferences, Conflict: !keeps}
	}
	wanted := wantedOwner(set, pod, policy)
	if own.Conflict || wanted == nil {
		own.Change = len(ours) > 0
		return own
	}
	own.Change = len(ours) != 1 || ours[0].UID != wanted.GetUID() || !ptr.Deref(ours[0].Controller, false)
	own.References = append(own.References, *metav1.NewControllerRef(wanted, wanted.kind))
	return own
}

// wantedOwner returns whom a claim of the pod is to go with, nil for nobody.
func wantedOwner(set *appsv1.StatefulSet, pod *corev1.Pod, policy appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) *owner {
	switch {
	case policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType && !inRange(set, ordinalOf(pod)):
		return &owner{pod, podKind}
	case policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType:
		return &owner{set, kind}
	}
	return nil
}

func policyOf(set *appsv1.StatefulSet) appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
	return ptr.Deref(set.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	})
}

// isDoomed reports whether a claim goes with an earlier pod of the same name, so that a new pod has to wait for a claim of its
// own.
func isDoomed(set *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if policyOf(set).WhenScaled == appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
		return false
	}
	for _, ref := range claim.OwnerReferences {
		if (owner{pod, podKind}).isNamed(&ref) && ref.UID != pod.UID {
			return true
		}
	}
	return false
}
