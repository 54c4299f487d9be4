// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Reconcile judges the Job in req, creates or removes pods, counts those that have ended and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
	begin := r.Clock.Now()
	job := &batchv1.Job{}
	if err := r.Client.Get(ctx, req.NamespacedName, job); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.Delete(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if isManagedElsewhere(job) || isFinished(job) {
		r.memories.Delete(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	switch ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion) {
	case batchv1.NonIndexedCompletion, batchv1.IndexedCompletion:
	default:
		r.Events.Event(job, corev1.EventTypeWarning, "UnknownCompletionMode",
			"Skipped Job sync because completion mode is unknown")
		return reconcile.Result{}, nil
	}
	did, late := reconciling, error(nil)
	defer func() { countPass(job, did, cmp.Or(err, late), r.Clock.Since(begin)) }()
	claimed, err := r.claim(ctx, job)
	if err != nil {
		return reconcile.Result{}, err
	}
	m := r.recall(job, claimed)
	s := observe(job, claimed, m)
	wait, err := r.advance(ctx, s, m)
	did, late = s.did, s.late
	return reconcile.Result{RequeueAfter: wait}, err
}

// recall returns what is remembered of the Job. Pods that the cache knows to be let go are forgotten.
func (r *Reconciler) recall(job *batchv1.Job, claimed []*corev1.Pod) *memory {
	m := &memory{uid: job.UID}
	if known, ok := r.memories.Load(client.ObjectKeyFromObject(job)); ok && known.(*memory).uid == job.UID {
		m = known.(*memory)
	}
	released := sets.Set[types.UID]{}
	for _, pod := range claimed {
		if m.released.Has(pod.UID) && hasFinalizer(pod) {
			released.Insert(pod.UID)
		}
	}
	m.released = released
	r.memories.Store(client.ObjectKeyFromObject(job), m)
	return m
}

// advance takes the Job one step further. wait is the time until the next one is due, unless something happens before;
// 0 is never.
func (r *Reconciler) advance(ctx context.Context, s *state, m *memory) (wait time.Duration, err error) {
	now := r.Clock.Now()
	status := &s.job.Status
	if status.StartTime == nil && !isSuspended(s.job) {
		status.StartTime = &metav1.Time{Time: now}
	}
	end := s.verdict(now)
	changed := false
	var podErr error
	if end != nil {
		if podErr = r.stop(ctx, s); podErr != nil {
			// There are pods left whose end has to be awaited.
			end = nil
		}
	} else {
		left, _ := untilDeadline(s.job, now)
		managing := s.job.DeletionTimestamp == nil
		if managing {
			p := s.manage(now)
			podErr = r.carryOut(ctx, s, p)
			left = sooner(left, p.wait)
		}
		wait = left
		if s.isComplete() {
			end = newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonCompletionsReached,
				"Reached expected number of succeeded pods", now)
		} else if managing {
			if reason, message := noteSuspension(s.job, now); reason != "" {
				changed = true
				r.Events.Event(s.job, corev1.EventTypeNormal, reason, message)
			}
		}
	}
	changed = changed || s.active != status.Active || !ptr.Equal(&s.ready, status.Ready) ||
		!ptr.Equal(&s.terminating, status.Terminating)
	status.Active, status.Ready, status.Terminating = s.active, new(s.ready), new(s.terminating)
	more, err := r.track(ctx, s, m, end, changed)
	if err != nil {
		return 0, fmt.Errorf("tracking status: %w", err)
	}
	if more {
		wait = batchPeriod
	}
	if podErr != nil && wait > 0 && wait <= maxRetryDelay {
		// A pass that returns an error is tried again at a time of the queue's choice, which may be past the deadline.
		s.late = podErr
		ctrl.LoggerFrom(ctx).Error(podErr, "Managing the pods of a Job")
		return min(wait, lastRetryDelay), nil
	}
	return wait, podErr
}

// stop deletes all live pods. They are let go when they are counted.
func (r *Reconciler) stop(ctx context.Context, s *state) error {
	control := pods.Control{Client: r.Client, Events: r.Events}
	return s.noteRemoved(s.live, pods.Each(len(s.live), func(i int) error { return control.Delete(ctx, s.job, s.live[i]) }))
}

