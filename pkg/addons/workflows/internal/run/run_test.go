// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

func TestTell(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limit := engine.NewError(engine.Runtime, "too many")
	limit.Title = engine.StepLimit
	for _, tt := range []struct {
		name   string
		end    *engine.End
		turn   engine.Turn
		phase  workflowsv1alpha1.Phase
		status metav1.ConditionStatus
		reason string
	}{
		{name: "a call", turn: engine.Turn{Actions: []engine.Action{{}}}, phase: workflowsv1alpha1.PhaseRunning, status: metav1.ConditionUnknown, reason: "Running"},
		{name: "more to do", turn: engine.Turn{Again: true}, phase: workflowsv1alpha1.PhaseRunning, status: metav1.ConditionUnknown, reason: "Running"},
		{name: "a wait", turn: engine.Turn{Wake: begin}, phase: workflowsv1alpha1.PhaseWaiting, status: metav1.ConditionUnknown, reason: "Running"},
		{name: "the end", end: &engine.End{Output: 1}, phase: workflowsv1alpha1.PhaseCompleted, status: metav1.ConditionTrue, reason: "Completed"},
		{name: "no output", end: &engine.End{}, phase: workflowsv1alpha1.PhaseCompleted, status: metav1.ConditionTrue, reason: "Completed"},
		{name: "too much", end: &engine.End{Output: strings.Repeat("x", MaxOutputBytes)}, phase: workflowsv1alpha1.PhaseFaulted, status: metav1.ConditionFalse, reason: "Faulted"},
		{name: "an error", end: &engine.End{Error: engine.NewError(engine.Communication, "no")}, phase: workflowsv1alpha1.PhaseFaulted, status: metav1.ConditionFalse, reason: "Faulted"},
		{name: "a timeout", end: &engine.End{Error: engine.NewError(engine.Timeout, "no")}, phase: workflowsv1alpha1.PhaseFaulted, status: metav1.ConditionFalse, reason: "Timeout"},
		{name: "a loop", end: &engine.End{Error: limit}, phase: workflowsv1alpha1.PhaseFaulted, status: metav1.ConditionFalse, reason: "StepLimit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w workflowsv1alpha1.WorkflowRun
			tell(&w, &engine.State{StartedAt: begin, End: tt.end}, tt.turn, nil)
			c := meta.FindStatusCondition(w.Status.Conditions, workflowsv1alpha1.ConditionSucceeded)
			if w.Status.Phase != tt.phase || c.Status != tt.status || c.Reason != tt.reason || c.Message == "" {
				t.Errorf("%s, %+v", w.Status.Phase, c)
			}
			if finished := tt.end != nil; finished != w.Status.Phase.Finished() || finished != (w.Status.EndTime != nil) {
				t.Errorf("end %v in phase %s", w.Status.EndTime, w.Status.Phase)
			}
		})
	}
	t.Run("history", func(t *testing.T) {
		var w workflowsv1alpha1.WorkflowRun
		for range 60 {
			tell(&w, &engine.State{}, engine.Turn{}, recordsOf([]engine.Entry{
				{Reference: "/do/0/a", Outcome: engine.Faulted, Error: engine.NewError(engine.Runtime, "%s", strings.Repeat("x", 9999))},
			}))
		}
		if n := len(w.Status.History); n != historyLength || len(w.Status.History[0].Message) > 1000 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestHopeless(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"too large for us", tooLarge(1), true},
		{"too large for the API server", apierrors.NewRequestEntityTooLargeError("3145728"), true},
		{"too large for etcd", errors.New("etcdserver: request is too large"), true},
		{"a conflict", apierrors.NewConflict(workflowsv1alpha1.GroupVersion.WithResource("workflowruns").GroupResource(), "x", nil), false},
	} {
		if problem, got := hopeless(tt.err); got != tt.want || got != (problem != nil) {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// An API server that fails now and then is no fault of the container's, and a Job that is gone is no reason to wait.
func TestJob_Waits(t *testing.T) {
	t.Parallel()
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "0123456789"}}
	action := engine.Action{Seq: 3, Await: true, Arguments: map[string]any{"image": "i"}}
	done := jobOf(run, action)
	done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: done.Name}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 4}}},
		}},
	}
	for _, tt := range []struct {
		name string
		get  error
		want any // code
		err  string
	}{
		{"fails now and then", nil, 4, ""},
		{"gone", apierrors.NewNotFound(batchv1.Resource("jobs"), "j"), nil, "somebody has deleted the Job"},
		{"no right", apierrors.NewForbidden(batchv1.Resource("jobs"), "j", errors.New("not yours")), nil, "not yours"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			action := action
			action.Return = "code"
			looks := 0 // the first of which is at whose the Job is
			away := func() error {
				if looks++; looks == 2 || looks == 4 { // a Get, and the List after the next
					return apierrors.NewServiceUnavailable("away")
				}
				return nil
			}
			c := fake.NewClientBuilder().WithObjects(done.DeepCopy(), pod.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if err := away(); err != nil {
						return err
					}
					if tt.get != nil && looks > 1 {
						return tt.get
					}
					return c.Get(ctx, key, o, options...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if err := away(); err != nil {
						return err
					}
					return c.List(ctx, list, options...)
				},
			}).Build()
			r := &Reconciler{client: c, reader: c, pods: kubernetesfake.NewClientset(pod.DeepCopy())}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := r.job(ctx, run, action)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// objects is a client that has them, and does what funcs say.
func objects(t *testing.T, funcs interceptor.Funcs, all ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, workflowsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).WithStatusSubresource(&workflowsv1alpha1.WorkflowRun{}).WithInterceptorFuncs(funcs).Build()
}

