// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/dns/internal/hosts"
)

// checkInterval is how often the file is looked at, which its user may change at any time.
const checkInterval = 30 * time.Second

// Reconciler keeps the block of a cluster in the hosts file. Each pass is about all objects.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	// Cluster is the name of the cluster.
	Cluster string

	file hosts.File
	// ended says that the block has gone for good.
	ended *atomic.Bool
}

// Reconcile makes the block what it is to be, and says of each object whether its name is there.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list := &v1alpha1.DnsList{}
	if err := r.Client.List(ctx, list); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing Dns objects: %w", err)
	}
	var verdicts []finding
	failed := r.file.Edit(ctx, func(text string) string {
		if r.ended.Load() {
			return text
		}
		var entries []hosts.Entry
		entries, verdicts = plan(list.Items, hosts.Others(text, r.Cluster))
		return hosts.Set(text, r.Cluster, entries)
	})
	if failed != nil && verdicts == nil { // the file cannot even be read
		_, verdicts = plan(list.Items, nil)
	}
	if r.ended.Load() {
		return reconcile.Result{}, nil
	}
	errs := []error{failed}
	for i := range list.Items {
		if failed != nil && verdicts[i].status == metav1.ConditionTrue {
			verdicts[i] = finding{metav1.ConditionFalse, v1alpha1.ReasonWriteFailed, failed.Error() + ": the name is known to pods only; let minik8s run as root, or mend the file"}
		}
		errs = append(errs, r.tell(ctx, &list.Items[i], verdicts[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	if len(list.Items) == 0 {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: checkInterval}, nil
}

// tell writes the condition of an object, and an event if it is to be known to the user. Who has changed the object meanwhile is heard
// of by the watch.
func (r *Reconciler) tell(ctx context.Context, d *v1alpha1.Dns, f finding) error {
	c := metav1.Condition{Type: v1alpha1.InHostsFile, Status: f.status, Reason: f.reason, Message: f.text, ObservedGeneration: d.Generation}
	next := d.DeepCopy()
	if !meta.SetStatusCondition(&next.Status.Conditions, c) {
		return nil
	}
	err := r.Client.Status().Update(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status of Dns %s: %w", client.ObjectKeyFromObject(d), err)
	}
	if old := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.InHostsFile); f.warns() && (old == nil || old.Reason != f.reason || old.Message != f.text) {
		r.Recorder.Eventf(next, nil, corev1.EventTypeWarning, f.reason, "WriteHostsFile", "%s", f.text)
	}
	return nil
}
