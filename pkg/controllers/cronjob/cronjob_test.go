// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	// now is half a minute after a start that is due.
	now     = time.Date(2026, 5, 1, 12, 0, 30, 0, time.UTC)
	onTime  = now.Truncate(time.Hour)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "report"}}
)

// current is the name of the Job that is due.
var current = fmt.Sprintf("report-%d", onTime.Unix()/60)

// hourly returns a CronJob that starts a Job at each full hour, the last time an hour ago.
func hourly(change ...func(*batchv1.CronJob)) *batchv1.CronJob {
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "report", UID: "cj-uid", CreationTimestamp: metav1.NewTime(now.Add(-48 * time.Hour))},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 * * * *", ConcurrencyPolicy: batchv1.AllowConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "report"}, Annotations: map[string]string{"a": "b"}},
				Spec:       batchv1.JobSpec{Completions: ptr.To[int32](4)},
			},
		},
		Status: batchv1.CronJobStatus{LastScheduleTime: new(metav1.NewTime(onTime.Add(-time.Hour)))},
	}
	for _, c := range change {
		c(cj)
	}
	return cj
}

func policy(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = p }
}

func done(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = new(metav1.NewTime(onTime)) }

func active(names ...string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		for _, name := range names {
			cj.Status.Active = append(cj.Status.Active, corev1.ObjectReference{
				APIVersion: "batch/v1", Kind: "Job", Namespace: "ns", Name: name, UID: types.UID(name),
			})
		}
	}
}

func zone(name string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &name }
}

// child returns a Job of that CronJob, which is running.
func child(name string, change ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(hourly(), kind)},
		},
		Status: batchv1.JobStatus{StartTime: new(metav1.NewTime(now.Add(-time.Hour)))},
	}
	for _, c := range change {
		c(job)
	}
	return job
}

func ended(as batchv1.JobConditionType, ago time.Duration) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: as, Status: corev1.ConditionTrue}}
		job.Status.StartTime = new(metav1.NewTime(now.Add(-ago)))
		if as == batchv1.JobComplete {
			job.Status.CompletionTime = new(metav1.NewTime(now.Add(-ago)))
		}
	}
}

func reconciler(c client.Client, events record.EventRecorder) *Reconciler {
	return &Reconciler{Client: c, Live: controllertest.Live(c), Events: events, Clock: clocktesting.NewFakePassiveClock(now)}
}

func limits(succeeded, failed int32) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = &succeeded, &failed
	}
}

// result is what a test expects at the end.
type result struct {
	Jobs, Active []string
	Last         time.Time
	Success      time.Duration // before now
}

func TestReconciler(t *testing.T) {
	tests := []struct {
		name    string
		objects []client.Object
		want    result
	}{
		{name: "start", objects: []client.Object{hourly()}, want: result{Jobs: []string{current}, Active: []string{current}, Last: onTime}},
		{
			name:    "start beside another",
			objects: []client.Object{hourly(active("old")), child("old")},
			want:    result{Jobs: []string{"old", current}, Active: []string{"old", current}, Last: onTime},
		},
		{
			name:    "replace",
			objects: []client.Object{hourly(policy(batchv1.ReplaceConcurrent), active("old")), child("old")},
			want:    result{Jobs: []string{current}, Active: []string{current}, Last: onTime},
		},
		{
			name:    "started by an earlier try",
			objects: []client.Object{hourly(), child(current)},
			want:    result{Jobs: []string{current}, Active: []string{current}, Last: onTime},
		},
		{
			name:    "finished and missing ones",
			objects: []client.Object{hourly(done, active("gone", "good", "bad")), child("good", ended(batchv1.JobComplete, time.Minute)), child("bad", ended(batchv1.JobFailed, time.Minute))},
			want:    result{Jobs: []string{"bad", "good"}, Last: onTime, Success: time.Minute},
		},
		{
			name: "history",
			objects: []client.Object{
				hourly(done, limits(2, 1)), child("a", ended(batchv1.JobComplete, 3*time.Hour)), child("b", ended(batchv1.JobComplete, time.Hour)),
				child("c", ended(batchv1.JobComplete, 2*time.Hour)), child("d", ended(batchv1.JobFailed, 3*time.Hour)),
				child("e", ended(batchv1.JobFailed, time.Hour)), child("f", ended(batchv1.JobFailed, 2*time.Hour)),
				child("stranger", ended(batchv1.JobFailed, 9*time.Hour), func(j *batchv1.Job) { j.OwnerReferences = nil }),
			},
			want: result{Jobs: []string{"b", "c", "e", "stranger"}, Last: onTime, Success: time.Hour},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: request,
				New:     func(c client.Client) reconcile.Reconciler { return reconciler(c, &record.FakeRecorder{}) },
				Want: func(ctx context.Context, c client.Client) error {
					got, err := resultOf(ctx, c)
					if err != nil {
						return err
					}
					if diff := cmp.Diff(tt.want, got); diff != "" {
						return fmt.Errorf("result (-want +got):\n%s", diff)
					}
					return nil
				},
			})
		})
	}
}

