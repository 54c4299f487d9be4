// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientbatchv1 "k8s.io/client-go/kubernetes/typed/batch/v1"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/batch/job"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func valid() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "c", Image: "i"}},
		}}},
	}
}

func indexed(j *batchv1.Job) {
	j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	j.Spec.Completions, j.Spec.Parallelism = new(int32(3)), new(int32(3))
}

func suspended(j *batchv1.Job) { j.Spec.Suspend = new(true) }

func TestResource(t *testing.T) {
	type mutate = func(*batchv1.Job)
	with := func(all ...mutate) mutate {
		return func(j *batchv1.Job) {
			for _, m := range all {
				m(j)
			}
		}
	}
	rule := func(r batchv1.PodFailurePolicyRule) mutate {
		return func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{r}}
		}
	}
	codes := func(c batchv1.PodFailurePolicyOnExitCodesRequirement) mutate {
		return rule(batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: &c})
	}
	success := func(r ...batchv1.SuccessPolicyRule) mutate {
		return with(indexed, func(j *batchv1.Job) { j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: r} })
	}
	registrytest.Run(t, job.Resource, registrytest.Case[*batchv1.Job]{
		AddToScheme:  batchv1.AddToScheme,
		Valid:        valid,
		Update:       func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(2)) },
		StatusUpdate: func(j *batchv1.Job) { j.Status.Active = 1 },
		Invalid: []registrytest.Invalid[*batchv1.Job]{
			{Name: "restart policy", Mutate: func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = "" }, Field: "spec.template.spec.restartPolicy"},
			{Name: "negative", Mutate: func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(-1)) }, Field: "spec.parallelism"},
			{Name: "manual without selector", Mutate: func(j *batchv1.Job) { j.Spec.ManualSelector = new(true) }, Field: "spec.selector"},
			{Name: "selector of its own", Mutate: func(j *batchv1.Job) {
				j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
				j.Spec.Template.Labels = map[string]string{"a": "b"}
			}, Field: "spec.selector"},
			{Name: "label of its own", Mutate: func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"job-name": "x"} }, Field: "spec.template.metadata.labels[job-name]"},
			{Name: "manager", Mutate: func(j *batchv1.Job) { j.Spec.ManagedBy = new("x") }, Field: "spec.managedBy"},
			{Name: "mode", Mutate: func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.CompletionMode("x")) }, Field: "spec.completionMode"},
			{Name: "indexed without completions", Mutate: with(indexed, func(j *batchv1.Job) { j.Spec.Completions = nil }), Field: "spec.completions"},
			{Name: "indexed, too wide", Mutate: with(indexed, func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(100_001)) }), Field: "spec.parallelism"},
			{Name: "indexed, host name", Mutate: with(indexed, func(j *batchv1.Job) { j.Name = "a.b" }), Field: "metadata.name"},
			{Name: "many completions", Mutate: with(indexed, func(j *batchv1.Job) {
				j.Spec.Completions, j.Spec.BackoffLimitPerIndex = new(int32(100_001)), new(int32(1))
			}), Field: "spec.maxFailedIndexes"},
			{Name: "failed indexes without backoff", Mutate: with(indexed, func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = new(int32(1)) }), Field: "spec.backoffLimitPerIndex"},
			{Name: "backoff without index", Mutate: func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = new(int32(1)) }, Field: "spec.backoffLimitPerIndex"},
			{Name: "replacement", Mutate: func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.PodReplacementPolicy("x")) }, Field: "spec.podReplacementPolicy"},
			{Name: "failure rule without condition", Mutate: rule(batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore}), Field: "spec.podFailurePolicy.rules[0]"},
			{Name: "failure action", Mutate: rule(batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailIndex}), Field: "spec.podFailurePolicy.rules[0].action"},
			{Name: "exit codes unordered", Mutate: codes(batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{2, 1}}), Field: "spec.podFailurePolicy.rules[0].onExitCodes.values"},
			{Name: "exit code 0", Mutate: codes(batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{0}}), Field: "spec.podFailurePolicy.rules[0].onExitCodes.values[0]"},
			{Name: "exit code of nobody", Mutate: codes(batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{1}, ContainerName: new("x")}), Field: "spec.podFailurePolicy.rules[0].onExitCodes.containerName"},
			{Name: "condition", Mutate: rule(batchv1.PodFailurePolicyRule{
				Action: batchv1.PodFailurePolicyActionCount, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: "x", Status: "y"}},
			}), Field: "spec.podFailurePolicy.rules[0].onPodConditions[0].status"},
			{Name: "success without index", Mutate: with(success(), func(j *batchv1.Job) { j.Spec.CompletionMode = nil }), Field: "spec.successPolicy"},
			{Name: "success without rule", Mutate: success(), Field: "spec.successPolicy.rules"},
			{Name: "success without number", Mutate: success(batchv1.SuccessPolicyRule{}), Field: "spec.successPolicy.rules[0]"},
			{Name: "success beyond the last", Mutate: success(batchv1.SuccessPolicyRule{SucceededIndexes: new("0,3")}), Field: "spec.successPolicy.rules[0].succeededIndexes"},
			{Name: "success of too many", Mutate: success(batchv1.SuccessPolicyRule{SucceededIndexes: new("0-1"), SucceededCount: new(int32(3))}), Field: "spec.successPolicy.rules[0].succeededCount"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*batchv1.Job]{
			{Name: "completions", Mutate: func(j *batchv1.Job) { j.Spec.Completions = new(int32(5)) }, Field: "spec.completions"},
			{Name: "completions alone", From: indexed, Mutate: func(j *batchv1.Job) { j.Spec.Completions = new(int32(5)) }, Field: "spec.completions"},
			{Name: "template", Mutate: func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "x" }, Field: "spec.template"},
			{Name: "node selector of a Job that runs", Mutate: func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"} }, Field: "spec.template"},
			{Name: "image of a suspended Job", From: suspended, Mutate: func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "x" }, Field: "spec.template.spec"},
			{Name: "mode", From: indexed, Mutate: func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.NonIndexedCompletion) }, Field: "spec.completionMode"},
			{Name: "manager", Mutate: func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/x") }, Field: "spec.managedBy"},
		},
		// Pods are orphaned first, for which a finalizer stays.
		LongDelete: true,
		Row:        []any{"j", "Running", "0/1", ""},
	})
}

