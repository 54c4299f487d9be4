// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Evict says in the status of a pod why it goes, unless that says so already, and deletes it. A pod that is gone is no error, and one that
// has its name meanwhile is left alone.
// The condition's type and status are set here.
func Evict(ctx context.Context, c client.Client, pod *corev1.Pod, why corev1.PodCondition) error {
	why.Type, why.Status = corev1.DisruptionTarget, corev1.ConditionTrue
	before := pod
	pod = pod.DeepCopy()
	if SetCondition(&pod.Status, why) {
		if gone, err := PatchStatus(ctx, c, pod, before); gone || err != nil {
			return err
		}
	}
	if err := c.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("evicting pod %q from node %q: %w", pod.Name, pod.Spec.NodeName, err)
	}
	return nil
}

// PatchStatus writes how the status of pod differs from that of before, which is the same pod. gone tells that it is not there any
// more; another one that has its name is not touched.
func PatchStatus(ctx context.Context, c client.Client, pod, before *corev1.Pod) (gone bool, err error) {
	anonymous := *before
	anonymous.UID = "" // so the patch says which pod it is about
	err = c.Status().Patch(ctx, pod, client.StrategicMergeFrom(&anonymous))
	switch {
	case apierrors.IsNotFound(err), isAboutUID(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("patching the status of pod %q: %w", pod.Name, err)
	}
	return false, nil
}

// isAboutUID tells whether the API server refused to change a UID.
func isAboutUID(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// Reference is what events about a pod refer to when they do not depend on its version.
func Reference(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
