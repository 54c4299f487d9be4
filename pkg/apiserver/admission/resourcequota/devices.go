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

	"minik8s.io/minik8s/pkg/apis/quota"
)

// look is how long a question to this API server may take.
const look = 5 * time.Second

// devices asks this API server. That is needed only where a claim meets a quota of devices, so nothing is kept for it.
type devices struct{ client kubernetes.Interface }

var _ quota.Devices = (*devices)(nil)

// Class implements quota.Devices.
func (d *devices) Class(name string) (*resourcev1.DeviceClass, error) {
	return found(d.client.ResourceV1().DeviceClasses().Get, name)
}

// Pod implements quota.Devices.
func (d *devices) Pod(namespace, name string) (*corev1.Pod, error) {
	return found(d.client.CoreV1().Pods(namespace).Get, name)
}

func found[T any](get func(context.Context, string, metav1.GetOptions) (*T, error), name string) (*T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), look)
	defer cancel()
	obj, err := get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
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
