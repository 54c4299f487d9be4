// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "sum"}}
)

// newJob returns a Job of three completions, two at a time.
func newJob(change ...func(*batchv1.Job)) *batchv1.Job {
	labels := map[string]string{"job": "sum"}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sum", UID: "job-uid", Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: batchv1.JobSpec{
			Parallelism:  ptr.To[int32](2),
			Completions:  ptr.To[int32](3),
			BackoffLimit: ptr.To[int32](6),
			Selector:     &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "sum"}}},
			},
		},
	}
	for _, c := range change {
		c(job)
	}
	return job
}

func indexed(job *batchv1.Job) { job.Spec.CompletionMode = new(batchv1.IndexedCompletion) }

func suspended(job *batchv1.Job) { job.Spec.Suspend = new(true) }

func perIndex(limit int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		indexed(job)
		job.Spec.BackoffLimitPerIndex = &limit
	}
}

func onlyFailed(job *batchv1.Job) { job.Spec.PodReplacementPolicy = new(batchv1.Failed) }

// newPod returns a running pod of that Job that waits to be counted.
func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"job": "sum"}, Annotations: map[string]string{},
			Finalizers: []string{batchv1.JobTrackingFinalizer}, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: "sum", UID: "job-uid", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func succeeded(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

// failed is a failure long ago, so that nobody waits for it.
func failed(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }

func failedAgo(d time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		exited(1)(pod)
		pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now.Add(-d))
	}
}

func exited(code int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  "main",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(now.Add(-time.Hour))}},
		}}
	}
}

func ready(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func deleted(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(now.Add(-time.Minute))) }

func free(pod *corev1.Pod) { pod.Finalizers = nil }

func at(index int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(index) }
}

func tries(n int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(n) }
}

func reconciler(c client.Client, events record.EventRecorder) *Reconciler {
	return &Reconciler{Client: c, Live: controllertest.Live(c), Events: events, Clock: clocktesting.NewFakePassiveClock(now)}
}

// kubelet ends running pods, with the phase that outcome says, and removes those that were deleted.
func kubelet(outcome func(*corev1.Pod) corev1.PodPhase) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		var list corev1.PodList
		if err := c.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
				continue
			}
			phase := outcome(pod)
			if pod.DeletionTimestamp != nil {
				phase = corev1.PodFailed
			}
			if phase == pod.Status.Phase {
				continue
			}
			pod.Status.Phase = phase
			if err := c.Status().Update(ctx, pod); err != nil {
				return err
			}
		}
		return nil
	}
}

func succeed(*corev1.Pod) corev1.PodPhase { return corev1.PodSucceeded }

func run(*corev1.Pod) corev1.PodPhase { return corev1.PodRunning }

// summary is what a test expects of a Job at the end.
type summary struct {
	Conditions                           []string
	Active, Succeeded, Failed            int32
	CompletedIndexes, FailedIndexes      string
	Pods, Held                           int
	Started, Completed                   bool
	UncountedSucceeded, UncountedFailed  int
	Ready, Terminating, Adopted, Retried int
}

func summarize(ctx context.Context, c client.Client) (summary, error) {
	job := &batchv1.Job{}
	if err := c.Get(ctx, request.NamespacedName, job); err != nil {
		return summary{}, err
	}
	var list corev1.PodList
	if err := c.List(ctx, &list); err != nil {
		return summary{}, err
	}
	status := job.Status
	s := summary{
		Active: status.Active, Succeeded: status.Succeeded, Failed: status.Failed,
		CompletedIndexes: status.CompletedIndexes, FailedIndexes: ptr.Deref(status.FailedIndexes, ""),
		Started: status.StartTime != nil, Completed: status.CompletionTime != nil,
		Ready: int(ptr.Deref(status.Ready, -1)), Terminating: int(ptr.Deref(status.Terminating, -1)),
		UncountedSucceeded: len(status.UncountedTerminatedPods.Succeeded), UncountedFailed: len(status.UncountedTerminatedPods.Failed),
	}
	for _, cond := range status.Conditions {
		s.Conditions = append(s.Conditions, fmt.Sprintf("%s=%s %s", cond.Type, cond.Status, cond.Reason))
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		s.Pods++
		if hasFinalizer(pod) {
			s.Held++
		}
		if strings.HasPrefix(pod.Name, "orphan") {
			s.Adopted++
		}
		if numberIn(pod, batchv1.JobIndexFailureCountAnnotation) > 0 {
			s.Retried++
		}
	}
	return s, nil
}

