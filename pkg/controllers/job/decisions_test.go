// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

func stateOf(job *batchv1.Job, list ...*corev1.Pod) *state {
	return observe(job, list, &memory{released: sets.Set[types.UID]{}})
}

func names(list []*corev1.Pod) []string {
	var names []string
	for _, pod := range list {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

func TestIndexes(t *testing.T) {
	tests := []struct {
		list    string
		with    []int
		want    string
		count   int
		missing []int
	}{
		{want: "", missing: []int{0, 1, 2}},
		{list: "0-9", want: "0-9", count: 10},
		{list: "0,1", want: "0,1", count: 2, missing: []int{2, 3, 4}},
		{list: "1,3-5,7", with: []int{2}, want: "1-5,7", count: 6, missing: []int{0, 6, 8}},
		{list: "1,3-5,7", with: []int{9, 0, 8, 8}, want: "0,1,3-5,7-9", count: 8, missing: []int{2, 6}},
		{list: "3,12", want: "3", count: 1, missing: []int{0, 1, 2}},
		{list: "8-20", want: "8,9", count: 2, missing: []int{0, 1, 2}},
		{list: "x,1-y,4", want: "4", count: 1, missing: []int{0, 1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.list, func(t *testing.T) {
			set := parseIndexes(tt.list, 10).with(tt.with)
			if got := set.String(); got != tt.want || set.count() != tt.count {
				t.Errorf("set %q of %d, want %q of %d", got, set.count(), tt.want, tt.count)
			}
			if diff := cmp.Diff(tt.missing, set.missing(3, 10)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			again := parseIndexes(set.String(), 10)
			for i := range 12 {
				if set.has(i) != again.has(i) || set.has(i) == slices.Contains(set.missing(12, 12), i) {
					t.Errorf("has(%d) is %v", i, set.has(i))
				}
			}
		})
	}
}

func TestSucceededBy(t *testing.T) {
	rule := func(list string, count int32) batchv1.SuccessPolicyRule {
		var r batchv1.SuccessPolicyRule
		if list != "" {
			r.SucceededIndexes = &list
		}
		if count > 0 {
			r.SucceededCount = &count
		}
		return r
	}
	tests := []struct {
		name      string
		rules     []batchv1.SuccessPolicyRule
		succeeded string
		want      string
	}{
		{name: "nothing succeeded", rules: []batchv1.SuccessPolicyRule{rule("", 1)}},
		{name: "count", rules: []batchv1.SuccessPolicyRule{rule("", 3)}, succeeded: "1,3,5", want: "Matched rules at index 0"},
		{name: "count not reached", rules: []batchv1.SuccessPolicyRule{rule("", 3)}, succeeded: "1,3"},
		{name: "indexes", rules: []batchv1.SuccessPolicyRule{rule("0,2-4", 0)}, succeeded: "0-4,9", want: "Matched rules at index 0"},
		{name: "indexes not reached", rules: []batchv1.SuccessPolicyRule{rule("0,2-4", 0)}, succeeded: "0-3,5-9"},
		{name: "some of the indexes", rules: []batchv1.SuccessPolicyRule{rule("0,2-4", 2)}, succeeded: "0,4", want: "Matched rules at index 0"},
		{name: "others do not count", rules: []batchv1.SuccessPolicyRule{rule("0,2-4", 2)}, succeeded: "0,5-9"},
		{name: "second rule", rules: []batchv1.SuccessPolicyRule{rule("9", 0), rule("1", 0)}, succeeded: "1", want: "Matched rules at index 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := succeededBy(&batchv1.SuccessPolicy{Rules: tt.rules}, 10, parseIndexes(tt.succeeded, 10))
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, ok, tt.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	in, notIn := batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	codes := func(action batchv1.PodFailurePolicyAction, op batchv1.PodFailurePolicyOnExitCodesOperator, name string, values ...int32) batchv1.PodFailurePolicyRule {
		r := batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: op, Values: values}}
		if name != "" {
			r.OnExitCodes.ContainerName = &name
		}
		return r
	}
	disrupted := batchv1.PodFailurePolicyRule{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}
	evicted := func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	}
	fatal := disrupted
	fatal.Action = batchv1.PodFailurePolicyActionFailJob
	initFailed := func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "setup", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}}
	}
	tests := []struct {
		name  string
		rules []batchv1.PodFailurePolicyRule
		pod   *corev1.Pod
		want  ruling
	}{
		{name: "no rule matches", rules: []batchv1.PodFailurePolicyRule{disrupted}, pod: newPod("a", exited(1))},
		{
			name: "exit code", rules: []batchv1.PodFailurePolicyRule{disrupted, codes("FailJob", in, "", 40, 42)}, pod: newPod("a", exited(42)),
			want: ruling{action: "FailJob", message: "Container main for pod ns/a failed with exit code 42 matching FailJob rule at index 1"},
		},
		{name: "another container", rules: []batchv1.PodFailurePolicyRule{codes("FailJob", in, "side", 42)}, pod: newPod("a", exited(42))},
		{name: "not in", rules: []batchv1.PodFailurePolicyRule{codes("FailIndex", notIn, "main", 1)}, pod: newPod("a", exited(2)), want: ruling{action: "FailIndex"}},
		{name: "success is never not in", rules: []batchv1.PodFailurePolicyRule{codes("FailIndex", notIn, "", 1)}, pod: newPod("a", exited(0))},
		{name: "init container", rules: []batchv1.PodFailurePolicyRule{codes("Count", in, "", 3)}, pod: newPod("a", exited(1), initFailed), want: ruling{action: "Count"}},
		{name: "condition", rules: []batchv1.PodFailurePolicyRule{disrupted}, pod: newPod("a", exited(1), evicted), want: ruling{action: "Ignore"}},
		{
			name: "fatal condition", rules: []batchv1.PodFailurePolicyRule{fatal}, pod: newPod("a", evicted),
			want: ruling{action: "FailJob", message: "Pod ns/a has condition DisruptionTarget matching FailJob rule at index 0"},
		},
		{
			name: "first rule wins", rules: []batchv1.PodFailurePolicyRule{codes("Ignore", in, "", 1), codes("FailJob", in, "", 1)}, pod: newPod("a", exited(1)),
			want: ruling{action: "Ignore"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := judge(&batchv1.PodFailurePolicy{Rules: tt.rules}, tt.pod)
			if got != tt.want || got.counts() != (tt.want.action != "Ignore") {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	ignore := func(j *batchv1.Job) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: "Ignore", OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{1}}},
			{Action: "FailJob", OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{2}}},
			{Action: "FailIndex", OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{3}}},
		}}
	}
	limit := func(n int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n } }
	restarted := func(n int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: n}} }
	}
	inPlace := func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
	deadline := func(j *batchv1.Job) {
		j.Spec.ActiveDeadlineSeconds, j.Status.StartTime = new(int64(60)), new(metav1.NewTime(now.Add(-time.Minute)))
	}
	condition := func(c batchv1.JobConditionType, reason string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, Reason: reason})
		}
	}
	counted := func(n int32, uncounted ...types.UID) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Failed, j.Status.UncountedTerminatedPods = n, &batchv1.UncountedTerminatedPods{Failed: uncounted}
		}
	}
	tests := []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		want string
	}{
		{name: "goes on", job: newJob(), pods: []*corev1.Pod{newPod("a", failed), newPod("b")}},
		{name: "failures", job: newJob(limit(1)), pods: []*corev1.Pod{newPod("a", failed), newPod("b", failed)}, want: "FailureTarget BackoffLimitExceeded"},
		{name: "failures in the status", job: newJob(limit(2), counted(1, "x")), pods: []*corev1.Pod{newPod("b", failed)}, want: "FailureTarget BackoffLimitExceeded"},
		{name: "none is counted twice", job: newJob(limit(2), counted(1, "b")), pods: []*corev1.Pod{newPod("b", failed), newPod("c", failed, free)}},
		{name: "deleted pods have failed", job: newJob(limit(0)), pods: []*corev1.Pod{newPod("a", deleted)}, want: "FailureTarget BackoffLimitExceeded"},
		{name: "but not while they are awaited", job: newJob(limit(0), onlyFailed), pods: []*corev1.Pod{newPod("a", deleted)}},
		{name: "restarts", job: newJob(limit(3), inPlace), pods: []*corev1.Pod{newPod("a", restarted(1)), newPod("b", restarted(2))}, want: "FailureTarget BackoffLimitExceeded"},
		{name: "few restarts", job: newJob(limit(3), inPlace), pods: []*corev1.Pod{newPod("a", restarted(2))}},
		{name: "no restart allowed", job: newJob(limit(0), inPlace), pods: []*corev1.Pod{newPod("a", restarted(0))}},
		{name: "restart though none allowed", job: newJob(limit(0), inPlace), pods: []*corev1.Pod{newPod("a", restarted(1))}, want: "FailureTarget BackoffLimitExceeded"},
		{name: "ignored failure", job: newJob(limit(0), ignore), pods: []*corev1.Pod{newPod("a", exited(1))}},
		{name: "fatal failure", job: newJob(ignore), pods: []*corev1.Pod{newPod("a", exited(2))}, want: "FailureTarget PodFailurePolicy"},
		{name: "deadline", job: newJob(deadline), want: "FailureTarget DeadlineExceeded"},
		{name: "deadline while suspended", job: newJob(deadline, suspended)},
		{name: "failure target stands", job: newJob(condition("FailureTarget", "Why"), condition("Suspended", "")), want: "Failed Why"},
		{name: "success stands", job: newJob(condition("SuccessCriteriaMet", "Why"), limit(0)), pods: []*corev1.Pod{newPod("a", failed)}, want: "SuccessCriteriaMet Why"},
		{
			name: "an index failed, others go on", job: newJob(perIndex(0)), pods: []*corev1.Pod{newPod("a", failed, at(1)), newPod("b", succeeded, at(0))},
		},
		{
			name: "an index failed, no others left", job: newJob(perIndex(0)), want: "FailureTarget FailedIndexes",
			pods: []*corev1.Pod{newPod("a", failed, at(1)), newPod("b", succeeded, at(0)), newPod("c", succeeded, at(2))},
		},
		{
			name: "too many indexes failed", want: "FailureTarget MaxFailedIndexesExceeded",
			job:  newJob(perIndex(0), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = new(int32(0)) }),
			pods: []*corev1.Pod{newPod("a", failed, at(1))},
		},
		{
			name: "the policy fails an index", job: newJob(perIndex(5), ignore, func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = new(int32(0)) }),
			pods: []*corev1.Pod{newPod("a", exited(3), at(1))}, want: "FailureTarget MaxFailedIndexesExceeded",
		},
		{
			name: "failure goes before success", want: "FailureTarget BackoffLimitExceeded",
			job: newJob(indexed, limit(0), func(j *batchv1.Job) {
				j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(int32(1))}}}
			}),
			pods: []*corev1.Pod{newPod("a", succeeded, at(1)), newPod("b", failed, at(0))},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if c := stateOf(tt.job, tt.pods...).verdict(now); c != nil {
				got = string(c.Type) + " " + c.Reason
			}
			if got != tt.want {
				t.Errorf("verdict %q, want %q", got, tt.want)
			}
		})
	}
}

