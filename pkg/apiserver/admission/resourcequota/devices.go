// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	resourcelisters "k8s.io/client-go/listers/resource/v1"

	"minik8s.io/minik8s/pkg/apis/quota"
)

// look is how long a question to this API server may take.
const look = 5 * time.Second

// devices looks up classes among those that are kept for it. Pods and claims are asked for, which is needed only for claims for the
// extended resources of a pod.
type devices struct {
	classes resourcelisters.DeviceClassLister
	client  kubernetes.Interface
}

var _ quota.Devices = (*devices)(nil)

// Class implements quota.Devices.
func (d *devices) Class(name string) (*resourcev1.DeviceClass, error) {
	class, err := d.classes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return class, err
}

// Pod implements quota.Devices.
func (d *devices) Pod(namespace, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(context.Background(), look)
	defer cancel()
	pod, err := d.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pod, err
}

// Claims implements quota.Devices.
func (d *devices) Claims(namespace string) ([]*resourcev1.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(context.Background(), look)
	defer cancel()
	list, err := d.client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var claims []*resourcev1.ResourceClaim
	for i := range list.Items {
		claims = append(claims, &list.Items[i])
	}
	return claims, nil
}