func TestReconciler(t *testing.T) {
	foreign := newPod("foreign", func(p *corev1.Pod) { p.Labels = map[string]string{"job": "other"} })
	orphan := newPod("orphan", free, func(p *corev1.Pod) { p.OwnerReferences = nil })
	complete := []string{"SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"}
	fail := func(reason string) []string { return []string{"FailureTarget=True " + reason, "Failed=True " + reason} }
	tests := []struct {
		name    string
		objects []client.Object
		world   func(*corev1.Pod) corev1.PodPhase
		// loosen takes out of the result what depends on how far a pass got before it failed.
		loosen func(*summary)
		want   summary
	}{
		{
			name: "completions", objects: []client.Object{newJob()}, world: succeed,
			want: summary{Conditions: complete, Succeeded: 3, Pods: 3, Started: true, Completed: true},
		},
		{
			name: "indexes", objects: []client.Object{newJob(indexed)}, world: succeed,
			want: summary{Conditions: complete, Succeeded: 3, CompletedIndexes: "0-2", Pods: 3, Started: true, Completed: true},
		},
		{
			name: "work queue", world: succeed,
			objects: []client.Object{newJob(func(j *batchv1.Job) { j.Spec.Completions = nil })},
			loosen:  func(s *summary) { s.Succeeded, s.Pods = max(s.Succeeded, 2), max(s.Pods, 2) },
			want:    summary{Conditions: complete, Succeeded: 2, Pods: 2, Started: true, Completed: true},
		},
		{
			name: "adopt and release", world: run,
			objects: []client.Object{newJob(), orphan, foreign, newPod("own")},
			want:    summary{Active: 2, Pods: 2, Held: 2, Adopted: 1, Started: true},
		},
		{
			name: "back-off limit", world: run,
			objects: []client.Object{newJob(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) }), newPod("a", failed), newPod("b", succeeded)},
			want:    summary{Conditions: fail("BackoffLimitExceeded"), Succeeded: 1, Failed: 1, Pods: 2, Started: true},
		},
		{
			name: "deadline lets running pods fail", world: run,
			objects: []client.Object{
				newJob(func(j *batchv1.Job) {
					j.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
					j.Status.StartTime = new(metav1.NewTime(now.Add(-time.Minute)))
				}),
				newPod("a"), newPod("b"),
			},
			want: summary{Conditions: fail("DeadlineExceeded"), Failed: 2, Started: true},
		},
		{
			name: "failed pods are replaced", world: succeed,
			objects: []client.Object{newJob(), newPod("a", failed), newPod("b", succeeded)},
			want:    summary{Conditions: complete, Succeeded: 3, Failed: 1, Pods: 4, Started: true, Completed: true},
		},
		{
			name: "suspended", world: run,
			objects: []client.Object{newJob(suspended), newPod("a", ready), newPod("b", succeeded)},
			want:    summary{Conditions: []string{"Suspended=True JobSuspended"}, Succeeded: 1, Pods: 1},
		},
		{
			name: "resumed", world: succeed,
			objects: []client.Object{newJob(func(j *batchv1.Job) {
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, Reason: "JobSuspended"}}
			})},
			want: summary{Conditions: append([]string{"Suspended=False JobResumed"}, complete...), Succeeded: 3, Pods: 3, Started: true, Completed: true},
		},
		{
			name: "an index that has failed too often", objects: []client.Object{newJob(perIndex(1)), newPod("a", failed, at(1), tries(1))}, world: succeed,
			want: summary{
				Conditions: fail("FailedIndexes"), Succeeded: 2, Failed: 1, CompletedIndexes: "0,2", FailedIndexes: "1", Pods: 3, Started: true, Retried: 1,
			},
		},
		{
			name: "an index that has another try", objects: []client.Object{newJob(perIndex(1)), newPod("a", failed, at(1))}, world: succeed,
			want: summary{
				Conditions: complete, Succeeded: 3, Failed: 1, CompletedIndexes: "0-2", Pods: 4, Started: true, Completed: true, Retried: 1,
			},
		},
		{
			name: "success policy", world: run,
			objects: []client.Object{
				newJob(indexed, func(j *batchv1.Job) {
					j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](1)}}}
				}),
				newPod("a", succeeded, at(2)), newPod("b", at(0)),
			},
			loosen: func(s *summary) { s.Failed = 0 },
			want: summary{
				Conditions: []string{"SuccessCriteriaMet=True SuccessPolicy", "Complete=True SuccessPolicy"},
				Succeeded:  1, CompletedIndexes: "2", Pods: 1, Started: true, Completed: true,
			},
		},
		{
			name: "an interrupted count", world: run,
			objects: []client.Object{
				newJob(func(j *batchv1.Job) {
					j.Spec.Completions = ptr.To[int32](2)
					j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"gone", "there"}, Failed: []types.UID{"let-go"}}
				}),
				newPod("there", succeeded), newPod("let-go", failed, free),
			},
			want: summary{Conditions: complete, Succeeded: 2, Failed: 1, Pods: 2, Started: true, Completed: true},
		},
		{
			name: "being deleted", world: run,
			objects: []client.Object{
				newJob(func(j *batchv1.Job) {
					j.DeletionTimestamp, j.Finalizers = new(metav1.NewTime(now)), []string{metav1.FinalizerDeleteDependents}
				}),
				newPod("a"), newPod("b", succeeded),
			},
			want: summary{Active: 1, Succeeded: 1, Pods: 2, Started: true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: request,
				New:     func(c client.Client) reconcile.Reconciler { return reconciler(c, &record.FakeRecorder{}) },
				World:   kubelet(tt.world),
				Want: func(ctx context.Context, c client.Client) error {
					got, err := summarize(ctx, c)
					if err != nil {
						return err
					}
					if tt.loosen != nil {
						tt.loosen(&got)
					}
					if diff := cmp.Diff(tt.want, got); diff != "" {
						return fmt.Errorf("the Job (-want +got):\n%s", diff)
					}
					return nil
				},
				MaxPasses: 40,
			})
		})
	}
}

