// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/call"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

const (
	// DepthAnnotation is how many runs a run is started by, one by another.
	DepthAnnotation = "workflows.minik8s.io/depth"
	// maxDepth ends workflows that run themselves for ever.
	maxDepth = 16
	// childLook and jobLook are how often it is looked whether a run or a Job has ended; the former in the cache.
	childLook, jobLook = 50 * time.Millisecond, 250 * time.Millisecond
	// maxEvents is as many events as a run may have: maxItems of the field.
	maxEvents = 256
	// cleanUp is how long it may take to delete what nobody wants any more.
	cleanUp = 10 * time.Second
	// patience is how long the API server may not answer before a task faults.
	patience = 2 * time.Minute
)

// do does an action of a run, and returns what came of it.
func (r *Reconciler) do(ctx context.Context, run *workflowsv1alpha1.WorkflowRun, a engine.Action) engine.Result {
	var output any
	var err error
	switch a.Kind {
	case engine.ActionEmit:
		output, err = a.Arguments, r.emit(ctx, run.Namespace, a.Arguments.(map[string]any))
	case engine.ActionWorkflow:
		output, err = r.child(ctx, run, a)
	case engine.ActionContainer:
		output, err = r.job(ctx, run, a)
	default:
		caller := *r.caller
		caller.Function = func(_ context.Context, name string) (string, error) {
			return "http://" + name + "." + run.Namespace + ".svc", nil
		}
		return caller.Do(ctx, a)
	}
	if err == nil {
		return engine.Result{Output: output}
	}
	var problem *engine.Error
	if !errors.As(err, &problem) {
		problem = engine.NewError(engine.Runtime, "%v", err)
	}
	return engine.Result{Error: problem}
}

// emit gives an event to all runs of a namespace that listen and are not at their end. One that has it already is left alone. One that has no
// room for it loses it, and says so: who emits has no part in that.
func (r *Reconciler) emit(ctx context.Context, namespace string, e map[string]any) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	var runs workflowsv1alpha1.WorkflowRunList
	if err := patiently(ctx, func() error { return r.client.List(ctx, &runs, client.InNamespace(namespace)) }); err != nil {
		return err
	}
	var failures []error
	for _, run := range runs.Items {
		if run.Status.Phase.Finished() || run.Status.Listens != nil && !*run.Status.Listens {
			continue
		}
		err := patiently(ctx, func() error { return r.deliver(ctx, client.ObjectKeyFromObject(&run), e, text) })
		if _, large := hopeless(err); large || errors.Is(err, errFull) {
			r.recorder.Eventf(&run, nil, corev1.EventTypeWarning, "EventLost", "Emit", "%s", shorten(fmt.Sprintf("The event %s was not given to the run: %v", nameOf(e), err)))
		} else if err != nil {
			failures = append(failures, fmt.Errorf("the event was not given to the run %s: %w", run.Name, err))
		}
	}
	return errors.Join(failures...)
}

// nameOf says to a reader which event is meant.
func nameOf(e map[string]any) string { return fmt.Sprintf("%.100v of %.200v", e["id"], e["source"]) }

// errFull is that of a run that can have no more events.
var errFull = fmt.Errorf("it has %d events already, which is the limit", maxEvents)

func (r *Reconciler) deliver(ctx context.Context, name types.NamespacedName, e map[string]any, text []byte) error {
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := r.reader.Get(ctx, name, run); err != nil {
		return client.IgnoreNotFound(err)
	}
	if run.Status.Phase.Finished() {
		return nil
	}
	for _, raw := range run.Spec.Events {
		if there, ok := eventOf(raw); ok && engine.EventKey(there) == engine.EventKey(e) {
			return nil
		}
	}
	if len(run.Spec.Events) >= maxEvents {
		return errFull
	}
	run.Spec.Events = append(run.Spec.Events, apiextensionsv1.JSON{Raw: text})
	return client.IgnoreNotFound(r.client.Update(ctx, run))
}

// patiently does something with the API server until that is done or refused. That it does not answer now, or that somebody else was
// faster, is no fault of a task's; it is when it goes on for too long.
func patiently(ctx context.Context, do func() error) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	backoff := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 9, Cap: 2 * time.Second}
	var last error
	if err := backoff.DelayFunc().Until(limited, true, false, func(context.Context) (bool, error) {
		last = do()
		return !passing(last), nil
	}); err != nil && last == nil {
		return err
	}
	return last
}

// passing tells whether an error may be gone when the same is done again.
func passing(err error) bool {
	if _, never := hopeless(err); err == nil || never || errors.Is(err, errFull) {
		return false
	}
	if answer := apierrors.APIStatus(nil); errors.As(err, &answer) {
		code := answer.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || apierrors.IsConflict(err)
	}
	return true // there was no answer
}

