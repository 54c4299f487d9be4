// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// has is the size that the claim of the volume has, as far as its status says.
func (v *volume) has() resource.Quantity {
	if v.claim == nil {
		return resource.Quantity{}
	}
	return v.claim.Status.Capacity[corev1.ResourceStorage]
}

// outgrows says whether the volume is to become larger than size on this node: nobody works at that elsewhere, and nobody has found that
// it cannot be. See KEP-1790.
func (v *volume) outgrows(size resource.Quantity) bool {
	if v.persistent == nil || v.readOnly {
		return false
	}
	want := v.persistent.Spec.Capacity[corev1.ResourceStorage]
	switch v.claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case "", corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress:
		return want.Cmp(size) > 0
	}
	return false
}

// grows says whether the driver is to see to that.
func (v *volume) grows(size resource.Quantity, can capabilities) bool {
	return can[csipb.NodeServiceCapability_RPC_EXPAND_VOLUME] && v.outgrows(size)
}

// expand has the driver make the volume as large on this node as it is elsewhere, and returns the size that it has then. size is
// what it has before. Another node may have told the claim already; the file system of this one grows all the same.
func (s *setup) expand(ctx context.Context, size resource.Quantity) (resource.Quantity, error) {
	if !s.volume.grows(size, s.can) {
		return size, nil
	}
	want := s.volume.persistent.Spec.Capacity[corev1.ResourceStorage]
	has := s.volume.has()
	tells := has.Cmp(want) < 0
	if tells {
		if err := s.claimStatus(ctx, inProgress); err != nil {
			return size, err
		}
	}
	secrets, err := s.secret(ctx, s.volume.expandSecret)
	if err != nil {
		return size, err
	}
	_, err = call(ctx, s.driver, func(ctx context.Context, c csipb.NodeClient) (*csipb.NodeExpandVolumeResponse, error) {
		return c.NodeExpandVolume(ctx, &csipb.NodeExpandVolumeRequest{
			VolumeId: s.volume.handle, VolumePath: s.seenBy(s.driver, s.target), StagingTargetPath: s.stagedAt(s.driver, s.record),
			CapacityRange: &csipb.CapacityRange{RequiredBytes: want.Value()}, VolumeCapability: s.capability(), Secrets: secrets,
		})
	})
	if err != nil {
		busy := status.Code(err) == codes.FailedPrecondition
		if tells && isFinal(err) {
			err = errors.Join(err, s.claimStatus(ctx, func(st *corev1.PersistentVolumeClaimStatus) { s.notExpanded(st, want, err) }))
		}
		if busy { // not while it is in use here: it is mounted all the same, and left alone
			klog.FromContext(ctx).Info("A volume in use does not grow", "volume", s.volume.name, "reason", err.Error())
			return want, nil
		}
		return size, fmt.Errorf("kubernetes.io/csi: Expander.NodeExpand failed to expand the volume: %w", err)
	}
	if tells {
		if err := s.claimStatus(ctx, func(st *corev1.PersistentVolumeClaimStatus) { expanded(st, want) }); err != nil {
			return size, err
		}
	}
	message := fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", s.volume.name, s.cfg.NodeName)
	s.tell(corev1.EventTypeNormal, "FileSystemResizeSuccessful", message)
	return want, nil
}

// claimStatus changes the status of the claim, and keeps what came of it for the next change.
func (s *setup) claimStatus(ctx context.Context, change func(*corev1.PersistentVolumeClaimStatus)) error {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	claim := s.volume.claim.DeepCopy()
	change(&claim.Status)
	written, err := s.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return unavailable(fmt.Errorf("writing the status of claim %s/%s: %w", claim.Namespace, claim.Name, err))
	}
	s.volume.claim = written
	return nil
}

func inProgress(st *corev1.PersistentVolumeClaimStatus) {
	if st.AllocatedResourceStatuses == nil {
		st.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	st.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInProgress
}

func expanded(st *corev1.PersistentVolumeClaimStatus, size resource.Quantity) {
	if st.Capacity == nil {
		st.Capacity = corev1.ResourceList{}
	}
	st.Capacity[corev1.ResourceStorage] = size
	if delete(st.AllocatedResourceStatuses, corev1.ResourceStorage); len(st.AllocatedResourceStatuses) == 0 {
		st.AllocatedResourceStatuses = nil
	}
	st.Conditions = slices.DeleteFunc(st.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		switch c.Type {
		case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			return true
		}
		return false
	})
}

// notExpanded tells of a failure for good to grow to a size. What the driver says cannot be is not tried again until somebody asks for
// another size, and neither is what failed before if somebody has asked for another size since: the controller goes on with that.
func (s *setup) notExpanded(st *corev1.PersistentVolumeClaimStatus, want resource.Quantity, failure error) {
	asked := s.volume.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	again := slices.ContainsFunc(st.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimNodeResizeError && c.Status == corev1.ConditionTrue
	})
	switch code := status.Code(failure); {
	case code == codes.InvalidArgument, code == codes.OutOfRange, code == codes.NotFound, again && asked.Cmp(want) != 0:
		st.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInfeasible
	}
	c := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.cfg.Clock.Now()),
		Message: fmt.Sprintf("failed to expand pvc with %v", failure),
	}
	at := slices.IndexFunc(st.Conditions, func(o corev1.PersistentVolumeClaimCondition) bool { return o.Type == c.Type })
	if at < 0 {
		st.Conditions = append(st.Conditions, c)
		return
	}
	c.LastTransitionTime = st.Conditions[at].LastTransitionTime
	st.Conditions[at] = c
}