// store returns a client on a fake API server.
func store(objects ...client.Object) client.WithWatch {
	return controllertest.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&batchv1.Job{}, &corev1.Pod{}).Build()
}

func TestReconcile_Ignores(t *testing.T) {
	tests := []struct {
		name   string
		job    *batchv1.Job
		events []string
	}{
		{name: "managed elsewhere", job: newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/kueue") })},
		{name: "finished", job: newJob(func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		})},
		{
			name: "unknown mode", job: newJob(func(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To[batchv1.CompletionMode]("Random") }),
			events: []string{"Warning UnknownCompletionMode Skipped Job sync because completion mode is unknown"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, events := store(tt.job, newPod("a", succeeded)), record.NewFakeRecorder(10)
			if result, err := reconciler(c, events).Reconcile(t.Context(), request); err != nil || !result.IsZero() {
				t.Fatalf("result %v, error %v", result, err)
			}
			if got := drain(events); !slices.Equal(got, tt.events) {
				t.Errorf("events %q, want %q", got, tt.events)
			}
			pod := &corev1.Pod{}
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "a"}, pod); err != nil || !hasFinalizer(pod) {
				t.Errorf("touched the pod: %v, %v", pod.Finalizers, err)
			}
		})
	}
}

func drain(events *record.FakeRecorder) []string {
	close(events.Events)
	var all []string
	for e := range events.Events {
		all = append(all, e)
	}
	return all
}

