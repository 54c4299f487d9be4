// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
)

const (
	// noNamespace is a name that no namespace can have: a list there is empty, but tells the present resource version.
	noNamespace = "@fake:svm_ns!"
	// page is the number of objects that are listed at a time.
	page = 500
)

// needed are the verbs that a resource must have for its objects to be migrated.
var needed = []string{"update", "patch", "list"}

// stored is an object as it was listed.
type stored struct{ namespace, name, version string }

// recordVersion writes down the resource version of this moment: what was written later is stored in the right version.
func (r *Reconciler) recordVersion(ctx context.Context, m *migrationv1.StorageVersionMigration, resource *Resource) error {
	if slices.ContainsFunc(needed, func(verb string) bool { return !slices.Contains(resource.Verbs, verb) }) {
		return r.fail(ctx, m, fmt.Sprintf("resource %q does not support discovery operations: %v", resource.String(), needed))
	}
	var lister metadata.ResourceInterface = r.Metadata.Resource(resource.GroupVersionResource)
	if resource.Namespaced {
		lister = r.Metadata.Resource(resource.GroupVersionResource).Namespace(noNamespace)
	}
	list, err := lister.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("getting the latest resource version of %v: %w", resource.GroupVersionResource, err)
	}
	if _, err := resourceversion.CompareResourceVersion(list.ResourceVersion, list.ResourceVersion); err != nil {
		return r.fail(ctx, m, fmt.Sprintf("latest resourceVersion for %s is not valid: %v", resource.String(), err))
	}
	m.Status.ResourceVersion = list.ResourceVersion
	return r.writeStatus(ctx, m)
}

// migrate writes all objects anew that are older than the migration.
func (r *Reconciler) migrate(ctx context.Context, m *migrationv1.StorageVersionMigration, resource *Resource) error {
	old, total, err := r.candidates(ctx, m.Status.ResourceVersion, resource)
	if err != nil {
		return err
	}
	for done, object := range old {
		left := len(old) - done
		err := r.rewrite(ctx, resource, object)
		switch {
		case err == nil:
		case isTransient(err):
			r.set(m, migrationv1.MigrationRunning, "MigrationRunning", runningMessage(left, total, err))
			if statusErr := r.writeStatus(ctx, m); statusErr != nil {
				return statusErr
			}
			return err
		case ctx.Err() != nil:
			return err
		default:
			r.set(m, migrationv1.MigrationRunning, "MigrationRunning", runningMessage(left, total, nil))
			return r.fail(ctx, m, fmt.Sprintf("%d/%d not yet migrated. migration encountered unhandled error: %v", left, total, err))
		}
	}
	r.set(m, migrationv1.MigrationRunning, "MigrationRunning", runningMessage(0, total, nil))
	r.set(m, migrationv1.MigrationSucceeded, "StorageVersionMigrationSucceeded", "Migration completed")
	return r.writeStatus(ctx, m)
}

// candidates lists the objects that were last written at version or before, and tells how many objects there are in all.
func (r *Reconciler) candidates(ctx context.Context, version string, resource *Resource) (old []stored, total int, err error) {
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := r.Metadata.Resource(resource.GroupVersionResource).List(ctx, options)
		if err != nil {
			return nil, 0, fmt.Errorf("listing %v: %w", resource.GroupVersionResource, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			later, err := resourceversion.CompareResourceVersion(object.ResourceVersion, version)
			if err != nil {
				return nil, 0, fmt.Errorf("comparing resource versions of %v %q: %w", resource.GroupVersionResource, object.Name, err)
			}
			if later <= 0 {
				old = append(old, stored{namespace: object.Namespace, name: object.Name, version: object.ResourceVersion})
			}
		}
		total += len(list.Items)
		if options.Continue = list.Continue; options.Continue == "" {
			return old, total, nil
		}
	}
}

// rewrite patches nothing but the version it expects. Whoever has changed, deleted or replaced the object meanwhile has migrated
// it.
func (r *Reconciler) rewrite(ctx context.Context, resource *Resource, object stored) error {
	patch, err := json.Marshal(map[string]any{
		"apiVersion": resource.GroupVersion().String(),
		"kind":       resource.Kind,
		"metadata":   map[string]string{"resourceVersion": object.version},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = r.Metadata.Resource(resource.GroupVersionResource).Namespace(object.namespace).
		Patch(ctx, object.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// isTransient tells whether a write may succeed when it is repeated.
func isTransient(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}

// runningMessage says how far a migration has got.
func runningMessage(left, total int, transient error) string {
	message := "The migration is running"
	switch {
	case total == 0:
	case left > 0:
		message += fmt.Sprintf(", %d/%d objects not yet migrated", left, total)
	default:
		message += fmt.Sprintf(", %d objects verified migrated", total)
	}
	if transient != nil {
		message += fmt.Sprintf("; transient error: %s", transient)
	}
	return message
}
