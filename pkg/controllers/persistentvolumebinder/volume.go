// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumebinder

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/apis/storage/migration"
)

// VolumeReconciler keeps the phase of one volume and lets go of a claim that is gone or bound elsewhere.
type VolumeReconciler struct {
	Client client.Client
	// Live is asked before a volume is released: its data may be deleted then.
	Live   client.Reader
	Events record.EventRecorder
}

// Reconcile looks at the volume in req.
func (r *VolumeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	volume := &corev1.PersistentVolume{}
	if err := r.Client.Get(ctx, req.NamespacedName, volume); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	migrated, finalizers := markMigrated(&volume.ObjectMeta, volumehelper.AnnDynamicallyProvisioned), setFinalizers(volume)
	if migrated || finalizers {
		if err := r.Client.Update(ctx, volume); err != nil {
			return reconcile.Result{}, fmt.Errorf("noting who deletes the volume: %w", err)
		}
	}
	if volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == "" {
		return reconcile.Result{}, setVolumePhase(ctx, r.Client, volume, corev1.VolumeAvailable, "")
	}
	claim, err := r.claim(ctx, volume)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.sync(ctx, volume, claim)
}

// claim gets the claim that a volume is bound to, nil if it is gone; another one of the same name does not count.
func (r *VolumeReconciler) claim(ctx context.Context, volume *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := volume.Spec.ClaimRef
	for _, from := range []client.Reader{r.Client, r.Live} {
		claim := &corev1.PersistentVolumeClaim{}
		err := from.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, claim)
		if err == nil && claim.UID == ref.UID {
			return claim, nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("getting claim %s/%s: %w", ref.Namespace, ref.Name, err)
		}
		if released(volume) {
			return nil, nil // it was looked at thoroughly before
		}
	}
	return nil, nil
}

func released(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase == corev1.VolumeReleased || volume.Status.Phase == corev1.VolumeFailed
}

// sync brings a volume in line with its claim, nil if that is gone.
func (r *VolumeReconciler) sync(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	switch {
	case claim == nil:
		return r.release(ctx, volume)
	case claim.Spec.VolumeName == "":
		// The claim's reconciler finishes this binding, unless it cannot.
		if volumehelper.CheckVolumeModeMismatches(&claim.Spec, &volume.Spec) {
			r.Events.Eventf(volume, corev1.EventTypeWarning, "VolumeMismatch",
				"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name)
			r.Events.Eventf(claim, corev1.EventTypeWarning, "VolumeMismatch",
				"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", volume.Name)
		}
		return nil
	case claim.Spec.VolumeName == volume.Name:
		return setVolumePhase(ctx, r.Client, volume, corev1.VolumeBound, "")
	case metav1.HasAnnotation(volume.ObjectMeta, volumehelper.AnnDynamicallyProvisioned) &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		// It was made for this claim, which found another one meanwhile.
		return r.release(ctx, volume)
	default:
		return rollBack(ctx, r.Client, volume)
	}
}

// release marks a volume whose claim needs it no more, and does what its reclaim policy says. A volume that could not be
// reclaimed stays Failed, so that the user sees it.
func (r *VolumeReconciler) release(ctx context.Context, volume *corev1.PersistentVolume) error {
	if !released(volume) {
		if err := setVolumePhase(ctx, r.Client, volume, corev1.VolumeReleased, ""); err != nil {
			return err
		}
	}
	reason, message := reclaimProblem(volume)
	if reason == "" || volume.Status.Phase == corev1.VolumeFailed {
		return nil
	}
	if err := setVolumePhase(ctx, r.Client, volume, corev1.VolumeFailed, message); err != nil {
		return err
	}
	r.Events.Event(volume, corev1.EventTypeWarning, reason, message)
	return nil
}

// reclaimProblem says why the policy of a released volume cannot be carried out, nothing if its user or an external
// provisioner does that. Nobody here touches data: controllers run on another machine than those are on.
func reclaimProblem(volume *corev1.PersistentVolume) (reason, message string) {
	if volume.Annotations[volumehelper.AnnMigratedTo] != "" {
		return "", ""
	}
	switch volume.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return "", ""
	case corev1.PersistentVolumeReclaimRecycle:
		return "VolumeFailedRecycle", "No recycler plugin found for the volume!"
	case corev1.PersistentVolumeReclaimDelete:
		provisioner := volume.Annotations[volumehelper.AnnDynamicallyProvisioned]
		switch {
		case strings.HasPrefix(provisioner, migration.InTree):
			return "VolumeFailedDelete", noPlugin(provisioner, "deletable")
		case provisioner != "", volume.Spec.CSI != nil:
			return "", ""
		case volume.Spec.HostPath != nil && strings.Contains(volume.Spec.HostPath.Path, "/tmp/"):
			return "VolumeFailedDelete", "directories of nodes are not deleted by controllers: remove " + volume.Spec.HostPath.Path + " and the volume by hand"
		case volume.Spec.HostPath != nil:
			return "VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided " + volume.Spec.HostPath.Path
		}
		plugin := "no volume plugin matched"
		if volume.Spec.NFS != nil {
			plugin = noPlugin(nfsPlugin, "deletable")
		}
		return "VolumeFailedDelete", fmt.Sprintf("error getting deleter volume plugin for volume %q: %s", volume.Name, plugin)
	default:
		return "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy"
	}
}

// nfsPlugin is what upstream's controller knows besides the plugin of hostPath volumes; it recycles, and can do nothing else.
const nfsPlugin = migration.InTree + "nfs"

// noPlugin says why no plugin of that name, which would have to be an in-tree one, can do what able tells.
func noPlugin(name, able string) string {
	if name == nfsPlugin {
		return "no " + able + " volume plugin matched"
	}
	return "no volume plugin matched name: " + name
}
