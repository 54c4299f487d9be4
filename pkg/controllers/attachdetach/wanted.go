// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attachdetach

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// wanted is a volume that pods of a node need there.
type wanted struct {
	volume *corev1.PersistentVolume
	unique corev1.UniqueVolumeName
	pods   []*corev1.Pod
}

// attachment is what asks the driver to attach the volume.
func (w *wanted) attachment(node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(w.volume.Spec.CSI, node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: w.volume.Spec.CSI.Driver,
			NodeName: node,
			Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: &w.volume.Name},
		},
	}
}

// wants are the volumes that the pods of a node need attached, by the name of the attachment.
func (r *Reconciler) wants(ctx context.Context, node string) (map[string]*wanted, error) {
	there, err := pods.OnNode(ctx, r.Client, node)
	if err != nil {
		return nil, err
	}
	wants := map[string]*wanted{}
	for _, pod := range there {
		if pods.IsStopped(pod) {
			continue
		}
		for n := range pod.Spec.Volumes {
			volume, err := r.volumeOf(ctx, pod, &pod.Spec.Volumes[n])
			if err != nil {
				return nil, err
			}
			if volume == nil {
				continue
			}
			name := attachmentName(volume.Spec.CSI, node)
			if wants[name] == nil {
				wants[name] = &wanted{volume: volume, unique: uniqueName(volume.Spec.CSI)}
			}
			wants[name].pods = append(wants[name].pods, pod)
		}
	}
	return wants, nil
}

// volumeOf is the volume behind a claim of a pod, nil if it is none that is attached, or the claim is not bound yet.
func (r *Reconciler) volumeOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (*corev1.PersistentVolume, error) {
	name := pods.ClaimOf(pod, v)
	if name == "" {
		return nil, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, claim); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return nil, nil
	}
	if v.Ephemeral != nil && ephemeral.VolumeIsForPod(pod, claim) != nil {
		return nil, nil //nolint:nilerr // another's claim: the pod waits for its own
	}
	volume := &corev1.PersistentVolume{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, volume); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if volume.Spec.CSI == nil || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID {
		return nil, nil
	}
	if attaches, err := r.attaches(ctx, volume.Spec.CSI.Driver); err != nil || !attaches {
		return nil, err
	}
	return volume, nil
}

// attaches says whether the volumes of a driver have to be attached: those of an unknown one do.
func (r *Reconciler) attaches(ctx context.Context, name string) (bool, error) {
	driver := &storagev1.CSIDriver{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, driver)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("getting CSI driver %q: %w", name, err)
	}
	return ptr.Deref(driver.Spec.AttachRequired, true), nil
}