func TestManage(t *testing.T) {
	parallel := func(n int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.Parallelism = &n } }
	completions := func(n int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.Completions = &n } }
	queue := func(j *batchv1.Job) { j.Spec.Completions = nil }
	tests := []struct {
		name   string
		job    *batchv1.Job
		pods   []*corev1.Pod
		create []int
		remove []string
		wait   time.Duration
		// did is what the pass is counted as, if that is not what it creates or removes.
		did action
	}{
		{name: "first pods", job: newJob(), create: []int{noIndex, noIndex}},
		{name: "no more than are left", job: newJob(), pods: []*corev1.Pod{newPod("a", succeeded), newPod("b", succeeded)}, create: []int{noIndex}},
		{name: "enough", job: newJob(), pods: []*corev1.Pod{newPod("a"), newPod("b")}},
		{name: "parallelism lowered", job: newJob(parallel(1)), pods: []*corev1.Pod{newPod("a", ready), newPod("b")}, remove: []string{"b"}},
		{name: "work queue", job: newJob(queue), pods: []*corev1.Pod{newPod("a")}, create: []int{noIndex}},
		{name: "work queue that is empty", job: newJob(queue), pods: []*corev1.Pod{newPod("a"), newPod("b", succeeded)}},
		{name: "suspended", job: newJob(suspended), pods: []*corev1.Pod{newPod("a"), newPod("b", succeeded)}, remove: []string{"a"}},
		{name: "suspended, nothing runs", job: newJob(suspended), did: podsDeleted},
		{name: "first indexes", job: newJob(indexed), create: []int{0, 1}},
		{name: "next index", job: newJob(indexed), pods: []*corev1.Pod{newPod("a", at(0), succeeded), newPod("b", at(2))}, create: []int{1}},
		{
			name: "twice the same index, and none", job: newJob(indexed, parallel(9)), remove: []string{"a", "c", "d"},
			pods: []*corev1.Pod{newPod("a", at(1)), newPod("b", at(1), ready), newPod("c"), newPod("d", at(3)), newPod("e", at(0))},
		},
		{name: "deleted pods are replaced", job: newJob(), pods: []*corev1.Pod{newPod("a", deleted, free), newPod("b")}, create: []int{noIndex}},
		{name: "deleted pods are awaited", job: newJob(onlyFailed), pods: []*corev1.Pod{newPod("a", deleted), newPod("b")}},
		{name: "so are their indexes", job: newJob(indexed, onlyFailed, parallel(3)), pods: []*corev1.Pod{newPod("a", deleted, at(0)), newPod("b", at(1))}, create: []int{2}},
		{name: "back-off", job: newJob(), pods: []*corev1.Pod{newPod("a", failedAgo(time.Second))}, wait: 9 * time.Second, did: podsCreated},
		{name: "back-off of all indexes", job: newJob(indexed), pods: []*corev1.Pod{newPod("a", at(0), failedAgo(time.Second))}, wait: 9 * time.Second, did: podsCreated},
		{name: "back-off of one index", job: newJob(perIndex(3)), pods: []*corev1.Pod{newPod("a", at(0), failedAgo(time.Second))}, create: []int{1}, wait: 9 * time.Second},
		{name: "failed index", job: newJob(perIndex(0)), pods: []*corev1.Pod{newPod("a", at(0), failedAgo(time.Second))}, create: []int{1, 2}},
		{name: "burst", job: newJob(parallel(900), completions(900)), create: slices.Repeat([]int{noIndex}, burst)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := stateOf(tt.job, tt.pods...).manage(now)
			if diff := cmp.Diff(tt.create, p.create); diff != "" {
				t.Errorf("creates (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.remove, names(p.remove)); diff != "" {
				t.Errorf("removes (-want +got):\n%s", diff)
			}
			if p.wait != tt.wait {
				t.Errorf("waits %v, want %v", p.wait, tt.wait)
			}
			switch {
			case tt.did != "":
			case len(tt.create) > 0:
				tt.did = podsCreated
			case len(tt.remove) > 0:
				tt.did = podsDeleted
			default:
				tt.did = tracking
			}
			if p.did != tt.did {
				t.Errorf("counts as %s, want %s", p.did, tt.did)
			}
		})
	}
}

