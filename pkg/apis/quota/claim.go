// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// classSuffix comes between the name of a storage class and what is limited of it.
const classSuffix = ".storageclass.storage.k8s.io/"

// claims may grow, so an update can use up more.
var claims = Kind{
	Resource: corev1.Resource("persistentvolumeclaims"),
	Counts: func(name corev1.ResourceName) bool {
		if name == countName(corev1.Resource("persistentvolumeclaims")) {
			return true
		}
		if _, ofClass, ok := strings.Cut(string(name), classSuffix); ok {
			name = corev1.ResourceName(ofClass)
		}
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	},
	Usage:   claimUsage,
	InScope: claimInScope,
	Moves:   claimMoves,
	Updates: true,
}

func claimUsage(obj runtime.Object, _ time.Time) (corev1.ResourceList, error) {
	pvc, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil, fmt.Errorf("expected a persistent volume claim, got %T", obj)
	}
	used := corev1.ResourceList{
		countName(corev1.Resource("persistentvolumeclaims")): count(1),
		corev1.ResourcePersistentVolumeClaims:                count(1),
	}
	class := storageClass(pvc)
	if class != "" {
		used[corev1.ResourceName(class+classSuffix)+corev1.ResourcePersistentVolumeClaims] = count(1)
	}
	storage, ok := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return used, nil
	}
	// A failed expansion may leave more allocated than is asked for now.
	if allocated, ok := pvc.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(storage) > 0 {
		storage = allocated
	}
	storage = storage.DeepCopy()
	storage.RoundUp(0) // quotas hold whole bytes
	used[corev1.ResourceRequestsStorage] = storage
	if class != "" {
		used[corev1.ResourceName(class+classSuffix)+corev1.ResourceRequestsStorage] = storage
	}
	return used, nil
}

func storageClass(pvc *corev1.PersistentVolumeClaim) string {
	if class, ok := pvc.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if pvc.Spec.StorageClassName != nil {
		return *pvc.Spec.StorageClassName
	}
	return ""
}

func claimInScope(scope corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	pvc, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return false, fmt.Errorf("expected a persistent volume claim, got %T", obj)
	}
	if scope.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, nil
	}
	return selects(scope, attributesClasses(pvc)...)
}

// claimMoves reports whether a claim has other classes of attributes than before.
func claimMoves(before, after runtime.Object) bool {
	a, okA := before.(*corev1.PersistentVolumeClaim)
	b, okB := after.(*corev1.PersistentVolumeClaim)
	return okA && okB && !slices.Equal(attributesClasses(a), attributesClasses(b))
}

// attributesClasses are the classes that a volume has or is to have: until a change is done, it is of both.
func attributesClasses(pvc *corev1.PersistentVolumeClaim) []string {
	var classes []string
	for _, class := range []*string{pvc.Spec.VolumeAttributesClassName, pvc.Status.CurrentVolumeAttributesClassName} {
		if class != nil && *class != "" {
			classes = append(classes, *class)
		}
	}
	if m := pvc.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		classes = append(classes, m.TargetVolumeAttributesClassName)
	}
	return classes
}
