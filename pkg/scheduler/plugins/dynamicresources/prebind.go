// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// PreBindPreFlight implements fwk.PreBindPlugin.
func (*DynamicResources) PreBindPreFlight(_ context.Context, cs fwk.CycleState, _ *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	if read(cs) == nil {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes which devices the claims have and that the pod uses them, and waits for devices that are to be prepared before.
func (pl *DynamicResources) PreBind(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	s := read(cs)
	if s == nil {
		return nil
	}
	for i := range s.claims {
		c := &s.claims[i]
		if resourceclaim.IsReservedForPod(pod, c.claim, false) || c.special && c.allocation == nil {
			continue
		}
		if err := pl.bind(ctx, c, pod, s.placements[node]); err != nil {
			return fwk.AsStatus(err)
		}
	}
	if err := pl.awaitBinding(ctx, s, pod, node); err != nil {
		return fwk.AsStatus(err)
	}
	for i := range s.claims {
		pl.release(&s.claims[i])
	}
	return nil
}

// bind writes a claim. Afterwards c has what is stored, as far as that is known.
func (pl *DynamicResources) bind(ctx context.Context, c *podClaim, pod *corev1.Pod, place *placement) error {
	if c.special {
		if err := pl.createClaim(ctx, c, place); err != nil {
			return err
		}
	}
	if err := pl.record(ctx, c, pod); err != nil {
		return err
	}
	if !c.special {
		pl.assume(ctx, c.claim)
		return nil
	}
	pl.assumeNew(ctx, c.claim)
	return pl.patchPod(ctx, pod, c.claim, place)
}

const (
	// maxConflicts bounds how often a claim is read again because others write it, maxLost how often it is written without an
	// answer although it can be read.
	maxConflicts = 10
	maxLost      = 5
	// retryCap is the longest pause between two attempts to write, or to look.
	retryCap = 10 * time.Second
)

func backoff() wait.DelayFunc {
	return wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 20, Cap: retryCap}.DelayFunc()
}

// record writes the devices that were found and the pod into a claim; what others write at the same time stays. What was written
// without an answer may be stored all the same, and its devices must not be given away before that is known.
func (pl *DynamicResources) record(ctx context.Context, c *podClaim, pod *corev1.Pod) error {
	claim, conflicts, lost, failed := c.claim.DeepCopy(), 0, 0, error(nil)
	return backoff().Until(ctx, true, false, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		var err error
		if failed != nil {
			if claim, err = pl.claims(c).Get(ctx, c.claim.Name, metav1.GetOptions{}); err != nil {
				err = fmt.Errorf("get updated claim %s after conflict: %w", klog.KObj(c.claim), err)
			} else if lost >= maxLost && !resourceclaim.IsReservedForPod(pod, claim, false) {
				c.unknown = false
				return false, failed
			}
		}
		if err == nil {
			claim, err = pl.write(ctx, c, claim, pod)
		}
		failed = err
		switch {
		case err == nil:
			c.claim, c.unknown = claim, false
			return true, nil
		case apierrors.IsConflict(err) && conflicts < maxConflicts:
			conflicts++
			return false, nil
		case errors.Is(err, errChanged) || !framework.IsLost(err):
			c.unknown = false
			return false, err
		}
		lost++
		c.unknown = true
		klog.FromContext(ctx).Error(err, "There was no answer when a claim was written; looking", "resourceclaim", klog.KObj(c.claim), "pod", klog.KObj(pod))
		return false, nil
	})
}

// errChanged is that of claims which others changed such that the decision does not hold any more.
var errChanged = errors.New("in the meantime")

// claims returns the client for the namespace of a claim.
func (pl *DynamicResources) claims(c *podClaim) resourceclient.ResourceClaimInterface {
	return pl.handle.ClientSet().ResourceV1().ResourceClaims(c.claim.Namespace)
}

// write stores a version of c's claim with the devices and the pod. It changes that version.
func (pl *DynamicResources) write(ctx context.Context, c *podClaim, claim *resourcev1.ResourceClaim, pod *corev1.Pod) (*resourcev1.ResourceClaim, error) {
	switch {
	case claim.DeletionTimestamp != nil || claim.UID != c.claim.UID:
		return nil, fmt.Errorf("claim %s got deleted %w", klog.KObj(claim), errChanged)
	case resourceclaim.IsReservedForPod(pod, claim, false):
		return claim, nil // an answer got lost
	case c.allocation == nil && claim.Status.Allocation == nil:
		return nil, fmt.Errorf("claim %s got deallocated elsewhere %w", klog.KObj(claim), errChanged)
	case c.allocation != nil && claim.Status.Allocation != nil:
		return nil, fmt.Errorf("claim %s got allocated elsewhere %w", klog.KObj(claim), errChanged)
	}
	what := "reservation"
	if c.allocation != nil {
		what = "allocation and reservation"
		// The finalizer is first, so that the claim does not go before its devices are given back.
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
			claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
			updated, err := pl.claims(c).Update(ctx, claim, metav1.UpdateOptions{})
			if err != nil {
				return nil, fmt.Errorf("add finalizer to claim %s: %w", klog.KObj(claim), err)
			}
			claim = updated
		}
		claim.Status.Allocation = c.allocation.DeepCopy()
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
		APIGroup: corev1.GroupName, Resource: "pods", Name: pod.Name, UID: pod.UID,
	})
	updated, err := pl.claims(c).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("add %s to claim %s: %w", what, klog.KObj(claim), err)
	}
	return updated, nil
}