func TestTally(t *testing.T) {
	failure := newCondition(batchv1.JobFailureTarget, corev1.ConditionTrue, "Why", "", now)
	success := newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, "Why", "", now)
	mixed := func() []*corev1.Pod {
		return []*corev1.Pod{newPod("a", succeeded), newPod("b", failed), newPod("c"), newPod("d", succeeded, free), newPod("e", deleted)}
	}
	tests := []struct {
		name              string
		job               *batchv1.Job
		pods              []*corev1.Pod
		end               *batchv1.JobCondition
		release           []string
		succeeded, failed []types.UID
		indexes           string
	}{
		{name: "goes on", job: newJob(), pods: mixed(), release: []string{"a", "b", "e"}, succeeded: []types.UID{"a"}, failed: []types.UID{"b", "e"}},
		{name: "deleted pods are awaited", job: newJob(onlyFailed), pods: mixed(), release: []string{"a", "b"}, succeeded: []types.UID{"a"}, failed: []types.UID{"b"}},
		{name: "failed", job: newJob(), pods: mixed(), end: failure, release: []string{"a", "b", "c", "e"}, succeeded: []types.UID{"a"}, failed: []types.UID{"b", "c", "e"}},
		{name: "success", job: newJob(), pods: mixed(), end: success, release: []string{"a", "b", "c", "e"}, succeeded: []types.UID{"a"}, failed: []types.UID{"b", "e"}},
		{
			name: "indexed", job: newJob(indexed), indexes: "1", release: []string{"a", "b", "c", "d"}, failed: []types.UID{"b"},
			pods: []*corev1.Pod{newPod("a", succeeded, at(1)), newPod("b", failed, at(0)), newPod("c", succeeded), newPod("d", failed, at(3))},
		},
		{
			name: "the last failed pod of an index is kept", job: newJob(perIndex(5)), release: []string{"a", "c"}, failed: []types.UID{"c", "a"},
			pods: []*corev1.Pod{newPod("a", failed, at(1)), newPod("b", failed, at(1), tries(1)), newPod("c", failed, at(0)), newPod("d", at(0), tries(1))},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := stateOf(tt.job, tt.pods...).tally(tt.end)
			if diff := cmp.Diff(tt.release, names(got.release)); diff != "" {
				t.Errorf("lets go (-want +got):\n%s", diff)
			}
			uncounted := tt.job.Status.UncountedTerminatedPods
			if !slices.Equal(uncounted.Succeeded, tt.succeeded) || !slices.Equal(uncounted.Failed, tt.failed) {
				t.Errorf("uncounted are %+v", uncounted)
			}
			if tt.job.Status.CompletedIndexes != tt.indexes {
				t.Errorf("completed indexes are %q, want %q", tt.job.Status.CompletedIndexes, tt.indexes)
			}
		})
	}
}