func TestReconcile_Events(t *testing.T) {
	quota := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
	one := func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](1), ptr.To[int32](1) }
	tests := []struct {
		name    string
		objects []client.Object
		fail    error
		want    []string
	}{
		{name: "create", objects: []client.Object{newJob(one)}, want: []string{"Normal SuccessfulCreate Created pod: sum-"}},
		{name: "quota", objects: []client.Object{newJob(one)}, fail: quota, want: []string{"Warning FailedCreate Error creating: "}},
		{name: "complete", objects: []client.Object{newJob(one), newPod("a", succeeded)}, want: []string{"Normal Completed Job completed"}},
		{
			name: "too many", objects: []client.Object{newJob(one), newPod("a", succeeded), newPod("b", succeeded)},
			want: []string{"Warning TooManySucceededPods Too many succeeded pods running after completion count reached", "Normal Completed Job completed"},
		},
		{
			name: "failed", objects: []client.Object{newJob(one, func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) }), newPod("a", failed)},
			want: []string{"Warning BackoffLimitExceeded Job has reached the specified backoff limit"},
		},
		{
			name: "suspended", objects: []client.Object{newJob(one, suspended), newPod("a")},
			want: []string{"Normal SuccessfulDelete Deleted pod: a", "Normal Suspended Job suspended"},
		},
		{
			name: "resumed", objects: []client.Object{newJob(func(j *batchv1.Job) {
				j.Spec.Parallelism = ptr.To[int32](0)
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
			})},
			want: []string{"Normal Resumed Job resumed"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			c := interceptor.NewClient(store(tt.objects...), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					if tt.fail != nil {
						return tt.fail
					}
					return c.Create(ctx, obj, opts...)
				},
			})
			if _, err := reconciler(c, events).Reconcile(t.Context(), request); !errors.Is(err, tt.fail) {
				t.Errorf("error is %v, want %v", err, tt.fail)
			}
			got := drain(events)
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("events %q, want %q", got, tt.want)
			}
		})
	}
}

// TestReconcile_StaleFinalizer lets the cache show a pod as it was before it was let go: it must not count twice.
func TestReconcile_StaleFinalizer(t *testing.T) {
	stale := newPod("a", failed, deleted)
	base := store(newJob(), stale)
	c := interceptor.NewClient(base, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pods := list.(*corev1.PodList); !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == "a" }) {
				pods.Items = append(pods.Items, *stale.DeepCopy())
			}
			return err
		},
	})
	r := reconciler(c, &record.FakeRecorder{})
	for range 3 {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	job := &batchv1.Job{}
	if err := base.Get(t.Context(), request.NamespacedName, job); err != nil {
		t.Fatal(err)
	}
	if job.Status.Failed != 1 {
		t.Errorf("failed is %d, want 1", job.Status.Failed)
	}
}

func TestReconcile_BackOff(t *testing.T) {
	tests := []struct {
		name    string
		objects []client.Object
		want    time.Duration
	}{
		{name: "first failure", objects: []client.Object{newJob(), newPod("a", failedAgo(4*time.Second))}, want: 6 * time.Second},
		{name: "second", objects: []client.Object{newJob(), newPod("a", failedAgo(4*time.Second)), newPod("b", failedAgo(9*time.Second))}, want: 16 * time.Second},
		{
			name:    "after a success",
			objects: []client.Object{newJob(), newPod("a", failedAgo(4*time.Second)), newPod("b", failedAgo(time.Hour)), newPod("c", succeeded)},
			want:    6 * time.Second,
		},
		{name: "of one index", objects: []client.Object{newJob(perIndex(5)), newPod("a", at(0), tries(2), failedAgo(5*time.Second))}, want: 35 * time.Second},
		{
			name:    "deadline comes first",
			objects: []client.Object{newJob(func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](3) }), newPod("a", failedAgo(0))},
			want:    3 * time.Second,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, err := reconciler(store(tt.objects...), &record.FakeRecorder{}).Reconcile(t.Context(), request)
			if err != nil || result.RequeueAfter != tt.want {
				t.Errorf("comes back after %v, want %v (error %v)", result.RequeueAfter, tt.want, err)
			}
		})
	}
}

// delays is a queue that notes after what time a request was added.
type delays struct {
	queue
	added []time.Duration
}

func (d *delays) Add(reconcile.Request) { d.added = append(d.added, 0) }

func (d *delays) AddAfter(_ reconcile.Request, after time.Duration) { d.added = append(d.added, after) }