// find looks until it knows what became of a claim that was written without an answer, or ctx ends.
func (pl *DynamicResources) find(ctx context.Context, c *podClaim) {
	err := backoff().Until(ctx, true, false, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		latest, err := pl.claims(c).Get(ctx, c.claim.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "Looking what became of a claim failed; looking again", "resourceclaim", klog.KObj(c.claim))
			return false, nil
		}
		c.unknown = false
		if err == nil && latest.UID == c.claim.UID {
			c.claim = latest
			pl.assume(ctx, latest)
		}
		return true, nil
	})
	if err != nil {
		klog.FromContext(ctx).Info("What became of a claim is not known", "resourceclaim", klog.KObj(c.claim), "reason", err.Error())
	}
}

// errBindingTimeout and errBindingFailed are why devices were not prepared.
var (
	errBindingTimeout = errors.New("device binding timeout")
	errBindingFailed  = errors.New("device binding failed")
)

// bindingPoll is for a look into the cache, no request.
const bindingPoll = 100 * time.Millisecond

// awaitBinding waits until all devices that have conditions meet them, and counts what came of that.
func (pl *DynamicResources) awaitBinding(ctx context.Context, s *state, pod *corev1.Pod, node string) error {
	waits := slices.ContainsFunc(s.claims, func(c podClaim) bool {
		return c.claim.Status.Allocation != nil && slices.ContainsFunc(c.claim.Status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
			return len(r.BindingConditions) > 0
		})
	})
	if !waits {
		return nil
	}
	pl.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, "BindingConditionsPending", "Scheduling", "waiting for binding conditions for device on node %s", node)
	start := time.Now()
	err := pl.pollBinding(ctx, s)
	status := metrics.DevicesReady
	switch {
	case errors.Is(err, errBindingTimeout):
		status = metrics.DevicesTimedOut
	case errors.Is(err, errBindingFailed):
		status = metrics.DevicesFailed
	case err != nil:
		status = metrics.DevicesUnknown
	}
	for i := range s.claims {
		if a := s.claims[i].claim.Status.Allocation; a != nil {
			for k := range a.Devices.Results {
				r := &a.Devices.Results[k]
				pl.count.DeviceAwaited(pl.handle.ProfileName(), r.Driver, status, time.Since(start), len(r.BindingConditions) > 0)
			}
		}
	}
	return err
}

func (pl *DynamicResources) pollBinding(ctx context.Context, s *state) error {
	err := wait.PollUntilContextTimeout(ctx, bindingPoll, pl.bindingTimeout, true, func(context.Context) (bool, error) {
		for i := range s.claims {
			c := &s.claims[i]
			if c.claim.Status.Allocation == nil {
				continue
			}
			latest, err := pl.dra.ResourceClaims().Get(c.claim.Namespace, c.claim.Name)
			if err != nil {
				return false, err
			}
			c.claim = latest
			if ready, err := bindingReady(latest); err != nil {
				return false, err
			} else if ready {
				continue
			}
			if pl.bindingTimedOut(latest) {
				return false, fmt.Errorf("%w: claim=%s", errBindingTimeout, latest.Name)
			}
			return false, nil
		}
		return true, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errBindingTimeout, err)
	}
	return err
}

// bindingReady tells whether all devices of a claim meet the conditions they have for a pod to be bound. One that failed is an
// error.
func bindingReady(claim *resourcev1.ResourceClaim) (bool, error) {
	if claim.Status.Allocation == nil {
		return false, nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		at := slices.IndexFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
		})
		if at < 0 {
			return false, nil
		}
		met := func(name string) *metav1.Condition {
			for k := range claim.Status.Devices[at].Conditions {
				if c := &claim.Status.Devices[at].Conditions[k]; c.Type == name && c.Status == metav1.ConditionTrue {
					return c
				}
			}
			return nil
		}
		for _, name := range r.BindingFailureConditions {
			if c := met(name); c != nil {
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", errBindingFailed, claim.Name, c.Reason, c.Message)
			}
		}
		for _, name := range r.BindingConditions {
			if met(name) == nil {
				return false, nil
			}
		}
	}
	return true, nil
}

// bindingTimedOut tells whether devices with conditions have had their time to meet them.
func (pl *DynamicResources) bindingTimedOut(claim *resourcev1.ResourceClaim) bool {
	a := claim.Status.Allocation
	return a != nil && a.AllocationTimestamp != nil && a.AllocationTimestamp.Add(pl.bindingTimeout).Before(time.Now()) &&
		slices.ContainsFunc(a.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool { return r.BindingConditions != nil })
}