// heard collects warnings.
type heard struct {
	mu   sync.Mutex // guards text
	text []string
}

func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, text)
}

func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.text
	h.text = nil
	return out
}

func serve(t *testing.T) (clientbatchv1.JobInterface, *heard) {
	t.Helper()
	group := registry.Group{
		Name:        batchv1.GroupName,
		AddToScheme: batchv1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{job.Resource}}},
	}
	h := &heard{}
	config := rest.CopyConfig(registrytest.Serve(t, registry.Config{}, group))
	config.WarningHandlerWithContext = h
	return kubernetes.NewForConfigOrDie(config).BatchV1().Jobs("default"), h
}

func TestGeneratedSelector(t *testing.T) {
	client, h := serve(t)
	ctx := t.Context()
	plain := valid()
	plain.Name = "a.b"
	made, err := client.Create(ctx, plain, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(h.take()); n != 1 {
		t.Errorf("%d warnings about the name, want 1", n)
	}
	uid := string(made.UID)
	want := map[string]string{"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid, "job-name": "a.b", "batch.kubernetes.io/job-name": "a.b"}
	if diff := cmp.Diff(want, made.Spec.Template.Labels); diff != "" {
		t.Errorf("labels of the template (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, made.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"batch.kubernetes.io/controller-uid": uid}, made.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}

	labelled := valid()
	labelled.Spec.Template.Labels = map[string]string{"x": "y"}
	if made, err = client.Create(ctx, labelled, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(made.Labels)); len(got) != 5 {
		t.Errorf("labels are %v, want the template's and the four generated", got)
	}

	manual := valid()
	manual.Name = "manual"
	manual.Spec.ManualSelector = new(true)
	manual.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	manual.Spec.Template.Labels = map[string]string{"x": "y"}
	if made, err = client.Create(ctx, manual, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"x": "y"}, made.Spec.Template.Labels); diff != "" {
		t.Errorf("labels with a selector by hand (-want +got):\n%s", diff)
	}
}

func TestDeleteWarns(t *testing.T) {
	client, h := serve(t)
	ctx := t.Context()
	for _, tc := range []struct {
		options metav1.DeleteOptions
		want    int
	}{
		{metav1.DeleteOptions{}, 1},
		{metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, 0},
	} {
		if _, err := client.Create(ctx, valid(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := client.Delete(ctx, "j", tc.options); err != nil {
			t.Fatal(err)
		}
		if got := h.take(); len(got) != tc.want {
			t.Errorf("delete with %v warns %q, want %d", tc.options.PropagationPolicy, got, tc.want)
		}
		made, err := client.Get(ctx, "j", metav1.GetOptions{})
		if tc.want == 0 {
			if !apierrors.IsNotFound(err) {
				t.Errorf("get after a background delete: %v", err)
			}
			continue
		}
		if err != nil || !slices.Contains(made.Finalizers, metav1.FinalizerOrphanDependents) {
			t.Fatalf("a delete without policy does not orphan pods: %v, %v", made.Finalizers, err)
		}
		made.Finalizers = nil
		if _, err := client.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSuspended changes what a queue may change of a Job that has not begun.
func TestSuspended(t *testing.T) {
	client, _ := serve(t)
	ctx := t.Context()
	j := valid()
	suspended(j)
	made, err := client.Create(ctx, j, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template := &made.Spec.Template
	template.Annotations = map[string]string{"a": "b"}
	template.Spec.NodeSelector = map[string]string{"a": "b"}
	template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}}}},
	}}}
	template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	if made, err = client.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("placing a suspended Job: %v", err)
	}
	made.Spec.Template.Spec.Affinity = nil
	if made, err = client.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("taking the affinity away: %v", err)
	}
	made.Status.StartTime, made.Status.Active = new(metav1.Now()), 1
	if made, err = client.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	made.Spec.Template.Spec.NodeSelector = nil
	if _, err = client.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("placing a suspended Job with pods: %v, want invalid", err)
	}
}

