// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"encoding/json"
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1beta1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/internal/latest"
)

// Writer writes conditions of groups.
type Writer struct {
	*latest.Writer[types.NamespacedName, update]
	client  kubernetes.Interface
	objects schedulinglisters.PodGroupLister
}

type update struct {
	uid       types.UID
	condition metav1.Condition
}

// NewWriter returns a writer; Run must run for anything to be written.
func NewWriter(client kubernetes.Interface, objects schedulinglisters.PodGroupLister) *Writer {
	w := &Writer{client: client, objects: objects}
	w.Writer = latest.New(w.write)
	return w
}

// Write asks for a condition of a group.
func (w *Writer) Write(group *schedulingv1beta1.PodGroup, c metav1.Condition) {
	c.ObservedGeneration = group.Generation
	w.Change(types.NamespacedName{Namespace: group.Namespace, Name: group.Name}, func(update) update { return update{group.UID, c} })
}

func (w *Writer) write(ctx context.Context, name types.NamespacedName, u update) error {
	group, err := w.objects.PodGroups(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) || err == nil && group.UID != u.uid {
		return nil
	}
	if err != nil {
		return err
	}
	conditions := withCondition(group.Status.Conditions, u.condition)
	if conditions == nil {
		return nil
	}
	if err := patch(ctx, w.client, group, conditions); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// withCondition returns the conditions with another one, nil if that changes
// nothing: that a group was scheduled once stays true.
func withCondition(have []metav1.Condition, c metav1.Condition) []metav1.Condition {
	if c.Status != metav1.ConditionTrue && meta.IsStatusConditionTrue(have, c.Type) {
		return nil
	}
	out := append([]metav1.Condition(nil), have...)
	if !meta.SetStatusCondition(&out, c) {
		return nil
	}
	return out
}

// patch fails, by the UID, on another group of the name.
func patch(ctx context.Context, client kubernetes.Interface, group *schedulingv1beta1.PodGroup, conditions []metav1.Condition) error {
	old, err := json.Marshal(schedulingv1beta1.PodGroup{Status: group.Status})
	if err != nil {
		return fmt.Errorf("encoding status of pod group %q: %w", klog.KObj(group), err)
	}
	status := group.Status
	status.Conditions = conditions
	updated, err := json.Marshal(schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{UID: group.UID}, Status: status})
	if err != nil {
		return fmt.Errorf("encoding new status of pod group %q: %w", klog.KObj(group), err)
	}
	change, err := strategicpatch.CreateTwoWayMergePatch(old, updated, &schedulingv1beta1.PodGroup{})
	if err != nil {
		return fmt.Errorf("creating patch for pod group %q: %w", klog.KObj(group), err)
	}
	_, err = client.SchedulingV1beta1().PodGroups(group.Namespace).Patch(ctx, group.Name, types.StrategicMergePatchType, change, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patching status of pod group %q: %w", klog.KObj(group), err)
	}
	return nil
}
