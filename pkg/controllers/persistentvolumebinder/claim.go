// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumebinder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/apis/storage/migration"
	"minik8s.io/minik8s/pkg/apis/storage/storageclass"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// ClaimReconciler binds one claim.
type ClaimReconciler struct {
	Client client.Client
	// Live is asked before a claim is said to have lost its volume, of which there is no way back.
	Live   client.Reader
	Events record.EventRecorder

	// choosing lets one claim after the other choose its volume: else all would want the smallest, and all but one try
	// again.
	choosing sync.Mutex
}

// remind is when a claim that waits is looked at again, without need: so that the event which tells why does not expire.
const remind = 5 * time.Minute

// Reconcile looks at the claim in req.
func (r *ClaimReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if markMigrated(&claim.ObjectMeta, volumehelper.AnnStorageProvisioner, volumehelper.AnnBetaStorageProvisioner) {
		if err := r.Client.Update(ctx, claim); err != nil {
			return reconcile.Result{}, fmt.Errorf("noting the driver that took over: %w", err)
		}
	}
	var err error
	switch {
	case metav1.HasAnnotation(claim.ObjectMeta, volumehelper.AnnBindCompleted):
		return reconcile.Result{}, r.keep(ctx, claim)
	case claim.Spec.VolumeName != "":
		err = r.bindNamed(ctx, claim)
	default:
		err = r.bindAny(ctx, claim)
	}
	if err != nil || claim.Status.Phase == corev1.ClaimBound {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: remind}, nil
}

