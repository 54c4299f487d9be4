// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicetainteviction

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Pool is the name of a set of devices.
type Pool struct{ Driver, Name string }

// Taints are all taints that devices may have.
type Taints struct {
	// Slices returns the slices of a pool, outdated ones among them.
	Slices func(Pool) ([]resourcev1.ResourceSlice, error)
	// Rules put taints on devices besides those that are in the slices.
	Rules []resourcev1.DeviceTaintRule
}

// Eviction says when a pod has to go.
type Eviction struct {
	At time.Time
	// Rules are those that ask for it; taints of slices may do so as well.
	Rules sets.Set[types.UID]
}

// ofPod returns when the pod has to go because of the devices of its claims, or nil.
func (t Taints) ofPod(pod *corev1.Pod, claim func(name string) (*resourcev1.ResourceClaim, error)) (*Eviction, error) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	var first *Eviction
	for i := range pod.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue // not made yet, or not needed
		}
		c, err := claim(*name)
		if err != nil {
			return nil, err
		}
		if c == nil || c.Status.Allocation == nil || own && resourceclaim.IsForPod(pod, c, false) != nil || !resourceclaim.IsReservedForPod(pod, c, false) {
			continue
		}
		next, err := t.ofClaim(c)
		if err != nil {
			return nil, err
		}
		first = earlier(first, next)
	}
	return first, nil
}

// ofClaim returns when the users of an allocated claim have to go, or nil.
func (t Taints) ofClaim(claim *resourcev1.ResourceClaim) (*Eviction, error) {
	var first *Eviction
	for i := range claim.Status.Allocation.Devices.Results {
		device := &claim.Status.Allocation.Devices.Results[i]
		slices, err := t.Slices(Pool{Driver: device.Driver, Name: device.Pool})
		if err != nil {
			return nil, err
		}
		for _, taint := range published(slices, device.Device) {
			if at, ok := expiry(taint, device.Tolerations); ok {
				first = earlier(first, &Eviction{At: at})
			}
		}
		for j := range t.Rules {
			if rule := &t.Rules[j]; Selects(rule, device.Driver, device.Pool, device.Device) {
				if at, ok := expiry(rule.Spec.Taint, device.Tolerations); ok {
					first = earlier(first, &Eviction{At: at, Rules: sets.New(rule.UID)})
				}
			}
		}
	}
	return first, nil
}

// earlier joins two evictions, either of which may be nil: the earlier time counts, for the reasons of both.
func earlier(a, b *Eviction) *Eviction {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	joined := &Eviction{At: a.At, Rules: a.Rules.Union(b.Rules)}
	if b.At.Before(a.At) {
		joined.At = b.At
	}
	return joined
}

// expiry returns until when a device with this taint may be used; ok is false if that has no end.
func expiry(taint resourcev1.DeviceTaint, tolerations []resourcev1.DeviceToleration) (at time.Time, ok bool) {
	if taint.Effect != resourcev1.DeviceTaintEffectNoExecute || taint.TimeAdded == nil {
		return time.Time{}, false
	}
	seconds := int64(math.MaxInt64)
	for _, toleration := range tolerations {
		if toleration.Effect != resourcev1.DeviceTaintEffectNoExecute || !resourceclaim.ToleratesTaint(toleration, taint) {
			continue
		}
		if toleration.TolerationSeconds == nil {
			return time.Time{}, false
		}
		seconds = min(seconds, max(*toleration.TolerationSeconds, 0))
	}
	if seconds == math.MaxInt64 {
		seconds = 0
	}
	return taint.TimeAdded.Add(time.Duration(seconds) * time.Second), true
}

// published returns the taints that the newest slices of a pool put on a device.
func published(slices []resourcev1.ResourceSlice, device string) []resourcev1.DeviceTaint {
	for _, slice := range current(slices) {
		for i := range slice.Spec.Devices {
			if slice.Spec.Devices[i].Name == device {
				return slice.Spec.Devices[i].Taints
			}
		}
	}
	return nil
}

// current returns the slices of the pool's newest generation.
func current(slices []resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	newest := int64(math.MinInt64)
	for i := range slices {
		newest = max(newest, slices[i].Spec.Pool.Generation)
	}
	var found []*resourcev1.ResourceSlice
	for i := range slices {
		if slices[i].Spec.Pool.Generation == newest {
			found = append(found, &slices[i])
		}
	}
	return found
}

// Selects tells whether a rule is about a device. One without selector is about none.
func Selects(rule *resourcev1.DeviceTaintRule, driver, pool, device string) bool {
	s := rule.Spec.DeviceSelector
	return s != nil &&
		(s.Driver == nil || *s.Driver == driver) &&
		(s.Pool == nil || *s.Pool == pool) &&
		(s.Device == nil || *s.Device == device)
}
