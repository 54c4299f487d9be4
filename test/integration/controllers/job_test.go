// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/test/integration/framework"
)

// newJob returns a Job whose pods no scheduler takes: the tests play the kubelet.
func newJob(completions int32, change ...func(*batchv1.JobSpec)) *batchv1.Job {
	spec := framework.PodSpec("sum")
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.SchedulerName = "nobody"
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "sum"},
		Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: &completions, CompletionMode: new(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: spec},
		},
	}
	for _, c := range change {
		c(&job.Spec)
	}
	return job
}

func nonIndexed(s *batchv1.JobSpec) { s.CompletionMode = new(batchv1.NonIndexedCompletion) }

func createJob(t *testing.T, ns string, job *batchv1.Job) {
	t.Helper()
	if _, err := cluster.Client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func patchJob(t *testing.T, ns, patch string) {
	t.Helper()
	if _, err := cluster.Client.BatchV1().Jobs(ns).Patch(t.Context(), "sum", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// jobPods waits for a number of pods of the Job that have not ended and returns them by completion index, or name.
func jobPods(t *testing.T, ns string, want int) map[string]corev1.Pod {
	t.Helper()
	var found map[string]corev1.Pod
	framework.Eventually(t, fmt.Sprintf("%d pods", want), func() error {
		list, err := activePods(cluster.Client, ns)
		if err != nil {
			return err
		}
		found = map[string]corev1.Pod{}
		for _, p := range list {
			if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				continue
			}
			key := p.Annotations[batchv1.JobCompletionIndexAnnotation]
			if key == "" {
				key = p.Name
			}
			found[key] = p
		}
		if len(found) != want {
			return fmt.Errorf("there are %d", len(found))
		}
		return nil
	})
	return found
}

// end lets a pod end with an exit code, long enough ago that its replacement need not wait.
func end(t *testing.T, pod corev1.Pod, code int32, conditions ...corev1.PodCondition) {
	t.Helper()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	exit(t, pod, phase, code, conditions...)
}

// exit lets the container of a pod end.
func exit(t *testing.T, pod corev1.Pod, phase corev1.PodPhase, code int32, conditions ...corev1.PodCondition) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: phase, Conditions: conditions,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: "sum",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, FinishedAt: metav1.NewTime(time.Now().Add(-time.Hour)),
			}},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// awaitJob waits until the Job has the condition and returns it with the condition.
func awaitJob(t *testing.T, ns string, condition batchv1.JobConditionType) (*batchv1.Job, batchv1.JobCondition) {
	t.Helper()
	var job *batchv1.Job
	var found batchv1.JobCondition
	framework.Eventually(t, string(condition), func() error {
		var err error
		if job, err = cluster.Client.BatchV1().Jobs(ns).Get(t.Context(), "sum", metav1.GetOptions{}); err != nil {
			return err
		}
		i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == condition && c.Status == corev1.ConditionTrue
		})
		if i < 0 {
			return fmt.Errorf("status is %+v", job.Status)
		}
		found = job.Status.Conditions[i]
		return nil
	})
	return job, found
}

// allCounted checks what has to be true of every finished Job.
func allCounted(t *testing.T, job *batchv1.Job) {
	t.Helper()
	s := job.Status
	if s.Active != 0 || ptr.Deref(s.Ready, -1) != 0 || ptr.Deref(s.Terminating, -1) != 0 || s.StartTime == nil {
		t.Errorf("the finished Job has status %+v", s)
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		t.Errorf("pods are not counted: %+v", u)
	}
	list, err := cluster.Client.CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
			t.Errorf("pod %q was not let go", p.Name)
		}
	}
}

func TestJob_Indexed(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(3, func(s *batchv1.JobSpec) { s.Parallelism = new(int32(2)) }))
	pods := jobPods(t, ns, 2)
	first := pods["0"]
	if first.Spec.Hostname != "sum-0" || !strings.HasPrefix(first.Name, "sum-0-") || first.Labels[batchv1.JobCompletionIndexAnnotation] != "0" {
		t.Errorf("pod of index 0: name %q, hostname %q, labels %v", first.Name, first.Spec.Hostname, first.Labels)
	}
	if env := first.Spec.Containers[0].Env; len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" {
		t.Errorf("pod of index 0 has environment %v", env)
	}
	end(t, pods["1"], 0)
	framework.Eventually(t, "index 1 is complete", func() error {
		job, err := cluster.Client.BatchV1().Jobs(ns).Get(t.Context(), "sum", metav1.GetOptions{})
		if err == nil && job.Status.CompletedIndexes != "1" {
			err = fmt.Errorf("completed are %q", job.Status.CompletedIndexes)
		}
		return err
	})
	pods = jobPods(t, ns, 2)
	end(t, pods["0"], 0)
	end(t, pods["2"], 0)
	job, condition := awaitJob(t, ns, batchv1.JobComplete)
	allCounted(t, job)
	if job.Status.Succeeded != 3 || job.Status.CompletedIndexes != "0-2" || job.Status.CompletionTime == nil || condition.Reason != "CompletionsReached" {
		t.Errorf("status is %+v", job.Status)
	}
	eventOf(t, ns, "Completed", "Job completed")
}