// Null is no pointer when it is read: a workflow that ends with a call without an answer has an output all the same.
func TestChild_WithoutOutput(t *testing.T) {
	t.Parallel()
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "0123456789"}}
	action := engine.Action{Seq: 3, Await: true, Arguments: map[string]any{"name": "w"}}
	child := &workflowsv1alpha1.WorkflowRun{ObjectMeta: owned(run, action)}
	tell(child, &engine.State{End: &engine.End{}}, engine.Turn{}, nil)
	c := objects(t, interceptor.Funcs{}, child)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got, err := (&Reconciler{client: c, reader: c}).child(ctx, run, action); got != nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// What has the name that a task's object is to have is not taken for that, nor deleted with it.
func TestCreate_SomebodyElses(t *testing.T) {
	t.Parallel()
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "0123456789"}}
	for _, await := range []bool{false, true} {
		action := engine.Action{Seq: 3, Await: await, Arguments: map[string]any{"name": "w", "image": "i"}}
		theirs := owned(run, action)
		theirs.OwnerReferences = nil
		child, job := &workflowsv1alpha1.WorkflowRun{ObjectMeta: theirs}, &batchv1.Job{ObjectMeta: theirs}
		c := objects(t, interceptor.Funcs{}, child, job)
		r := &Reconciler{client: c, reader: c}
		if _, err := r.child(t.Context(), run, action); err == nil || !strings.Contains(err.Error(), "somebody else's") {
			t.Errorf("child: %v", err)
		}
		if _, err := r.job(t.Context(), run, action); err == nil || !strings.Contains(err.Error(), "somebody else's") {
			t.Errorf("job: %v", err)
		}
	}
	// The API server looks at the UID, which a client in memory does not.
	var asked []types.UID
	c := objects(t, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
		asked = append(asked, *(&client.DeleteOptions{}).ApplyOptions(options).Preconditions.UID)
		return nil
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errUnwanted)
	(&Reconciler{client: c}).discard(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "theirs"}}, "mine")
	if diff := cmp.Diff([]types.UID{"mine"}, asked); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}