// beginning is that of a name, of so many letters at most, after which "-" may stand.
func beginning(name string, most int) string {
	return strings.TrimRight(name[:min(len(name), most)], ".")
}

// owned is the metadata of what is made for a task: of the same name whenever the task is done again.
func owned(run *workflowsv1alpha1.WorkflowRun, a engine.Action) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: run.Namespace, Name: fmt.Sprintf("%s-%.8s-%d", beginning(run.Name, 40), run.UID, a.Seq),
		Labels:          map[string]string{RunLabel: string(run.UID)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(run, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun"))},
	}
}

// create makes what belongs to a task of the run, unless that was done before. What has the name and is somebody else's is not taken for it.
func (r *Reconciler) create(ctx context.Context, run *workflowsv1alpha1.WorkflowRun, o client.Object) error {
	err := patiently(ctx, func() error { return r.client.Create(ctx, o) })
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := patiently(ctx, func() error { return r.reader.Get(ctx, client.ObjectKeyFromObject(o), o) }); err != nil {
		return err
	}
	if !metav1.IsControlledBy(o, run) {
		return fmt.Errorf("%q is there, and is somebody else's", o.GetName())
	}
	return nil
}

// discard deletes what was made for a task that is over before it was.
func (r *Reconciler) discard(ctx context.Context, o client.Object, uid types.UID) {
	if !errors.Is(context.Cause(ctx), errUnwanted) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	// What cannot be deleted goes with the run, whose it is.
	_ = r.client.Delete(ctx, o, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// child runs another workflow.
func (r *Reconciler) child(ctx context.Context, run *workflowsv1alpha1.WorkflowRun, a engine.Action) (any, error) {
	arguments, _ := a.Arguments.(map[string]any)
	name, _ := arguments["name"].(string)
	depth, _ := strconv.Atoi(run.Annotations[DepthAnnotation])
	if depth >= maxDepth {
		return nil, engine.NewError(engine.Configuration, "%d runs have started one another, which is the limit: does a workflow run itself?", depth)
	}
	if version, _ := arguments["version"].(string); version != "" && version != "latest" {
		var w workflowsv1alpha1.Workflow
		key := types.NamespacedName{Namespace: run.Namespace, Name: name}
		if err := patiently(ctx, func() error { return r.reader.Get(ctx, key, &w) }); err != nil {
			return nil, engine.NewError(engine.Configuration, "getting the Workflow %q: %v", name, err)
		}
		if w.Status.Version != "" && w.Status.Version != version {
			return nil, engine.NewError(engine.Configuration, "the Workflow %q has version %s, and %s is asked for", name, w.Status.Version, version)
		}
	}
	o := &workflowsv1alpha1.WorkflowRun{ObjectMeta: owned(run, a), Spec: workflowsv1alpha1.WorkflowRunSpec{Workflow: name}}
	o.Annotations = map[string]string{DepthAnnotation: strconv.Itoa(depth + 1)}
	input := arguments["input"]
	if _, given := arguments["input"]; !given {
		input = a.Input
	}
	text, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	o.Spec.Input = &apiextensionsv1.JSON{Raw: text}
	if err := r.create(ctx, run, o); err != nil {
		return nil, fmt.Errorf("making a run of the Workflow %q: %w", name, err)
	}
	if !a.Await {
		return a.Input, nil
	}
	key, uid := client.ObjectKeyFromObject(o), o.UID
	seen := false // by the cache
	err = wait.PollUntilContextCancel(ctx, childLook, false, func(ctx context.Context) (bool, error) {
		err := r.client.Get(ctx, key, o)
		if seen && apierrors.IsNotFound(err) || err == nil && o.UID != uid {
			return false, engine.NewError(engine.Runtime, "somebody has deleted the run %s", key.Name)
		}
		seen = seen || err == nil
		return err == nil && o.Status.Phase.Finished(), nil
	})
	if err != nil {
		r.discard(ctx, o, uid)
		return nil, fmt.Errorf("waiting for the run %s: %w", key.Name, err)
	}
	if p := o.Status.Error; p != nil {
		return nil, &engine.Error{Type: p.Type, Status: int(p.Status), Title: p.Title, Detail: fmt.Sprintf("the run %s: %s", key.Name, p.Detail)}
	}
	if o.Status.Output == nil { // null, as JSON has it
		return nil, nil
	}
	return dsl.Decode(o.Status.Output.Raw)
}

// job runs a container as a Job that is not repeated.
func (r *Reconciler) job(ctx context.Context, run *workflowsv1alpha1.WorkflowRun, a engine.Action) (any, error) {
	o := jobOf(run, a)
	if err := r.create(ctx, run, o); err != nil {
		return nil, fmt.Errorf("making the Job of the container: %w", err)
	}
	if !a.Await {
		return a.Input, nil
	}
	key, uid := client.ObjectKeyFromObject(o), o.UID
	var code int
	var out string
	// An API server that does not answer now is no end of the container's: only what it says is.
	err := wait.PollUntilContextCancel(ctx, jobLook, false, func(ctx context.Context) (bool, error) {
		err := r.reader.Get(ctx, key, o)
		if err == nil && o.UID == uid && ended(o) {
			code, out, err = r.outcome(ctx, o)
			if err == nil || errors.As(err, new(*engine.Error)) {
				return true, err
			}
		}
		if apierrors.IsNotFound(err) || err == nil && o.UID != uid {
			return false, engine.NewError(engine.Runtime, "somebody has deleted the Job %s, or its pod", key.Name)
		}
		if apierrors.IsForbidden(err) { // waiting would not help
			return false, err
		}
		return false, nil
	})
	if err != nil {
		r.discard(ctx, o, uid)
		return nil, fmt.Errorf("waiting for the Job %s: %w", key.Name, err)
	}
	switch a.Return {
	case "code":
		return code, nil
	case "all":
		return map[string]any{"code": code, "stdout": out, "stderr": ""}, nil
	}
	if code != 0 {
		return nil, engine.NewError(engine.Runtime, "the container of the Job %s exited with %d: %s", key.Name, code, shorten(out))
	}
	if a.Return == "none" {
		return nil, nil
	}
	return out, nil
}

func ended(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// jobOf returns the Job of a container.
func jobOf(run *workflowsv1alpha1.WorkflowRun, a engine.Action) *batchv1.Job {
	arguments, _ := a.Arguments.(map[string]any)
	text := func(name string) string { s, _ := arguments[name].(string); return s }
	container := corev1.Container{
		Name: "main", Image: text("image"), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		ImagePullPolicy: map[string]corev1.PullPolicy{
			"always": corev1.PullAlways, "never": corev1.PullNever, "ifNotPresent": corev1.PullIfNotPresent, "": corev1.PullIfNotPresent,
		}[text("pullPolicy")],
	}
	list, _ := arguments["arguments"].([]any)
	words := make([]string, len(list))
	for i, item := range list {
		words[i] = fmt.Sprint(item)
	}
	if command := text("command"); command != "" {
		// A command is a line of shell, and arguments are its $1, $2, as in the DSL's examples.
		container.Command, container.Args = []string{"/bin/sh", "-c", command, "sh"}, words
	} else {
		container.Args = words
	}
	environment, _ := arguments["environment"].(map[string]any)
	for name, value := range environment {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: fmt.Sprint(value)})
	}
	job := &batchv1.Job{ObjectMeta: owned(run, a), Spec: batchv1.JobSpec{
		BackoffLimit: new(int32(0)),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{container}, AutomountServiceAccountToken: new(false),
		}},
	}}
	lifetime, _ := arguments["lifetime"].(map[string]any)
	switch lifetime["cleanup"] {
	case "always":
		// Not at once: a controller that was killed may have to look at it again.
		job.Spec.TTLSecondsAfterFinished = new(int32(60))
	case "eventually":
		if after, err := dsl.ParseDuration(lifetime["after"]); err == nil {
			job.Spec.TTLSecondsAfterFinished = new(int32(max(after.Seconds(), 60)))
		}
	}
	return job
}

// outcome returns the exit code of a Job's container, and what it has written.
func (r *Reconciler) outcome(ctx context.Context, j *batchv1.Job) (int, string, error) {
	var pods corev1.PodList
	if err := r.reader.List(ctx, &pods, client.InNamespace(j.Namespace), client.MatchingLabels{batchv1.JobNameLabel: j.Name}); err != nil {
		return 0, "", fmt.Errorf("looking for the pod of the Job %s: %w", j.Name, err)
	}
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated == nil {
				continue
			}
			const limit = call.MaxBytes
			stream, err := r.pods.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{LimitBytes: new(int64(limit))}).Stream(ctx)
			if err != nil {
				return 0, "", fmt.Errorf("reading what the pod %s has written: %w", p.Name, err)
			}
			text, err := io.ReadAll(io.LimitReader(stream, limit))
			_ = stream.Close()
			return int(s.State.Terminated.ExitCode), string(text), err
		}
	}
	return 0, "", engine.NewError(engine.Runtime, "the Job %s ended without a container that did; see kubectl describe job %s", j.Name, j.Name)
}