func TestTally_Truncates(t *testing.T) {
	var list []*corev1.Pod
	for i := range maxUncounted + 20 {
		list = append(list, newPod("p"+strconv.Itoa(i), succeeded))
	}
	got := stateOf(newJob(), list...).tally(nil)
	if !got.truncated || len(got.release) != maxUncounted {
		t.Errorf("lets %d go, truncated: %v", len(got.release), got.truncated)
	}
}

func TestNewPod(t *testing.T) {
	job := newJob(perIndex(3), func(j *batchv1.Job) {
		j.Spec.Completions = new(int32(20))
		j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "setup", Env: []corev1.EnvVar{{Name: indexVariable, Value: "own"}}}}
	})
	s := stateOf(job, newPod("a", at(12), tries(1), failed))
	pod := s.newPod(template(job), 12)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", GenerateName: "sum-12-",
			Labels:          map[string]string{"job": "sum", "batch.kubernetes.io/job-completion-index": "12"},
			Annotations:     map[string]string{"batch.kubernetes.io/job-completion-index": "12", "batch.kubernetes.io/job-index-failure-count": "2"},
			Finalizers:      []string{"batch.kubernetes.io/job-tracking"},
			OwnerReferences: newPod("x").OwnerReferences,
		},
		Spec: corev1.PodSpec{
			Hostname: "sum-12", RestartPolicy: corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{{Name: "setup", Env: []corev1.EnvVar{{Name: indexVariable, Value: "own"}}}},
			Containers: []corev1.Container{{Name: "main", Image: "sum", Env: []corev1.EnvVar{{
				Name: "JOB_COMPLETION_INDEX",
				ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
					FieldPath: "metadata.labels['batch.kubernetes.io/job-completion-index']",
				}},
			}}}},
		},
	}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	job.Name = strings.Repeat("n", 70)
	if got := s.newPod(template(job), 7).GenerateName; got != strings.Repeat("n", 55)+"-7-" {
		t.Errorf("the prefix of a long name is %q", got)
	}
}

