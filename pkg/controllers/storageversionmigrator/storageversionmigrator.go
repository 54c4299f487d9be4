// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package storageversionmigrator carries out StorageVersionMigrations (KEP-4192): it writes every object of a resource anew, so
// that all are stored in the version of today. Touch schedule.go for which migration runs when, migrate.go for how objects are
// written, and definition.go for what a CustomResourceDefinition says of it.
package storageversionmigrator

import (
	"context"
	"fmt"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// fieldManager owns what is written to the objects that are migrated, definitionManager what is said of it in the status
	// of CustomResourceDefinitions.
	fieldManager      = "storage-version-migrator-controller"
	definitionManager = "migration-runner-controller"

	// patience is how long after its creation a migration may be for a resource that is not served yet.
	patience = time.Minute
	// again is how often such a resource is looked for.
	again = 5 * time.Second
	// passTimeout bounds one pass over all objects of a resource.
	passTimeout = time.Hour
)

// Reconciler works on one StorageVersionMigration at a time.
type Reconciler struct {
	Client client.Client
	// Definitions are told when their objects are migrated.
	Definitions apiextensionsv1.CustomResourceDefinitionInterface
	// Metadata lists the objects and writes them anew.
	Metadata metadata.Interface
	// Discover finds a resource as the API server serves it, or nil.
	Discover func(context.Context, schema.GroupResource) (*Resource, error)
	Clock    clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	objects, err := metadata.NewForConfigAndClient(metadata.ConfigFor(env.RESTConfig), env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the metadata client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(env.RESTConfig, env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the discovery client: %w", err)
	}
	definitions, err := apiextensionsv1.NewForConfigAndClient(env.RESTConfig, env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the client of custom resource definitions: %w", err)
	}
	r := &Reconciler{
		Client: env.Client, Definitions: definitions.CustomResourceDefinitions(), Metadata: objects, Discover: discover(disco), Clock: env.Clock,
	}
	options := env.Options()
	options.ReconciliationTimeout = passTimeout
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		// The end of one migration lets the next of the same resource begin.
		Watches(&migrationv1.StorageVersionMigration{}, handler.EnqueueRequestsFromMapFunc(r.ofSameResource)).
		WithOptions(options).
		Complete(env.Barrier.PerRequest(r))
}

// ofSameResource maps a migration to all of its resource, itself among them.
func (r *Reconciler) ofSameResource(ctx context.Context, obj client.Object) []reconcile.Request {
	all, err := r.list(ctx, obj.(*migrationv1.StorageVersionMigration).Spec.Resource)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Mapping a storage version migration")
		return nil
	}
	requests := make([]reconcile.Request, len(all))
	for i := range all {
		requests[i].Name = all[i].Name
	}
	return requests
}

// list returns all migrations of a resource.
func (r *Reconciler) list(ctx context.Context, resource metav1.GroupResource, options ...client.ListOption) ([]migrationv1.StorageVersionMigration, error) {
	var all migrationv1.StorageVersionMigrationList
	if err := r.Client.List(ctx, &all, options...); err != nil {
		return nil, fmt.Errorf("listing storage version migrations: %w", err)
	}
	var same []migrationv1.StorageVersionMigration
	for i := range all.Items {
		if all.Items[i].Spec.Resource == resource {
			same = append(same, all.Items[i])
		}
	}
	return same, nil
}

// Reconcile takes the migration in req one step on. Each step ends with a write of the status, whose event leads to the next.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m := &migrationv1.StorageVersionMigration{}
	if err := r.Client.Get(ctx, req.NamespacedName, m); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case hasEnded(m) && isRunning(m):
		return reconcile.Result{}, r.complete(ctx, m)
	case hasEnded(m):
		return reconcile.Result{}, nil
	case !isRunning(m):
		return reconcile.Result{}, r.begin(ctx, m)
	}
	resource, err := r.Discover(ctx, schema.GroupResource(m.Spec.Resource))
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("looking for the resource %v: %w", m.Spec.Resource, err)
	}
	switch {
	case resource == nil && r.Clock.Since(m.CreationTimestamp.Time) < patience:
		return reconcile.Result{RequeueAfter: again}, nil
	case resource == nil:
		return reconcile.Result{}, r.fail(ctx, m, "resource does not exist in discovery")
	case m.Status.ResourceVersion == "":
		return reconcile.Result{}, r.recordVersion(ctx, m, resource)
	}
	return reconcile.Result{}, r.migrate(ctx, m, resource)
}

// begin marks the migration as running if it is its turn.
func (r *Reconciler) begin(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	same, err := r.list(ctx, m.Spec.Resource)
	if err != nil {
		return err
	}
	if next := turn(same); next == nil || next.UID != m.UID || next.Name != m.Name {
		return nil
	}
	if err := r.markDefinition(ctx, m, func(d definition) condition { return beginning(d, m.Name) }); err != nil {
		return err
	}
	r.set(m, migrationv1.MigrationRunning, "MigrationRunning", runningMessage(0, 0, nil))
	return r.writeStatus(ctx, m)
}

// complete says that an ended migration does not run any more.
func (r *Reconciler) complete(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	succeeded := meta.IsStatusConditionTrue(m.Status.Conditions, string(migrationv1.MigrationSucceeded))
	if err := r.markDefinition(ctx, m, func(d definition) condition { return ending(d, succeeded) }); err != nil {
		return err
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type:               string(migrationv1.MigrationRunning),
		Status:             metav1.ConditionFalse,
		Reason:             "MigrationCompleted",
		Message:            "Migration completed",
		ObservedGeneration: m.Generation,
		LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	return r.writeStatus(ctx, m)
}

// fail ends the migration.
func (r *Reconciler) fail(ctx context.Context, m *migrationv1.StorageVersionMigration, message string) error {
	r.set(m, migrationv1.MigrationFailed, "StorageVersionMigrationFailed", message)
	return r.writeStatus(ctx, m)
}

func (r *Reconciler) set(m *migrationv1.StorageVersionMigration, kind migrationv1.MigrationConditionType, reason, message string) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: string(kind), Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
}

func (r *Reconciler) writeStatus(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	if err := r.Client.Status().Update(ctx, m); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of storage version migration %q: %w", m.Name, err)
	}
	return nil
}
