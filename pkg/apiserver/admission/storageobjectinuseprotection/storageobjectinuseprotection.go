// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package storageobjectinuseprotection marks new claims, volumes and volume attributes classes with a finalizer, which a
// controller takes away when nothing uses them any more. Touch it when something else must outlive its users. See
// https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection.
package storageobjectinuseprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Name of the plugin.
const Name = "StorageObjectInUseProtection"

var finalizers = map[schema.GroupResource]string{
	corev1.Resource("persistentvolumeclaims"):                         "kubernetes.io/pvc-protection",
	corev1.Resource("persistentvolumes"):                              "kubernetes.io/pv-protection",
	{Group: storagev1.GroupName, Resource: "volumeattributesclasses"}: "kubernetes.io/vac-protection",
}

type plugin struct{ *admission.Handler }

var _ admission.MutationInterface = plugin{}

// New returns the plugin.
func New() admission.Interface { return plugin{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	finalizer, ok := finalizers[a.GetResource().GroupResource()]
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	m, err := meta.Accessor(a.GetObject())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if has := m.GetFinalizers(); !slices.Contains(has, finalizer) {
		m.SetFinalizers(append(has, finalizer))
	}
	return nil
}