func TestEndOf(t *testing.T) {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	ended := func(name string, d time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago(d)}}}
	}
	notReady := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(5 * time.Minute)}
	tests := []struct {
		name string
		pod  *corev1.Pod
		want time.Duration
	}{
		{name: "last container", pod: newPod("a", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended("x", time.Minute), ended("y", 2*time.Minute)}
		}), want: time.Minute},
		{name: "sidecar, not init container", pod: newPod("a", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, {Name: "init"}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended("x", 3*time.Minute)}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("side", 2*time.Minute), ended("init", time.Minute)}
		}), want: 2 * time.Minute},
		{name: "a container without an end", pod: newPod("a", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended("x", time.Minute), {Name: "y"}}
			p.Status.Conditions = []corev1.PodCondition{notReady}
		}), want: 5 * time.Minute},
		{name: "deleted", pod: newPod("a", deleted, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(30)) }), want: 90 * time.Second},
		{name: "nothing known", pod: newPod("a"), want: time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := now.Sub(endOf(tt.pod)); got != tt.want {
				t.Errorf("ended %v ago, want %v", got, tt.want)
			}
		})
	}
}

func TestFailures_Wait(t *testing.T) {
	for count, want := range map[int]time.Duration{0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 6: 320 * time.Second, 7: 10 * time.Minute, 1000: 10 * time.Minute} {
		if got := (failures{count: count, last: now}).wait(now); got != want {
			t.Errorf("after %d failures the wait is %v, want %v", count, got, want)
		}
	}
	if got := (failures{count: 1, last: now.Add(-time.Minute)}).wait(now); got != 0 {
		t.Errorf("after a minute the wait is %v", got)
	}
}