func resultOf(ctx context.Context, c client.Client) (result, error) {
	cj := &batchv1.CronJob{}
	if err := c.Get(ctx, request.NamespacedName, cj); err != nil {
		return result{}, err
	}
	var jobs batchv1.JobList
	if err := c.List(ctx, &jobs); err != nil {
		return result{}, err
	}
	var got result
	for _, job := range jobs.Items {
		got.Jobs = append(got.Jobs, job.Name)
	}
	for _, ref := range cj.Status.Active {
		got.Active = append(got.Active, ref.Name)
	}
	if cj.Status.LastScheduleTime != nil {
		got.Last = cj.Status.LastScheduleTime.UTC()
	}
	if cj.Status.LastSuccessfulTime != nil {
		got.Success = now.Sub(cj.Status.LastSuccessfulTime.Time)
	}
	return got, nil
}

func store(objects ...client.Object) client.WithWatch {
	return controllertest.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&batchv1.CronJob{}, &batchv1.Job{}).Build()
}

func TestReconcile_Events(t *testing.T) {
	quota := apierrors.NewForbidden(batchv1.Resource("jobs"), "", errors.New("exceeded quota"))
	nextHour := time.Hour - 30*time.Second + lateness
	tests := []struct {
		name    string
		objects []client.Object
		fail    error
		jobs    int
		wait    time.Duration
		want    []string
	}{
		{name: "start", objects: []client.Object{hourly()}, jobs: 1, wait: nextHour, want: []string{"Normal SuccessfulCreate Created job " + current}},
		{name: "not now", objects: []client.Object{hourly(done)}, wait: nextHour},
		{name: "suspended", objects: []client.Object{hourly(func(cj *batchv1.CronJob) { cj.Spec.Suspend = new(true) })}},
		{name: "quota", objects: []client.Object{hourly()}, fail: quota, want: []string{"Warning FailedCreate Error creating job: "}},
		{
			name: "forbid", objects: []client.Object{hourly(policy(batchv1.ForbidConcurrent), active("old")), child("old")}, jobs: 1, wait: nextHour,
			want: []string{"Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid"},
		},
		{
			name: "forbid, but it has finished", objects: []client.Object{hourly(policy(batchv1.ForbidConcurrent), active("old")), child("old", ended(batchv1.JobFailed, 0))},
			jobs: 2, wait: nextHour,
			want: []string{"Normal SawCompletedJob Saw completed job: old, condition: Failed", "Normal SuccessfulCreate Created job " + current},
		},
		{
			name: "replace", objects: []client.Object{hourly(policy(batchv1.ReplaceConcurrent), active("old")), child("old")}, jobs: 1, wait: nextHour,
			want: []string{"Normal SuccessfulDelete Deleted job old", "Normal SuccessfulCreate Created job " + current},
		},
		{
			name: "missing", objects: []client.Object{hourly(done, active("old"))}, wait: nextHour,
			want: []string{"Normal MissingJob Active job went missing: old"},
		},
		{
			name: "unexpected", objects: []client.Object{hourly(done), child("other")}, jobs: 1, wait: nextHour,
			want: []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: other"},
		},
		{
			name: "name taken by somebody else", objects: []client.Object{hourly(), child(current, func(j *batchv1.Job) { j.OwnerReferences = nil })}, jobs: 1, wait: nextHour,
		},
		{
			name: "past the deadline", wait: nextHour,
			objects: []client.Object{hourly(func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](10) })},
		},
		{
			name: "many missed", jobs: 1, wait: nextHour,
			objects: []client.Object{hourly(func(cj *batchv1.CronJob) {
				cj.Status.LastScheduleTime = new(metav1.NewTime(now.Add(-200 * time.Hour)))
			})},
			want: []string{
				"Warning TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
				"Normal SuccessfulCreate Created job " + current,
			},
		},
		{
			name: "unknown zone", objects: []client.Object{hourly(zone("Moon/Copernicus"))},
			want: []string{`Warning UnknownTimeZone invalid timeZone: "Moon/Copernicus": unknown time zone Moon/Copernicus`},
		},
		{
			name: "zone in the schedule", jobs: 1, wait: nextHour,
			objects: []client.Object{hourly(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "TZ=UTC 0 * * * *" })},
			want: []string{
				`Warning UnsupportedSchedule CRON_TZ or TZ used in schedule "TZ=UTC 0 * * * *" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`,
				"Normal SuccessfulCreate Created job " + current,
			},
		},
		{
			name: "unreadable", objects: []client.Object{hourly(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "often" })},
			want: []string{`Warning UnparseableSchedule unparseable schedule: "often" : `},
		},
		{
			name: "never", objects: []client.Object{hourly(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "59 23 31 2 *" })},
			want: []string{"Warning InvalidSchedule invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second"},
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
			result, err := reconciler(c, events).Reconcile(t.Context(), request)
			if !errors.Is(err, tt.fail) || result.RequeueAfter != tt.wait {
				t.Errorf("comes back after %v, error %v", result.RequeueAfter, err)
			}
			close(events.Events)
			var got []string
			for e := range events.Events {
				got = append(got, e)
			}
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("events %q, want %q", got, tt.want)
			}
			var jobs batchv1.JobList
			if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != tt.jobs {
				t.Errorf("%d jobs, want %d (error %v)", len(jobs.Items), tt.jobs, err)
			}
		})
	}
}