// eventOf waits for an event about the Job whose message begins with a text.
func eventOf(t *testing.T, ns, reason, message string) {
	t.Helper()
	framework.Eventually(t, "event "+reason, func() error {
		list, err := cluster.Client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if strings.HasPrefix(e.Message, message) && e.Source.Component == "job-controller" {
				return nil
			}
		}
		return fmt.Errorf("events are %+v", list.Items)
	})
}

func TestJob_PodFailurePolicy(t *testing.T) {
	t.Parallel()
	policy := func(s *batchv1.JobSpec) {
		s.BackoffLimit = new(int32(0))
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			},
			{
				Action: batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					ContainerName: new("main"), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
				},
			},
		}}
	}
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(2, policy))
	// A pod that was evicted is replaced and does not count.
	before := jobPods(t, ns, 2)
	end(t, before["0"], 137, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	framework.Eventually(t, "a replacement", func() error {
		if jobPods(t, ns, 2)["0"].UID == before["0"].UID {
			return errors.New("it is the same pod")
		}
		return nil
	})
	end(t, jobPods(t, ns, 2)["0"], 42)
	job, condition := awaitJob(t, ns, batchv1.JobFailed)
	allCounted(t, job)
	want := "failed with exit code 42 matching FailJob rule at index 1"
	if condition.Reason != "PodFailurePolicy" || !strings.HasSuffix(condition.Message, want) || job.Status.Failed != 2 {
		t.Errorf("failed %d, condition %+v", job.Status.Failed, condition)
	}
	awaitJob(t, ns, batchv1.JobFailureTarget)
	eventOf(t, ns, "PodFailurePolicy", "Container main for pod "+ns+"/sum-0-")
}

func TestJob_BackoffLimitPerIndex(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(3, func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = new(int32(1)) }))
	pods := jobPods(t, ns, 3)
	end(t, pods["1"], 1)
	// The next try knows how many there were before it.
	framework.Eventually(t, "another try", func() error {
		if got := jobPods(t, ns, 3)["1"].Annotations[batchv1.JobIndexFailureCountAnnotation]; got != "1" {
			return fmt.Errorf("number of failures is %q", got)
		}
		return nil
	})
	end(t, jobPods(t, ns, 3)["1"], 1)
	end(t, pods["0"], 0)
	end(t, pods["2"], 0)
	job, condition := awaitJob(t, ns, batchv1.JobFailed)
	allCounted(t, job)
	s := job.Status
	if condition.Reason != "FailedIndexes" || s.Failed != 2 || s.Succeeded != 2 || s.CompletedIndexes != "0,2" || ptr.Deref(s.FailedIndexes, "") != "1" {
		t.Errorf("status is %+v", s)
	}
}

func TestJob_SuccessPolicy(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(4, func(s *batchv1.JobSpec) {
		s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{
			{SucceededIndexes: new("0"), SucceededCount: new(int32(1))}, {SucceededIndexes: new("1-3"), SucceededCount: new(int32(2))},
		}}
	}))
	pods := jobPods(t, ns, 4)
	end(t, pods["1"], 0)
	end(t, pods["3"], 0)
	job, condition := awaitJob(t, ns, batchv1.JobComplete)
	allCounted(t, job)
	if condition.Reason != "SuccessPolicy" || condition.Message != "Matched rules at index 1" || job.Status.CompletedIndexes != "1,3" || job.Status.Failed != 0 {
		t.Errorf("status is %+v", job.Status)
	}
	jobPods(t, ns, 0)
}

func TestJob_Suspend(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(2, nonIndexed, func(s *batchv1.JobSpec) { s.Suspend = new(true) }))
	if job, _ := awaitJob(t, ns, batchv1.JobSuspended); job.Status.StartTime != nil || job.Status.Active != 0 {
		t.Errorf("the suspended Job has status %+v", job.Status)
	}
	patchJob(t, ns, `{"spec":{"suspend":false}}`)
	for _, pod := range jobPods(t, ns, 2) {
		end(t, pod, 0)
		break
	}
	framework.Eventually(t, "one success", func() error {
		job, err := cluster.Client.BatchV1().Jobs(ns).Get(t.Context(), "sum", metav1.GetOptions{})
		if err == nil && (job.Status.Succeeded != 1 || job.Status.StartTime == nil) {
			err = fmt.Errorf("status is %+v", job.Status)
		}
		return err
	})
	patchJob(t, ns, `{"spec":{"suspend":true}}`)
	jobPods(t, ns, 0)
	job, _ := awaitJob(t, ns, batchv1.JobSuspended)
	if job.Status.StartTime != nil || job.Status.Failed != 0 || job.Status.Succeeded != 1 {
		t.Errorf("the suspended Job has status %+v", job.Status)
	}
	patchJob(t, ns, `{"spec":{"suspend":false}}`)
	for _, pod := range jobPods(t, ns, 1) {
		end(t, pod, 0)
	}
	job, _ = awaitJob(t, ns, batchv1.JobComplete)
	allCounted(t, job)
	eventOf(t, ns, "Suspended", "Job suspended")
	eventOf(t, ns, "Resumed", "Job resumed")
}

