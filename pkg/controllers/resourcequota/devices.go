// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/apis/quota"
)

// look is how long to wait for a cache to be filled.
const look = 10 * time.Second

// devices looks up classes, pods and claims in the cache of all controllers, which others fill with them anyway. Listed claims belong to
// the cache.
type devices struct{ client.Reader }

var _ quota.Devices = devices{}

// Class implements quota.Devices.
func (d devices) Class(name string) (*resourcev1.DeviceClass, error) {
	return found(d, client.ObjectKey{Name: name}, &resourcev1.DeviceClass{})
}

// Pod implements quota.Devices.
func (d devices) Pod(namespace, name string) (*corev1.Pod, error) {
	return found(d, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Pod{})
}

// Claims implements quota.Devices.
func (d devices) Claims(namespace string) ([]*resourcev1.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(context.Background(), look)
	defer cancel()
	var list resourcev1.ResourceClaimList
	if err := d.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var claims []*resourcev1.ResourceClaim
	for i := range list.Items {
		claims = append(claims, &list.Items[i])
	}
	return claims, nil
}

func found[T client.Object](d devices, key client.ObjectKey, obj T) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), look)
	defer cancel()
	var none T
	if err := d.Get(ctx, key, obj); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return obj, nil
}
