// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podgroupprotection marks new PodGroups with a finalizer, which a controller takes away when no pod of the group is left.
// Touch it when something else must outlive the pods that are scheduled by it.
package podgroupprotection

import (
	"context"
	"slices"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "PodGroupProtection"

const finalizer = schedulingv1beta1.GroupName + "/podgroup-protection"

type plugin struct{ *admission.Handler }

var _ admission.MutationInterface = plugin{}

// New returns the plugin.
func New() admission.Interface { return plugin{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != schedulingv1beta1.Resource("podgroups") || a.GetSubresource() != "" || !feature.Enabled(feature.GenericWorkload) {
		return nil
	}
	group, err := object.New[*schedulingv1beta1.PodGroup](a)
	if err != nil {
		return err
	}
	if !slices.Contains(group.Finalizers, finalizer) {
		group.Finalizers = append(group.Finalizers, finalizer)
	}
	return nil
}