func TestJob_ReplacesOnlyFailed(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(1, func(s *batchv1.JobSpec) { s.PodReplacementPolicy = new(batchv1.Failed) }))
	pod := jobPods(t, ns, 1)["0"]
	if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "a terminating pod", func() error {
		job, err := cluster.Client.BatchV1().Jobs(ns).Get(t.Context(), "sum", metav1.GetOptions{})
		if err == nil && (ptr.Deref(job.Status.Terminating, 0) != 1 || job.Status.Active != 0) {
			err = fmt.Errorf("status is %+v", job.Status)
		}
		return err
	})
	jobPods(t, ns, 0)
	end(t, pod, 1)
	replacement := jobPods(t, ns, 1)["0"]
	end(t, replacement, 0)
	job, _ := awaitJob(t, ns, batchv1.JobComplete)
	allCounted(t, job)
	if job.Status.Failed != 1 {
		t.Errorf("status is %+v", job.Status)
	}
}

func TestJob_DeadlineExceeded(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(2, func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = new(int64(1)) }))
	jobPods(t, ns, 2)
	job, condition := awaitJob(t, ns, batchv1.JobFailed)
	allCounted(t, job)
	if condition.Reason != "DeadlineExceeded" || job.Status.Failed != 2 {
		t.Errorf("failed %d, condition %+v", job.Status.Failed, condition)
	}
}

func TestJob_OrphansAreLetGo(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(2))
	jobPods(t, ns, 2)
	orphan := metav1.DeletePropagationOrphan
	if err := cluster.Client.BatchV1().Jobs(ns).Delete(t.Context(), "sum", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "pods without owner and finalizer", func() error {
		for index, pod := range jobPods(t, ns, 2) {
			if len(pod.OwnerReferences)+len(pod.Finalizers) > 0 {
				return fmt.Errorf("pod of index %s has %v and %v", index, pod.OwnerReferences, pod.Finalizers)
			}
		}
		return nil
	})
}

func TestJob_AdoptsWithFinalizer(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	pod := framework.Pod("stray", "sum")
	pod.Spec.SchedulerName, pod.Spec.RestartPolicy = "nobody", corev1.RestartPolicyNever
	if _, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	job := newJob(1, nonIndexed, func(s *batchv1.JobSpec) {
		s.ManualSelector = new(true)
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "sum"}}
		s.Template.Labels = s.Selector.MatchLabels
	})
	createJob(t, ns, job)
	framework.Eventually(t, "the pod is adopted", func() error {
		pods := jobPods(t, ns, 1)
		stray, ok := pods["stray"]
		if !ok || len(stray.OwnerReferences) != 1 || !slices.Equal(stray.Finalizers, []string{batchv1.JobTrackingFinalizer}) {
			return fmt.Errorf("pods are %v", pods)
		}
		return nil
	})
	end(t, jobPods(t, ns, 1)["stray"], 0)
	done, _ := awaitJob(t, ns, batchv1.JobComplete)
	allCounted(t, done)
}

func TestJob_ManagedElsewhere(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	other := newJob(1, func(s *batchv1.JobSpec) { s.ManagedBy = new("example.com/elsewhere") })
	other.Name = "other"
	createJob(t, ns, other)
	createJob(t, ns, newJob(1))
	// When the later Job has its pod, the earlier one would have had it too.
	end(t, jobPods(t, ns, 1)["0"], 0)
	awaitJob(t, ns, batchv1.JobComplete)
	got, err := cluster.Client.BatchV1().Jobs(ns).Get(t.Context(), "other", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(batchv1.JobStatus{}, got.Status); diff != "" {
		t.Errorf("status of a Job that is managed elsewhere (-want +got):\n%s", diff)
	}
}

// TestJob_Many has more pods than one pass creates or counts.
func TestJob_Many(t *testing.T) {
	const count = 600
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(count))
	for _, pod := range jobPods(t, ns, count) {
		end(t, pod, 0)
	}
	job, _ := awaitJob(t, ns, batchv1.JobComplete)
	allCounted(t, job)
	if job.Status.Succeeded != count || job.Status.CompletedIndexes != fmt.Sprintf("0-%d", count-1) {
		t.Errorf("status is %+v", job.Status)
	}
}