func TestHandlers_Batch(t *testing.T) {
	changed := newJob(func(j *batchv1.Job) { j.Generation++ })
	counted := newJob(func(j *batchv1.Job) { j.Status.Active++ })
	tests := []struct {
		name   string
		handle func(context.Context, queue)
		want   time.Duration
	}{
		{name: "new Job", handle: func(ctx context.Context, q queue) { jobHandler().Create(ctx, event.CreateEvent{Object: newJob()}, q) }},
		{name: "spec", handle: func(ctx context.Context, q queue) {
			jobHandler().Update(ctx, event.UpdateEvent{ObjectOld: newJob(), ObjectNew: changed}, q)
		}},
		{name: "status", handle: func(ctx context.Context, q queue) {
			jobHandler().Update(ctx, event.UpdateEvent{ObjectOld: newJob(), ObjectNew: counted}, q)
		}, want: batchPeriod},
		{name: "pod", handle: func(ctx context.Context, q queue) {
			batched(&handler.EnqueueRequestForObject{}).Delete(ctx, event.DeleteEvent{Object: newPod("a")}, q)
		}, want: batchPeriod},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := &delays{}
			tt.handle(t.Context(), q)
			if !slices.Equal(q.added, []time.Duration{tt.want}) {
				t.Errorf("added after %v, want %v", q.added, tt.want)
			}
		})
	}
}

// TestReconcile_FailsBeforeDeadline tries in vain to create a pod: that must not keep it from seeing the deadline.
func TestReconcile_FailsBeforeDeadline(t *testing.T) {
	quota := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
	tests := []struct {
		name     string
		deadline int64
		want     time.Duration
		err      error
	}{
		{name: "far away", deadline: 90, want: 90 * time.Second, err: quota},
		{name: "near", deadline: 60, want: lastRetryDelay},
		{name: "very near", deadline: 3, want: 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := interceptor.NewClient(store(newJob(func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &tt.deadline })), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return quota },
			})
			counted := rise(syncs.WithLabelValues("NonIndexed", "error", "pods_created"), func() {
				result, err := reconciler(c, &record.FakeRecorder{}).Reconcile(t.Context(), request)
				if result.RequeueAfter != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("comes back after %v with error %v, want %v and %v", result.RequeueAfter, err, tt.want, tt.err)
				}
			})
			if counted != 1 {
				t.Errorf("%v errors are counted, want 1", counted)
			}
		})
	}
}

func TestOrphans(t *testing.T) {
	finished := func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}
	tests := []struct {
		name string
		job  *batchv1.Job
		pod  *corev1.Pod
		held bool
	}{
		{name: "of a running Job", job: newJob(), pod: newPod("a"), held: true},
		{name: "of a finished Job", job: newJob(finished), pod: newPod("a")},
		{name: "of a finished Job managed elsewhere", job: newJob(finished, func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/x") }), pod: newPod("a"), held: true},
		{name: "of a Job that is gone", pod: newPod("a")},
		{name: "of an earlier Job of the name", job: newJob(func(j *batchv1.Job) { j.UID = "newer" }), pod: newPod("a")},
		{name: "of nobody", pod: newPod("a", func(p *corev1.Pod) { p.OwnerReferences = nil })},
		{name: "of another kind", pod: newPod("a", func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" }), held: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := []client.Object{tt.pod}
			if tt.job != nil {
				objects = append(objects, tt.job)
			}
			c := store(objects...)
			key := client.ObjectKeyFromObject(tt.pod)
			for range 2 {
				if _, err := (&Orphans{Client: c}).Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Get(t.Context(), key, tt.pod); err != nil || hasFinalizer(tt.pod) != tt.held {
				t.Errorf("held: %v, want %v (error %v)", hasFinalizer(tt.pod), tt.held, err)
			}
		})
	}
}

func TestOrphans_HeldBy(t *testing.T) {
	c := store(newPod("a"), newPod("b", free), newPod("c", func(p *corev1.Pod) { p.Labels = nil }))
	got := (&Orphans{Client: c}).heldBy(t.Context(), newJob())
	if len(got) != 1 || got[0].Name != "a" {
		t.Errorf("pods %v, want a", got)
	}
}
