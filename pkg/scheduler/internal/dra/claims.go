// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"fmt"
	"maps"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// Claims knows all claims, at least as new as the scheduler itself has written them, and the devices that they have or are
// about to get.
type Claims struct {
	events Source

	mu      sync.Mutex
	objects map[string]*object          // guarded by mu; by namespace/name
	pending map[types.UID]*pendingClaim // guarded by mu; given devices that are not written yet
	devices devices                     // guarded by mu
	// extended are the claims that were made for the extended resources of pods, by pod and by namespace/name.
	extended map[types.UID]map[string]*object // guarded by mu
}

// object is a claim as its informer told and as it is known to be. Both are the same unless the informer is late.
type object struct{ told, latest *resourcev1.ResourceClaim }

type pendingClaim struct {
	claim   *resourcev1.ResourceClaim
	sharers int
}

// NotFoundError is that of a claim which there is not, or not yet.
type NotFoundError struct {
	// Key is namespace/name of the claim.
	Key string
}

func (e NotFoundError) Error() string { return fmt.Sprintf("could not find ResourceClaim %q", e.Key) }

var _ fwk.ResourceClaimTracker = (*Claims)(nil)

func newClaims() *Claims {
	c := &Claims{objects: map[string]*object{}, pending: map[types.UID]*pendingClaim{}, devices: newDevices(), extended: map[types.UID]map[string]*object{}}
	c.events.list = listing(c.List)
	return c
}

func keyOf(c *resourcev1.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// older tells whether a is an older version than b. What is no version is not older: it comes from a source without any.
func older(a, b *resourcev1.ResourceClaim) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

func (c *Claims) handler() cache.ResourceEventHandler {
	told := func(obj any) {
		if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
			c.told(claim)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    told,
		UpdateFunc: func(_, obj any) { told(obj) },
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				c.gone(key)
			}
		},
	}
}

func (c *Claims) told(claim *resourcev1.ResourceClaim) {
	defer c.events.deliver()
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[keyOf(claim)]
	if o == nil {
		o = &object{}
		c.objects[keyOf(claim)] = o
	}
	o.told = claim
	if o.latest == nil || !older(claim, o.latest) {
		c.set(o, claim)
	}
}

func (c *Claims) gone(key string) {
	defer c.events.deliver()
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[key]; o != nil {
		delete(c.objects, key)
		c.set(o, nil)
	}
}

// set makes claim the latest version of o and tells of it. c.mu is held.
func (c *Claims) set(o *object, claim *resourcev1.ResourceClaim) {
	old := o.latest
	o.latest = claim
	c.index(o, old, claim)
	if old != nil && (claim == nil || claim.UID != old.UID) {
		c.count(old.UID, nil)
	}
	switch {
	case claim == nil:
		c.events.changed(old, nil)
		return
	case old == nil:
		c.events.changed(nil, claim)
	case old.ResourceVersion != claim.ResourceVersion || claim.ResourceVersion == "":
		c.events.changed(old, claim)
	}
	c.count(claim.UID, claim)
}

// index finds the claims for extended resources again. c.mu is held.
func (c *Claims) index(o *object, old, claim *resourcev1.ResourceClaim) {
	before, now := extendedOf(old), extendedOf(claim)
	if before == now {
		return
	}
	if before != "" {
		if delete(c.extended[before], keyOf(old)); len(c.extended[before]) == 0 {
			delete(c.extended, before)
		}
	}
	if now != "" {
		if c.extended[now] == nil {
			c.extended[now] = map[string]*object{}
		}
		c.extended[now][keyOf(claim)] = o
	}
}

// extendedOf is the pod for whose extended resources a claim was made, empty if it was made for something else.
func extendedOf(claim *resourcev1.ResourceClaim) types.UID {
	if claim == nil || claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return ""
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil {
		return ""
	}
	return owner.UID
}

// Extended returns a claim that was made for the extended resources of a pod, nil if there is none.
func (c *Claims) Extended(pod types.UID) *resourcev1.ResourceClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.extended[pod] {
		return o.latest
	}
	return nil
}