// keep sees that a claim which was bound still is.
func (r *ClaimReconciler) keep(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName == "" {
		return r.lose(ctx, claim, "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	volume, err := r.volume(ctx, claim.Spec.VolumeName)
	switch {
	case err != nil:
		return err
	case volume == nil:
		return r.lose(ctx, claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID != claim.UID:
		return r.lose(ctx, claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
	}
	return r.bind(ctx, claim, volume)
}

// volume gets a volume, nil if there is none.
func (r *ClaimReconciler) volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	for _, from := range []client.Reader{r.Client, r.Live} {
		volume := &corev1.PersistentVolume{}
		err := from.Get(ctx, types.NamespacedName{Name: name}, volume)
		if err == nil {
			return volume, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("getting volume %q: %w", name, err)
		}
	}
	return nil, nil
}

func (r *ClaimReconciler) lose(ctx context.Context, claim *corev1.PersistentVolumeClaim, reason, message string) error {
	if claim.Status.Phase == corev1.ClaimLost {
		return nil
	}
	if err := setClaimPhase(ctx, r.Client, claim, corev1.ClaimLost, nil); err != nil {
		return err
	}
	r.Events.Event(claim, corev1.EventTypeWarning, reason, message)
	return nil
}

func (r *ClaimReconciler) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	reserved, err := reserve(ctx, r.Client, volume, claim)
	if err != nil {
		return err
	}
	return finish(ctx, r.Client, reserved, claim)
}

// bindNamed binds a claim to the volume that its user asked for.
func (r *ClaimReconciler) bindNamed(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume, err := r.volume(ctx, claim.Spec.VolumeName)
	if err != nil {
		return err
	}
	switch {
	case volume == nil:
	case volumehelper.IsVolumeBoundToClaim(volume, claim):
		return r.bind(ctx, claim, volume)
	case volume.Spec.ClaimRef != nil:
		r.Events.Eventf(claim, corev1.EventTypeWarning, "FailedBinding", "volume %q already bound to a different claim.", volume.Name)
	default:
		reason := mismatch(volume, claim)
		if reason == nil {
			return r.bind(ctx, claim, volume)
		}
		r.Events.Eventf(claim, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind to requested volume %q: %s", volume.Name, reason)
	}
	return setClaimPhase(ctx, r.Client, claim, corev1.ClaimPending, nil)
}

// bindAny binds a claim to a volume that will do, or says what it waits for.
func (r *ClaimReconciler) bindAny(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class, err := r.class(ctx, claim)
	if err != nil {
		return err
	}
	delayed := class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	volume, err := r.choose(ctx, claim, delayed)
	if err != nil {
		return err
	}
	if volume != nil {
		return finish(ctx, r.Client, volume, claim)
	}
	if !volumehelper.PersistentVolumeClaimHasClass(claim) {
		if assigned, err := r.assignDefaultClass(ctx, claim); err != nil || assigned {
			return err // the change of the claim brings it here again
		}
	}
	switch {
	case delayed && !volumehelper.IsDelayBindingProvisioning(claim):
		if err := r.awaitConsumer(ctx, claim); err != nil {
			return err
		}
	case volumehelper.GetPersistentVolumeClaimClass(claim) != "":
		return r.provision(ctx, claim, class)
	default:
		r.Events.Event(claim, corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	}
	return setClaimPhase(ctx, r.Client, claim, corev1.ClaimPending, nil)
}

// class gets the class of a claim, nil if it has none or there is none of that name.
func (r *ClaimReconciler) class(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*storagev1.StorageClass, error) {
	name := volumehelper.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return nil, nil
	}
	class := &storagev1.StorageClass{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, class); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("getting storage class %q: %w", name, err)
	}
	return class, nil
}

// choose finds a volume for the claim and reserves it.
func (r *ClaimReconciler) choose(ctx context.Context, claim *corev1.PersistentVolumeClaim, delayed bool) (*corev1.PersistentVolume, error) {
	r.choosing.Lock()
	defer r.choosing.Unlock()
	volumes, err := ownwrites.Peek[*corev1.PersistentVolume](ctx, r.Client, &corev1.PersistentVolumeList{})
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	volume, err := bestMatch(claim, volumes, delayed)
	if volume == nil || err != nil {
		return nil, err
	}
	return reserve(ctx, r.Client, volume, claim)
}

// assignDefaultClass gives a claim that was made before there was a default class that class (KEP 3333).
func (r *ClaimReconciler) assignDefaultClass(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	classes, err := ownwrites.Peek[*storagev1.StorageClass](ctx, r.Client, &storagev1.StorageClassList{})
	if err != nil {
		return false, fmt.Errorf("listing storage classes: %w", err)
	}
	class := storageclass.Default(classes)
	if class == nil {
		return false, nil
	}
	claim.Spec.StorageClassName = &class.Name
	if err := r.Client.Update(ctx, claim); err != nil {
		return false, fmt.Errorf("assigning the default storage class: %w", err)
	}
	return true, nil
}

// awaitConsumer tells what a claim waits for whose class binds late: a pod, or its way through the scheduler.
func (r *ClaimReconciler) awaitConsumer(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	users, err := pods.WithClaim(ctx, r.Client, claim.Namespace, claim.Name)
	if err != nil {
		return err
	}
	reason, message := "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
	if names := unscheduled(users); len(names) == 1 {
		reason, message = "WaitForPodScheduled", fmt.Sprintf("waiting for pod %s to be scheduled", names[0])
	} else if len(names) > 1 {
		reason, message = "WaitForPodScheduled", fmt.Sprintf("waiting for pods %s to be scheduled", strings.Join(names, ","))
	}
	r.Events.Event(claim, corev1.EventTypeNormal, reason, message)
	return nil
}

// unscheduled are the names of the pods without node that have not ended, and that nobody has deleted.
func unscheduled(users []*corev1.Pod) []string {
	var names []string
	for _, pod := range users {
		if pod.Spec.NodeName == "" && !pods.IsStopped(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// provision asks the external provisioner of the class for a volume. class is nil if there is none of the claim's.
func (r *ClaimReconciler) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	if class == nil {
		err := apierrors.NewNotFound(storagev1.Resource("storageclass"), volumehelper.GetPersistentVolumeClaimClass(claim))
		r.Events.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", err.Error())
		return nil
	}
	provisioner := class.Provisioner
	if driver := migration.Driver(provisioner); driver != "" {
		provisioner = driver
	} else if strings.HasPrefix(provisioner, migration.InTree) {
		r.Events.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", noPlugin(provisioner, "provisionable"))
		return nil
	}
	if done, err := r.reschedule(ctx, claim); err != nil || done {
		return err // the change of the claim brings it here again
	}
	if claim.Annotations[volumehelper.AnnStorageProvisioner] != provisioner {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volumehelper.AnnBetaStorageProvisioner, provisioner)
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volumehelper.AnnStorageProvisioner, provisioner)
		markMigrated(&claim.ObjectMeta, volumehelper.AnnStorageProvisioner)
		if err := r.Client.Update(ctx, claim); err != nil {
			r.Events.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "Error saving claim: %v", err)
			return fmt.Errorf("asking for a volume: %w", err)
		}
	}
	r.Events.Eventf(claim, corev1.EventTypeNormal, "ExternalProvisioning",
		"Waiting for a volume to be created either by the external provisioner '%s' or manually by the system administrator. "+
			"If volume creation is delayed, please verify that the provisioner is running and correctly registered.", provisioner)
	return nil
}
