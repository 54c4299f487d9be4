// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagelisters "k8s.io/client-go/listers/storage/v1"
)

// room knows where drivers that publish their capacity have some left (KEP 1472).
type room struct {
	drivers    storagelisters.CSIDriverLister
	capacities storagelisters.CSIStorageCapacityLister
}

// enough tells whether the class's driver can make a volume for the claim that the node reaches, and out of which capacity. A
// provisioner that is no such driver is believed to have room, which has no capacity that is known.
func (r room) enough(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node) (bool, *storagev1.CSIStorageCapacity, error) {
	size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return true, nil, nil
	}
	driver, err := r.drivers.Get(class.Provisioner)
	if apierrors.IsNotFound(err) {
		return true, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("getting CSI driver %q: %w", class.Provisioner, err)
	}
	if !limits(driver) {
		return true, nil, nil
	}
	all, err := r.capacities.List(labels.Everything())
	if err != nil {
		return false, nil, fmt.Errorf("listing storage capacities: %w", err)
	}
	for _, c := range all {
		if c.StorageClassName == class.Name && holds(c, size) && isReached(c, node) {
			return true, c, nil
		}
	}
	return false, nil, nil
}

// limits tells whether a driver publishes its capacity.
func limits(driver *storagev1.CSIDriver) bool {
	return driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
}

// limitsNoMore is the hint for drivers: one that published its capacity does so no more, or is gone.
func limitsNoMore(_ *corev1.Pod, old, new any) bool {
	before, ok := old.(*storagev1.CSIDriver)
	after, isThere := new.(*storagev1.CSIDriver)
	return !ok || limits(before) && (!isThere || !limits(after))
}

// largest is the size of the largest volume that there is room for, nil if there is none.
func largest(c *storagev1.CSIStorageCapacity) *resource.Quantity {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}

func holds(c *storagev1.CSIStorageCapacity, size resource.Quantity) bool {
	limit := largest(c)
	return limit != nil && limit.Cmp(size) >= 0
}

// isReached tells whether the capacity is one that the node has access to.
func isReached(c *storagev1.CSIStorageCapacity, node *corev1.Node) bool {
	if c.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// hasMore is the hint for capacities: only one that is new or has grown helps.
func hasMore(_ *corev1.Pod, old, new any) bool {
	before, ok := old.(*storagev1.CSIStorageCapacity)
	if !ok || before == nil {
		return true
	}
	after, ok := new.(*storagev1.CSIStorageCapacity)
	if !ok {
		return true
	}
	was, is := largest(before), largest(after)
	return is != nil && (was == nil || is.Cmp(*was) > 0)
}
