// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cronjob starts the Jobs of a CronJob when their time has come and removes old ones. Touch it when a Job
// starts at the wrong time (schedule.go), or is started, kept or forgotten wrongly (reconcile.go, history.go).
package cronjob

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// Reconciler works on one CronJob at a time. It has to be behind a setup.Env.Barrier,
// so that a start is not seen as one that is still due.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	if err := setup.Register(creationSkew); err != nil {
		return err
	}
	r := &Reconciler{Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock}
	owner := handler.EnqueueRequestForOwner(env.Manager.GetScheme(), env.Manager.GetRESTMapper(), &batchv1.CronJob{},
		handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		Watches(&batchv1.CronJob{}, r.handler()).
		Watches(&batchv1.Job{}, owner).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// handler looks at a CronJob at once, except when it got another schedule: then the starts that this one would have had
// in the past are not made up for, and the CronJob waits for the next one.
func (r *Reconciler) handler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	self := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		CreateFunc: self.Create,
		DeleteFunc: self.Delete,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*batchv1.CronJob), e.ObjectNew.(*batchv1.CronJob)
			if before.Spec.Schedule == after.Spec.Schedule && ptr.Equal(before.Spec.TimeZone, after.Spec.TimeZone) {
				self.Update(ctx, e, q)
				return
			}
			schedule, err := Parse(after)
			if err != nil {
				r.Events.Eventf(after, corev1.EventTypeWarning, "UnParseableCronJobSchedule",
					"unparseable schedule for cronjob: %s", after.Spec.Schedule)
				return
			}
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)}
			q.AddAfter(request, untilNext(after, schedule, r.Clock.Now()))
		},
	}
}
