// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"context"
	"fmt"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1apply "k8s.io/apiextensions-apiserver/pkg/client/applyconfiguration/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// definition is what counts of a CustomResourceDefinition.
type definition struct {
	generation int64
	// begun is the generation at which the migration began; 0 if none has.
	begun int64
	// storage is the version that objects are stored in.
	storage string
}

// condition is what its status says of the migration.
type condition struct {
	status          apiextensionsv1.ConditionStatus
	reason, message string
	// stored, if not empty, is the only version that objects are stored in.
	stored string
}

// beginning is the condition while a migration runs.
func beginning(_ definition, migration string) condition {
	return condition{status: "True", reason: "MigrationRunning", message: fmt.Sprintf("Migration %s is running", migration)}
}

// ending is the condition after a migration. When it has succeeded no objects are left in other versions, unless the definition
// has changed on the way. Upstream also says so when it has failed, which would let somebody drop a version that is still stored.
func ending(d definition, succeeded bool) condition {
	switch {
	case !succeeded:
		return condition{status: "False", reason: "MigrationFailed", message: "The migration has failed"}
	case d.begun != d.generation:
		return condition{
			status: "False", reason: "MigrationSucceeded",
			message: "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
		}
	}
	return condition{
		status: "False", reason: "MigrationSucceeded", stored: d.storage,
		message: "The migration has succeeded and the stored versions have been updated",
	}
}

// markDefinition writes what decide says into the definition of the migrated resource, if it is a custom one.
func (r *Reconciler) markDefinition(ctx context.Context, m *migrationv1.StorageVersionMigration, decide func(definition) condition) error {
	name := m.Spec.Resource.Resource + "." + m.Spec.Resource.Group
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd, err := r.Definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		d := read(crd)
		// With its resource version the write fails if the definition has changed since it was read.
		patch := applied(name, crd.ResourceVersion, d, decide(d), r.Clock.Now())
		_, err = r.Definitions.ApplyStatus(ctx, patch, metav1.ApplyOptions{FieldManager: definitionManager, Force: true})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking the custom resource definition %q: %w", name, err)
	}
	return nil
}

func read(crd *apiextensionsv1.CustomResourceDefinition) definition {
	d := definition{generation: crd.Generation}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.StorageMigrating {
			d.begun = c.ObservedGeneration
		}
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			d.storage = v.Name
		}
	}
	return d
}

// applied is the part of a definition that this controller owns.
func applied(name, resourceVersion string, d definition, c condition, now time.Time) *apiextensionsv1apply.CustomResourceDefinitionApplyConfiguration {
	status := apiextensionsv1apply.CustomResourceDefinitionStatus().WithConditions(apiextensionsv1apply.CustomResourceDefinitionCondition().
		WithType(apiextensionsv1.StorageMigrating).
		WithStatus(c.status).
		WithReason(c.reason).
		WithMessage(c.message).
		WithLastTransitionTime(metav1.NewTime(now)).
		WithObservedGeneration(d.generation))
	if c.stored != "" {
		status.WithStoredVersions(c.stored)
	}
	return apiextensionsv1apply.CustomResourceDefinition(name).WithResourceVersion(resourceVersion).WithStatus(status)
}
