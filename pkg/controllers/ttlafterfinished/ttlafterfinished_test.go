// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ttlafterfinished

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "sum"}}
)

// finished returns a Job which ended a minute ago and may stay for ttl seconds.
func finished(ttl int32, change ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sum", UID: "job-uid"},
		Spec:       batchv1.JobSpec{TTLSecondsAfterFinished: &ttl},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))},
		}},
	}
	for _, c := range change {
		c(job)
	}
	return job
}

func reconciler(cached client.Client, live client.Reader) *Reconciler {
	return &Reconciler{Client: cached, Live: live, Clock: clocktesting.NewFakePassiveClock(now)}
}

func TestReconciler(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{finished(60)},
		Request: request,
		New:     func(c client.Client) reconcile.Reconciler { return reconciler(c, controllertest.Live(c)) },
		Want: func(ctx context.Context, c client.Client) error {
			if err := c.Get(ctx, request.NamespacedName, &batchv1.Job{}); !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		},
	})
}

func TestReconcile(t *testing.T) {
	tests := []struct {
		name         string
		cached, live *batchv1.Job
		wait         time.Duration
		deletes      bool
		fails        bool
	}{
		{name: "at once", cached: finished(0), live: finished(0), deletes: true},
		{name: "not yet", cached: finished(100), wait: 40 * time.Second},
		{name: "given more time meanwhile", cached: finished(60), live: finished(90), wait: 30 * time.Second},
		{name: "allowed to stay meanwhile", cached: finished(60), live: finished(0, func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = nil })},
		{name: "being deleted", cached: finished(0, func(j *batchv1.Job) {
			j.DeletionTimestamp, j.Finalizers = new(metav1.NewTime(now)), []string{metav1.FinalizerDeleteDependents}
		})},
		{name: "no limit", cached: finished(0, func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = nil })},
		{name: "goes on", cached: finished(0, func(j *batchv1.Job) { j.Status.Conditions = j.Status.Conditions[:1] })},
		{name: "does not say when", cached: finished(0, func(j *batchv1.Job) { j.Status.Conditions[1].LastTransitionTime = metav1.Time{} }), fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var propagation *metav1.DeletionPropagation
			store := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tt.cached).Build()
			cached := interceptor.NewClient(store, interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
					propagation = (&client.DeleteOptions{}).ApplyOptions(opts).PropagationPolicy
					return nil
				},
			})
			live := client.Client(store)
			if tt.live != nil {
				live = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tt.live).Build()
			}
			result, err := reconciler(cached, live).Reconcile(t.Context(), request)
			if (err != nil) != tt.fails || result.RequeueAfter != tt.wait {
				t.Errorf("comes back after %v, error %v", result.RequeueAfter, err)
			}
			if got := ptr.Deref(propagation, ""); (got == metav1.DeletePropagationForeground) != tt.deletes {
				t.Errorf("deleted with propagation %q", got)
			}
		})
	}
}