// What others do to a run that listens, or the API server for a while, is no fault of who emits.
func TestEmit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		there    int // events
		failures int // of updates
		failure  error
		given    bool
		err      string
	}{
		{name: "at once", given: true},
		{name: "somebody else is faster", failures: 8, failure: apierrors.NewConflict(schema.GroupResource{}, "r", errors.New("changed")), given: true},
		{name: "the API server is away", failures: 2, failure: apierrors.NewServiceUnavailable("away"), given: true},
		{name: "no answer", failures: 2, failure: errors.New("connection refused"), given: true},
		{name: "no right", failures: 1, failure: apierrors.NewForbidden(schema.GroupResource{}, "r", errors.New("not yours")), err: "not yours"},
		{name: "full", there: maxEvents},
		{name: "too large", failures: 1, failure: apierrors.NewRequestEntityTooLargeError("3145728")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}}
			for i := range tt.there {
				run.Spec.Events = append(run.Spec.Events, apiextensionsv1.JSON{Raw: fmt.Appendf(nil, `{"source":"s","id":"%d"}`, i)})
			}
			failures := tt.failures
			c := objects(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
				if failures--; failures >= 0 {
					return tt.failure
				}
				return c.Update(ctx, o, options...)
			}}, run)
			recorder := events.NewFakeRecorder(10)
			err := (&Reconciler{client: c, reader: c, recorder: recorder}).emit(t.Context(), "ns", map[string]any{"source": "s", "id": "new"})
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v", err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil {
				t.Fatal(err)
			}
			if given := len(run.Spec.Events) > tt.there; given != tt.given {
				t.Errorf("it was given: %t", given)
			}
			if lost := len(recorder.Events) == 1; lost != (!tt.given && tt.err == "") {
				t.Errorf("it is said to be lost: %t", lost)
			}
		})
	}
}

// A run whose secrets may not be read begins when they may be.
func TestLoad_WaitsForSecrets(t *testing.T) {
	t.Parallel()
	document := `{"document": {"dsl": "1.0.3", "namespace": "ns", "name": "w", "version": "1.0.0"}, "use": {"secrets": ["s"]}, "do": [{"a": {"set": {"x": 1}}}]}`
	run := &workflowsv1alpha1.WorkflowRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Spec: workflowsv1alpha1.WorkflowRunSpec{Definition: &apiextensionsv1.JSON{Raw: []byte(document)}},
	}
	allowed := false
	c := objects(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, secret := o.(*corev1.Secret); secret && !allowed {
			return apierrors.NewForbidden(corev1.Resource("secrets"), "s", errors.New("not yours"))
		}
		return c.Get(ctx, key, o, options...)
	}}, run, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"k": []byte("v")}})
	r := &Reconciler{client: c, reader: c}
	key := client.ObjectKeyFromObject(run)
	x := &execution{name: key}
	if wait, err := r.load(t.Context(), x); err != nil || wait == 0 || x.state != nil {
		t.Fatalf("it waits %s, %v, %+v", wait, err, x.state)
	}
	if err := c.Get(t.Context(), key, run); err != nil {
		t.Fatal(err)
	}
	condition := meta.FindStatusCondition(run.Status.Conditions, workflowsv1alpha1.ConditionSucceeded)
	if run.Status.Phase != workflowsv1alpha1.PhasePending || condition.Reason != "SecretForbidden" || !strings.Contains(condition.Message, SecretsRole) {
		t.Errorf("%s, %+v", run.Status.Phase, condition)
	}
	allowed = true
	x = &execution{name: key}
	if _, err := r.load(t.Context(), x); err != nil || x.state == nil || x.state.End != nil {
		t.Fatalf("got %v, %+v", err, x.state)
	}
	if diff := cmp.Diff(map[string]any{"s": map[string]any{"k": "v"}}, x.secrets); diff != "" {
		t.Error(diff)
	}
}