// carryOut creates and removes pods as planned. Pods that are removed do not count as failed, so they are let go first.
func (r *Reconciler) carryOut(ctx context.Context, s *state, p plan) error {
	s.did = p.did
	control := pods.Control{Client: r.Client, Events: r.Events}
	errs := pods.Each(len(p.remove), func(i int) error {
		if err := removeFinalizer(ctx, r.Client, p.remove[i], ""); err != nil {
			return err
		}
		return control.Delete(ctx, s.job, p.remove[i])
	})
	for i, pod := range p.remove {
		if errs[i] == nil {
			s.released.Insert(pod.UID)
		}
	}
	if err := s.noteRemoved(p.remove, errs); err != nil || len(p.create) == 0 {
		return err
	}
	t := template(s.job)
	var made, failed atomic.Int64
	created, err := pods.SlowStart(len(p.create), func(i int) error {
		err := control.Create(ctx, s.job, s.newPod(t, p.create[i]))
		if err != nil {
			failed.Add(1)
		} else {
			made.Add(1)
		}
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	})
	countCreated(s, &made, &failed)
	s.active += int32(created)
	return err
}

// noteRemoved corrects the numbers after live pods were deleted, and returns the first error.
func (s *state) noteRemoved(removed []*corev1.Pod, errs []error) error {
	for i, pod := range removed {
		if errs[i] != nil {
			continue
		}
		s.active--
		s.terminating++
		if pods.IsReady(pod) {
			s.ready--
		}
	}
	return first(errs)
}

// track counts the pods that have ended and declares the Job finished when it is; see state for the steps. changed is
// whether the status has to be written in any case, more whether there are pods left to count.
func (r *Reconciler) track(
	ctx context.Context, s *state, m *memory, end *batchv1.JobCondition, changed bool,
) (more bool, err error) {
	now := r.Clock.Now()
	before := s.before
	held := s.held()
	settled := settle(&s.job.Status, held)
	t := s.tally(end)
	final, announced := announce(s.job, end, now)
	if changed || settled || t.changed || announced {
		if err := r.Client.Status().Update(ctx, s.job); err != nil {
			return false, fmt.Errorf("adding uncounted pods to status: %w", err)
		}
		m.failures = s.failures
		countChange(s.job, before)
		before = countedIn(s.job)
	}
	releaseErr := r.release(ctx, s, held, t.release)
	for action, n := range t.judged {
		judgedFailures.WithLabelValues(string(action)).Add(float64(n))
	}
	changed = settle(&s.job.Status, held)
	finished := releaseErr == nil && !t.truncated && s.finish(final, now)
	if changed || finished {
		if err := r.Client.Status().Update(ctx, s.job); err != nil {
			return false, errors.Join(releaseErr, fmt.Errorf("removing uncounted pods from status: %w", err))
		}
		countChange(s.job, before)
	}
	if finished {
		countEnd(s.job, final)
		r.announce(s.job, final)
	}
	return t.truncated, releaseErr
}

// release lets pods go and takes them out of held.
func (r *Reconciler) release(ctx context.Context, s *state, held sets.Set[types.UID], release []*corev1.Pod) error {
	errs := pods.Each(len(release), func(i int) error { return removeFinalizer(ctx, r.Client, release[i], "") })
	for i, pod := range release {
		if errs[i] == nil {
			held.Delete(pod.UID)
			s.released.Insert(pod.UID)
		}
	}
	return first(errs)
}

// announce records the events about the end of the Job.
func (r *Reconciler) announce(job *batchv1.Job, final *batchv1.JobCondition) {
	if final.Type == batchv1.JobFailed {
		r.Events.Event(job, corev1.EventTypeWarning, final.Reason, final.Message)
		return
	}
	if job.Spec.Completions != nil && job.Status.Succeeded > *job.Spec.Completions {
		r.Events.Event(job, corev1.EventTypeWarning, "TooManySucceededPods",
			"Too many succeeded pods running after completion count reached")
	}
	r.Events.Event(job, corev1.EventTypeNormal, "Completed", "Job completed")
}

// removeFinalizer removes the tracking finalizer. A pod that is gone already is no error. With a version, it is a conflict if the
// pod has another one.
func removeFinalizer(ctx context.Context, c client.Client, pod *corev1.Pod, version string) error {
	if !hasFinalizer(pod) {
		return nil
	}
	metadata := map[string]any{"$deleteFromPrimitiveList/finalizers": []string{batchv1.JobTrackingFinalizer}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("rendering the patch: %w", err)
	}
	// Nothing but metadata is answered.
	target := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
	}
	err = c.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, data))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the tracking finalizer of pod %q: %w", pod.Name, err)
	}
	return nil
}

// first returns the first error. All others are likely to say the same.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
