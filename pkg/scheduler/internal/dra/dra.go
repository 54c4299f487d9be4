// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dra knows the claims, devices and device classes of the cluster for the scheduler (KEP-4381), among them what the
// scheduler itself has decided and nobody else has seen yet. Touch it when something else than a claim takes a device, or when
// plugins need another view of these objects.
package dra

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Manager implements fwk.SharedDRAManager on informers. All profiles share one.
type Manager struct {
	claims    *Claims
	slices    *tracker.Tracker
	classes   classLister
	resources *extendedresourcecache.ExtendedResourceCache

	sliceEvents, classEvents *Source
}

var _ fwk.SharedDRAManager = (*Manager)(nil)

// New returns a manager that follows the factory's informers until ctx ends. The caller starts them.
func New(ctx context.Context, factory informers.SharedInformerFactory) (*Manager, error) {
	api := factory.Resource().V1()
	m := &Manager{claims: newClaims(), classes: classLister{api.DeviceClasses().Lister()}}

	informer := api.ResourceClaims().Informer()
	registration, err := informer.AddEventHandler(m.claims.handler())
	if err != nil {
		return nil, fmt.Errorf("watching ResourceClaims: %w", err)
	}
	m.claims.events.parent = registration
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) })

	// Taints of DeviceTaintRules are added to the devices.
	m.slices, err = tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true, EnableConsumableCapacity: true,
		SliceInformer: api.ResourceSlices(), TaintInformer: api.DeviceTaintRules(),
	})
	if err != nil {
		return nil, fmt.Errorf("watching ResourceSlices: %w", err)
	}
	context.AfterFunc(ctx, m.slices.Stop)
	m.sliceEvents = &Source{list: listing(m.slices.ListPatchedResourceSlices)}
	if m.sliceEvents.parent, err = m.slices.AddEventHandler(m.sliceEvents.relay()); err != nil {
		return nil, fmt.Errorf("watching ResourceSlices: %w", err)
	}

	// A class is known to the resolver before anybody hears of it.
	m.classEvents = &Source{list: listing(m.classes.List)}
	m.resources = extendedresourcecache.NewExtendedResourceCache(klog.FromContext(ctx), m.classEvents.relay())
	classInformer := api.DeviceClasses().Informer()
	classRegistration, err := classInformer.AddEventHandler(m.resources)
	if err != nil {
		return nil, fmt.Errorf("watching DeviceClasses: %w", err)
	}
	m.classEvents.parent = classRegistration
	context.AfterFunc(ctx, func() { _ = classInformer.RemoveEventHandler(classRegistration) })
	return m, nil
}

// HasSynced tells whether all that there was at the start is known.
func (m *Manager) HasSynced() bool {
	return m.Claims().parent.HasSynced() && m.Slices().parent.HasSynced() && m.Classes().parent.HasSynced()
}

// Claims tells of ResourceClaims. Who hears of a change there finds it in the manager already.
func (m *Manager) Claims() *Source { return &m.claims.events }

// Slices tells of ResourceSlices.
func (m *Manager) Slices() *Source { return m.sliceEvents }

// Classes tells of DeviceClasses.
func (m *Manager) Classes() *Source { return m.classEvents }

// Known are the claims, and more of them than the published interface tells.
func (m *Manager) Known() *Claims { return m.claims }

// ResourceClaims implements fwk.SharedDRAManager.
func (m *Manager) ResourceClaims() fwk.ResourceClaimTracker { return m.claims }

// ResourceSlices implements fwk.SharedDRAManager.
func (m *Manager) ResourceSlices() fwk.ResourceSliceLister { return sliceLister{m.slices} }

// DeviceClasses implements fwk.SharedDRAManager.
func (m *Manager) DeviceClasses() fwk.DeviceClassLister { return m.classes }

// DeviceClassResolver implements fwk.SharedDRAManager.
func (m *Manager) DeviceClassResolver() fwk.DeviceClassResolver { return m.resources }

type sliceLister struct{ tracker *tracker.Tracker }

func (s sliceLister) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	return s.tracker.ListPatchedResourceSlices()
}

type classLister struct {
	resourcelisters.DeviceClassLister
}

func (c classLister) List() ([]*resourcev1.DeviceClass, error) {
	return c.DeviceClassLister.List(labels.Everything())
}

// listing makes a list of anything; what cannot be listed is empty.
func listing[T any](list func() ([]T, error)) func() []any {
	return func() []any {
		objects, err := list()
		if err != nil {
			return nil
		}
		out := make([]any, len(objects))
		for i, o := range objects {
			out[i] = o
		}
		return out
	}
}

var _ cache.ResourceEventHandlerRegistration = (*subscription)(nil)
