// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// shared are the kinds that other controllers watch in full anyway: a second watch of their metadata would cost the API server
// and this process more than it is worth. Kinds of which the manager's cache has only a part must not be here.
var shared = map[string][]string{
	"": {
		"Endpoints", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "ReplicationController", "ResourceQuota",
		"Service", "ServiceAccount",
	},
	"apps":                      {"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"batch":                     {"CronJob", "Job"},
	"certificates.k8s.io":       {"CertificateSigningRequest", "PodCertificateRequest"},
	"discovery.k8s.io":          {"EndpointSlice"},
	"networking.k8s.io":         {"IPAddress", "ServiceCIDR"},
	"policy":                    {"PodDisruptionBudget"},
	"rbac.authorization.k8s.io": {"ClusterRole"},
	"resource.k8s.io":           {"DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"},
	"storage.k8s.io":            {"StorageClass", "VolumeAttachment", "VolumeAttributesClass"},
	"storagemigration.k8s.io":   {"StorageVersionMigration"},
}

// sharedKinds returns shared as a set.
func sharedKinds() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for group, names := range shared {
		for _, name := range names {
			kinds[schema.GroupKind{Group: group, Kind: name}] = true
		}
	}
	return kinds
}

// listen lets the monitor hear of the objects of a cache that others share, until stop is called.
func (m *monitor) listen(ctx context.Context, objects cache.Informers) error {
	informer, err := objects.GetInformerForKind(ctx, m.resource.GroupVersion().WithKind(m.resource.Kind), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("getting the informer of %v: %w", m.resource, err)
	}
	registration, err := informer.AddEventHandler(m.handler())
	if err != nil {
		return fmt.Errorf("listening to the informer of %v: %w", m.resource, err)
	}
	m.hasSynced = registration.HasSynced
	// At the end of the process the informer may have stopped already; then there is nothing to remove.
	m.stop = func() { _ = informer.RemoveEventHandler(registration) }
	return nil
}

// handler tells the monitor what an informer sees. Errors are of objects without metadata, which an informer has none of.
func (m *monitor) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { _ = m.Add(obj) },
		UpdateFunc: func(before, after any) {
			if replaced(before, after) {
				_ = m.Delete(before)
			}
			_ = m.Update(after)
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			_ = m.Delete(obj)
		},
	}
}

// replaced tells whether an object was deleted and made anew while nobody watched.
func replaced(before, after any) bool {
	a, errA := meta.Accessor(before)
	b, errB := meta.Accessor(after)
	return errA == nil && errB == nil && a.GetUID() != b.GetUID()
}