// The cache has a Job already, and not yet the status that says so: the policy goes by the status.
func TestReconcile_StatusBehind(t *testing.T) {
	c, events := store(hourly(policy(batchv1.ForbidConcurrent), active("old")), child("old")), record.NewFakeRecorder(10)
	r := reconciler(interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			if cj, is := obj.(*batchv1.CronJob); is {
				cj.Status.Active = nil
			}
			return err
		},
	}), events)
	r.Live = c
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var jobs batchv1.JobList
	if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
		t.Errorf("%d jobs, want 1 (error %v)", len(jobs.Items), err)
	}
}

// That an old Job cannot be removed is no reason for the next one to start late: an error would leave it to the queue when the
// CronJob is looked at again.
func TestReconcile_CleanUpFails(t *testing.T) {
	denied := apierrors.NewForbidden(batchv1.Resource("jobs"), "old", errors.New("denied by a webhook"))
	suspended := func(cj *batchv1.CronJob) { cj.Spec.Suspend = new(true) }
	everyMinute := func(cj *batchv1.CronJob) { cj.Spec.Schedule = "* * * * *" }
	for name, tc := range map[string]struct {
		cj   *batchv1.CronJob
		jobs int
		wait time.Duration
		err  error
	}{
		"the next start is near": {cj: hourly(limits(0, 0), everyMinute), jobs: 2, wait: 30*time.Second + lateness},
		"the next start is far":  {cj: hourly(limits(0, 0)), jobs: 2, wait: cleanUpDelay},
		"there is no next start": {cj: hourly(limits(0, 0), suspended), jobs: 1, err: denied},
	} {
		t.Run(name, func(t *testing.T) {
			c := interceptor.NewClient(store(tc.cj, child("old", ended(batchv1.JobComplete, time.Hour))), interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return denied },
			})
			result, err := reconciler(c, &record.FakeRecorder{}).Reconcile(t.Context(), request)
			if !errors.Is(err, tc.err) || result.RequeueAfter != tc.wait {
				t.Errorf("comes back after %v, error %v", result.RequeueAfter, err)
			}
			var jobs batchv1.JobList
			if err := c.List(t.Context(), &jobs); err != nil || len(jobs.Items) != tc.jobs {
				t.Errorf("%d jobs, want %d (error %v)", len(jobs.Items), tc.jobs, err)
			}
		})
	}
}

func TestNewJob(t *testing.T) {
	got, err := newJob(hourly(zone("Asia/Tokyo")), onTime)
	if err != nil {
		t.Fatal(err)
	}
	want := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: current, Labels: map[string]string{"app": "report"},
			Annotations: map[string]string{"a": "b", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-05-01T21:00:00+09:00"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "CronJob", Name: "report", UID: "cj-uid", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: batchv1.JobSpec{Completions: ptr.To[int32](4)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

// delays is a queue that notes after what time a request was added.
type delays struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []time.Duration
}

func (d *delays) Add(reconcile.Request) { d.added = append(d.added, 0) }

func (d *delays) AddAfter(_ reconcile.Request, after time.Duration) { d.added = append(d.added, after) }

func TestHandler_ChangedSchedule(t *testing.T) {
	tests := []struct {
		name   string
		change func(*batchv1.CronJob)
		want   []time.Duration
		event  string
	}{
		{name: "another field", change: func(cj *batchv1.CronJob) { cj.Spec.Suspend = new(true) }, want: []time.Duration{0}},
		{name: "schedule", change: func(cj *batchv1.CronJob) { cj.Spec.Schedule = "15 * * * *" }, want: []time.Duration{14*time.Minute + 30*time.Second + lateness}},
		{name: "time zone", change: zone("Asia/Kolkata"), want: []time.Duration{29*time.Minute + 30*time.Second + lateness}},
		{
			name: "unreadable", change: func(cj *batchv1.CronJob) { cj.Spec.Schedule = "often" },
			event: "Warning UnParseableCronJobSchedule unparseable schedule for cronjob: often",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, queue := record.NewFakeRecorder(1), &delays{}
			reconciler(nil, events).handler().Update(t.Context(), event.UpdateEvent{ObjectOld: hourly(), ObjectNew: hourly(tt.change)}, queue)
			if !slices.Equal(queue.added, tt.want) {
				t.Errorf("added after %v, want %v", queue.added, tt.want)
			}
			close(events.Events)
			if got := <-events.Events; got != tt.event {
				t.Errorf("event %q, want %q", got, tt.event)
			}
		})
	}
}