func TestStatus(t *testing.T) {
	start := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	end := metav1.NewTime(start.Add(time.Minute))
	is := func(kinds ...batchv1.JobConditionType) []batchv1.JobCondition {
		var out []batchv1.JobCondition
		for _, k := range kinds {
			out = append(out, batchv1.JobCondition{Type: k, Status: corev1.ConditionTrue})
		}
		return out
	}
	done := batchv1.JobStatus{StartTime: &start, CompletionTime: &end, Succeeded: 1, Conditions: is(batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)}
	for _, tc := range []struct {
		name     string
		spec     func(*batchv1.Job)
		old, now batchv1.JobStatus
		want     []string // fields of errors
	}{
		{name: "completes", old: batchv1.JobStatus{StartTime: &start}, now: done},
		{name: "nothing changes", old: done, now: done},
		{name: "complete without more", now: batchv1.JobStatus{Conditions: is(batchv1.JobComplete)},
			want: []string{"status.conditions", "status.completionTime", "status.startTime"}},
		{name: "failed without target", now: batchv1.JobStatus{StartTime: &start, Conditions: is(batchv1.JobFailed)}, want: []string{"status.conditions"}},
		{name: "complete and failed", old: batchv1.JobStatus{StartTime: &start}, now: batchv1.JobStatus{
			StartTime: &start, CompletionTime: &end, Conditions: is(batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget),
		}, want: []string{"status.conditions", "status.conditions", "status.conditions", "status.conditions"}},
		{name: "comes back", old: done, now: batchv1.JobStatus{StartTime: &start, Succeeded: 1}, want: []string{"status.conditions", "status.conditions"}},
		{name: "ends before it begins", old: batchv1.JobStatus{StartTime: &end}, now: batchv1.JobStatus{
			StartTime: &end, CompletionTime: &start, Conditions: done.Conditions,
		}, want: []string{"status.completionTime"}},
		{name: "begins again", old: batchv1.JobStatus{StartTime: &start}, now: batchv1.JobStatus{StartTime: &end}, want: []string{"status.startTime"}},
		{name: "begins again after a pause", old: batchv1.JobStatus{StartTime: &start, Conditions: is(batchv1.JobSuspended)},
			now: batchv1.JobStatus{StartTime: &end, Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse}}}},
		{name: "pods after the end", old: done, now: func() batchv1.JobStatus {
			s := *done.DeepCopy()
			s.Active, s.Terminating = 1, new(int32(1))
			s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"u"}}
			return s
		}(), want: []string{"status.active", "status.terminating", "status.uncountedTerminatedPods"}},
		{name: "counts", now: batchv1.JobStatus{
			Active: -1, Ready: new(int32(1)), UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Failed: []types.UID{"u"}, Succeeded: []types.UID{"u", ""}},
		}, want: []string{"status.active", "status.uncountedTerminatedPods.succeeded[1]", "status.uncountedTerminatedPods.failed[0]", "status.ready"}},
		{name: "counts go down", old: batchv1.JobStatus{Failed: 2, Succeeded: 2}, now: batchv1.JobStatus{}, want: []string{"status.failed", "status.succeeded"}},
		{name: "successes of an elastic Job go down", spec: indexed, old: batchv1.JobStatus{Succeeded: 2}, now: batchv1.JobStatus{}},
		{name: "indexes without index", now: batchv1.JobStatus{CompletedIndexes: "0", FailedIndexes: new("")}, want: []string{"status.completedIndexes", "status.failedIndexes"}},
		{name: "indexes", spec: func(j *batchv1.Job) { indexed(j); j.Spec.BackoffLimitPerIndex = new(int32(1)) },
			now: batchv1.JobStatus{CompletedIndexes: "0-1", FailedIndexes: new("1,9")}, want: []string{"status.failedIndexes", "status.failedIndexes"}},
		{name: "indexes after the Job shrank", spec: func(j *batchv1.Job) { indexed(j); j.Spec.BackoffLimitPerIndex = new(int32(1)) },
			old: batchv1.JobStatus{CompletedIndexes: "0-8"}, now: batchv1.JobStatus{CompletedIndexes: "0-8", Active: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := valid()
			if tc.spec != nil {
				tc.spec(old)
			}
			now := old.DeepCopy()
			old.Status, now.Status = tc.old, tc.now
			job.Resource.Default(old)
			job.Resource.Default(now)
			var got []string
			for _, err := range job.Resource.Status.Validate(t.Context(), now, old) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