// count accounts for the devices of a claim: those that are pending, else those of its latest version. c.mu is held.
func (c *Claims) count(uid types.UID, latest *resourcev1.ResourceClaim) {
	if p := c.pending[uid]; p != nil {
		latest = p.claim
	}
	if latest == nil {
		c.devices.set(uid, nil)
		return
	}
	c.devices.set(uid, latest.Status.Allocation)
}

// Get implements fwk.ResourceClaimTracker.
func (c *Claims) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[namespace+"/"+name]; o != nil {
		return o.latest, nil
	}
	return nil, NotFoundError{namespace + "/" + name}
}

// List implements fwk.ResourceClaimTracker.
func (c *Claims) List() ([]*resourcev1.ResourceClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*resourcev1.ResourceClaim, 0, len(c.objects))
	for _, o := range c.objects {
		out = append(out, o.latest)
	}
	return out, nil
}

// ListAllAllocatedDevices implements fwk.ResourceClaimTracker. Of devices that are shared it has none.
func (c *Claims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.devices.state().AllocatedDevices), nil
}

// GatherAllocatedState implements fwk.ResourceClaimTracker. What it returns is shared: it must not be changed.
func (c *Claims) GatherAllocatedState() (*structured.AllocatedState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.devices.state(), nil
}

// Gather is GatherAllocatedState, with its generation.
func (c *Claims) Gather() (state *structured.AllocatedState, generation int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.devices.state(), c.devices.generation
}

// Generations appends for each pool the generation since which nothing of it was taken or given back.
func (c *Claims) Generations(to []int64, pools []Pool) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range pools {
		to = append(to, c.devices.generationOf(p))
	}
	return to
}

// SignalClaimPendingAllocation implements fwk.ResourceClaimTracker: the devices of claim are taken although nobody knows yet.
func (c *Claims) SignalClaimPendingAllocation(uid types.UID, claim *resourcev1.ResourceClaim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[uid]; p != nil {
		p.sharers++
		return nil
	}
	// A claim without a version is one that will be created with its devices.
	if o := c.objects[keyOf(claim)]; o != nil && o.latest.UID == uid && o.latest.Status.Allocation != nil {
		return nil
	} else if o == nil && claim.ResourceVersion != "" {
		return NotFoundError{keyOf(claim)}
	}
	c.pending[uid] = &pendingClaim{claim: claim, sharers: 1}
	c.count(uid, nil)
	return nil
}

// GetPendingAllocation implements fwk.ResourceClaimTracker.
func (c *Claims) GetPendingAllocation(uid types.UID) *resourcev1.AllocationResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[uid]; p != nil {
		return p.claim.Status.Allocation
	}
	return nil
}

// MaybeRemoveClaimPendingAllocation implements fwk.ResourceClaimTracker: from now on what is known of the claim counts.
func (c *Claims) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) (deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[uid]
	if p == nil {
		return false
	}
	if p.sharers--; p.sharers > 0 && !force {
		return false
	}
	delete(c.pending, uid)
	var latest *resourcev1.ResourceClaim
	if o := c.objects[keyOf(p.claim)]; o != nil && o.latest.UID == uid {
		latest = o.latest
	}
	c.count(uid, latest)
	return true
}

// AssumeClaimAfterAPICall implements fwk.ResourceClaimTracker: claim is what the API server has answered. A claim of which the
// informer has not told yet is refused, for its deletion might never be told either.
func (c *Claims) AssumeClaimAfterAPICall(claim *resourcev1.ResourceClaim) error {
	defer c.events.deliver()
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[keyOf(claim)]
	if o == nil {
		return NotFoundError{keyOf(claim)}
	}
	if older(claim, o.latest) {
		return fmt.Errorf("ResourceClaim %q is out of sync (stored: %s, assume: %s)", keyOf(claim), o.latest.ResourceVersion, claim.ResourceVersion)
	}
	c.set(o, claim)
	return nil
}

// AssumedClaimRestore implements fwk.ResourceClaimTracker: what the informer told counts again.
func (c *Claims) AssumedClaimRestore(namespace, name string) {
	defer c.events.deliver()
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[namespace+"/"+name]; o != nil && o.told != nil && o.told != o.latest {
		c.set(o, o.told)
	}
}