// TestJob_CountsEachPodOnce lets pods succeed, fail and be deleted while others are created. A deleted pod is gone as soon as it
// is let go, which a cache learns later than the process that did it.
func TestJob_CountsEachPodOnce(t *testing.T) {
	t.Parallel()
	const count = 60
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(count, nonIndexed, func(s *batchv1.JobSpec) {
		s.Parallelism, s.BackoffLimit = new(int32(20)), new(int32(1000))
	}))
	ended := map[types.UID]bool{}
	failures := int32(0)
	for succeeded := 0; succeeded < count; {
		var next []corev1.Pod
		framework.Eventually(t, "another pod", func() error {
			list, err := activePods(cluster.Client, ns)
			if err != nil {
				return err
			}
			next = slices.DeleteFunc(list, func(p corev1.Pod) bool { return ended[p.UID] })
			if len(next) == 0 {
				return fmt.Errorf("all %d pods have ended", len(list))
			}
			return nil
		})
		for _, pod := range next {
			ended[pod.UID] = true
			switch len(ended) % 5 {
			case 1:
				failures++
				end(t, pod, 1)
			case 2:
				failures++
				exit(t, pod, corev1.PodRunning, 1)
				if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			default:
				succeeded++
				end(t, pod, 0)
			}
		}
	}
	job, _ := awaitJob(t, ns, batchv1.JobComplete)
	allCounted(t, job)
	if job.Status.Succeeded != count || job.Status.Failed != failures {
		t.Errorf("%d succeeded and %d failed, want %d and %d", job.Status.Succeeded, job.Status.Failed, count, failures)
	}
}

func TestJob_TTLAfterFinished(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createJob(t, ns, newJob(2, func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = new(int32(1)) }))
	for _, pod := range jobPods(t, ns, 2) {
		end(t, pod, 0)
	}
	awaitJob(t, ns, batchv1.JobComplete)
	gone(t, "the Job", func() error {
		_, err := cluster.Client.BatchV1().Jobs(ns).Get(t.Context(), "sum", metav1.GetOptions{})
		return err
	})
	// Foreground: the Job goes last.
	if names := podNames(t, ns); len(names) > 0 {
		t.Errorf("pods %v outlived the Job", names)
	}
}

func TestCronJob(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	crons := cluster.Client.BatchV1().CronJobs(ns)
	cron := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "report"},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 * * * *", TimeZone: new("Asia/Kolkata"), ConcurrencyPolicy: batchv1.ForbidConcurrent,
			SuccessfulJobsHistoryLimit: new(int32(1)), JobTemplate: batchv1.JobTemplateSpec{Spec: newJob(1).Spec},
		},
	}
	cron, err := crons.Create(t.Context(), cron, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// lastStart pretends that the last start was some time ago, so that there is one to make up for.
	lastStart := func(ago time.Duration) {
		t.Helper()
		patch := fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, time.Now().Add(-ago).UTC().Format(time.RFC3339))
		if _, err := crons.Patch(t.Context(), "report", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	lastStart(90 * time.Minute)
	pod := jobPods(t, ns, 1)["0"]
	jobs, err := cluster.Client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) != 1 {
		t.Fatalf("%d jobs, error %v", len(jobs.Items), err)
	}
	job := &jobs.Items[0]
	start, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	if _, offset := start.Zone(); offset != 19800 || start.Minute() != 0 || job.Name != fmt.Sprintf("report-%d", start.Unix()/60) || !metav1.IsControlledBy(job, cron) {
		t.Errorf("job %q is for %v", job.Name, start)
	}
	status := func(what string, check func(batchv1.CronJobStatus) bool) {
		t.Helper()
		framework.Eventually(t, what, func() error {
			got, err := crons.Get(context.Background(), "report", metav1.GetOptions{})
			if err == nil && !check(got.Status) {
				err = fmt.Errorf("status is %+v", got.Status)
			}
			return err
		})
	}
	status("the Job is active", func(s batchv1.CronJobStatus) bool {
		return len(s.Active) == 1 && s.Active[0].UID == job.UID && s.LastScheduleTime != nil && s.LastScheduleTime.Time.Equal(start)
	})
	end(t, pod, 0)
	status("the Job has succeeded", func(s batchv1.CronJobStatus) bool { return len(s.Active) == 0 && s.LastSuccessfulTime != nil })
	// Somebody deletes the Job: its time is not made up for.
	background := metav1.DeletePropagationBackground
	if err := cluster.Client.BatchV1().Jobs(ns).Delete(t.Context(), job.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the Job", func() error {
		_, err := cluster.Client.BatchV1().Jobs(ns).Get(t.Context(), job.Name, metav1.GetOptions{})
		return err
	})
	jobPods(t, ns, 0)
}