// A run whose journal somebody has deleted cannot go on, and says so.
func TestLoad_WithoutJournal(t *testing.T) {
	t.Parallel()
	document := `{"document": {"dsl": "1.0.3", "namespace": "ns", "name": "w", "version": "1.0.0"}, "do": [{"a": {"set": {"x": 1}}}]}`
	run := &workflowsv1alpha1.WorkflowRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Spec: workflowsv1alpha1.WorkflowRunSpec{Definition: &apiextensionsv1.JSON{Raw: []byte(document)}},
		Status: workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.PhaseRunning, Journal: &workflowsv1alpha1.Journal{Revision: 7, ConfigMaps: []string{"gone"}}},
	}
	c := objects(t, interceptor.Funcs{}, run)
	r := &Reconciler{client: c, reader: c, journals: journals{client: c, reader: c}}
	x := &execution{name: client.ObjectKeyFromObject(run)}
	if _, err := r.load(t.Context(), x); err != nil || x.state == nil || x.state.End == nil || !strings.Contains(x.state.End.Error.Detail, "gone") {
		t.Errorf("got %v, %+v", err, x.state)
	}
}

// A journal is forgotten with its parts, and with nothing else that somebody has written into a status.
func TestJournal_Forget(t *testing.T) {
	t.Parallel()
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "0123456789"}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}}
	c := objects(t, interceptor.Funcs{}, other)
	j := journals{client: c, reader: c}
	journal, err := j.write(t.Context(), run, 1, &engine.State{Input: strings.Repeat("x", 2*inlineBytes)})
	if err != nil || len(journal.ConfigMaps) != 1 {
		t.Fatalf("got %+v, %v", journal, err)
	}
	journal.ConfigMaps = append(journal.ConfigMaps, other.Name)
	if err := j.forget(t.Context(), run, journal, nil); err != nil {
		t.Fatal(err)
	}
	var left corev1.ConfigMapList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 1 || left.Items[0].Name != other.Name {
		t.Errorf("left are %+v, %v", left.Items, err)
	}
}

// What is made for a run is named after it, also where a long name is cut at a dot.
func TestOwned(t *testing.T) {
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "0123456789"}}
	for _, name := range []string{"r", strings.Repeat("a", 39) + ".b", strings.Repeat("a", 250)} {
		run.Name = name
		if name := owned(run, engine.Action{Seq: 3}).Name; len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("%q is no name", name)
		}
	}
}

func TestJobOf(t *testing.T) {
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "0123456789"}}
	for _, tt := range []struct {
		name      string
		arguments map[string]any
		want      corev1.Container
		ttl       *int32
	}{
		{
			name: "the image's own command", arguments: map[string]any{"image": "i", "arguments": []any{"a", 1}},
			want: corev1.Container{Args: []string{"a", "1"}, ImagePullPolicy: corev1.PullIfNotPresent},
		},
		{
			name: "a line of shell", arguments: map[string]any{"image": "i", "command": "echo $1", "arguments": []any{"a"}, "environment": map[string]any{"X": 1}, "pullPolicy": "never"},
			want: corev1.Container{
				Command: []string{"/bin/sh", "-c", "echo $1", "sh"}, Args: []string{"a"}, Env: []corev1.EnvVar{{Name: "X", Value: "1"}}, ImagePullPolicy: corev1.PullNever,
			},
		},
		{
			name: "a lifetime", arguments: map[string]any{"image": "i", "lifetime": map[string]any{"cleanup": "eventually", "after": map[string]any{"minutes": 2}}},
			want: corev1.Container{Args: []string{}, ImagePullPolicy: corev1.PullIfNotPresent}, ttl: new(int32(120)),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := jobOf(run, engine.Action{Seq: 3, Arguments: tt.arguments})
			if job.Name != "r-01234567-3" || *job.Spec.BackoffLimit != 0 || len(job.OwnerReferences) != 1 {
				t.Errorf("job %+v", job)
			}
			tt.want.Name, tt.want.Image, tt.want.TerminationMessagePolicy = "main", "i", corev1.TerminationMessageFallbackToLogsOnError
			if diff := cmp.Diff(tt.want, job.Spec.Template.Spec.Containers[0]); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.ttl, job.Spec.TTLSecondsAfterFinished); diff != "" {
				t.Error(diff)
			}
		})
	}
}
