// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumebinder

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reschedule takes a claim's node from it if there is no such node: nobody will make a volume there, and the scheduler chooses
// only for claims that have none. Upstream leaves it to external provisioners, and those of CSI drivers do so.
func (r *ClaimReconciler) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) (done bool, err error) {
	name := claim.Annotations[volumehelper.AnnSelectedNode]
	if name == "" {
		return false, nil
	}
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, &corev1.Node{}, client.UnsafeDisableDeepCopy)
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	// The scheduler may know a node that is new before this cache does.
	var nodes corev1.NodeList
	if err := r.Live.List(ctx, &nodes); err != nil {
		return false, fmt.Errorf("looking for node %q: %w", name, err)
	}
	if slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == name }) {
		return false, nil
	}
	delete(claim.Annotations, volumehelper.AnnSelectedNode)
	if err := r.Client.Update(ctx, claim); err != nil {
		return false, fmt.Errorf("having the claim scheduled again: %w", err)
	}
	r.Events.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", apierrors.NewNotFound(corev1.Resource("node"), name).Error())
	return true, nil
}
