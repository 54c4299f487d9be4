// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientworkqueue "k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/definition"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

type workqueue = clientworkqueue.TypedRateLimitingInterface[ctrl.Request]

// errUnwanted ends actions whose results nobody wants any more; what they have made is taken away.
var errUnwanted = errors.New("the task that wanted it is over")

// execution is a run in memory.
type execution struct {
	name types.NamespacedName
	// object is the run as it was last written or read; told is when its status was written here.
	object *workflowsv1alpha1.WorkflowRun
	told   time.Time
	doc    *dsl.Workflow
	input  any
	// secrets are there during a look at the run only: what somebody changes holds from the next one on.
	secrets map[string]any
	// state is where the run is; nil if it is to be read. written is what was written of it.
	state   *engine.State
	written []byte
	// revision is that of the journal: of the status, or of what is ahead of it.
	revision int64
	// log are the tasks that ended since the status was written, the last ones if they are many.
	log []workflowsv1alpha1.TaskRecord
	// ahead is the ConfigMap that is ahead of the status, as it was last written or read; nil if there is none.
	ahead *corev1.ConfigMap

	mu      sync.Mutex
	flights map[int]*flight // guarded by mu: actions on their way or done, by the number of their task
}

// flight is an action on its way.
type flight struct {
	cancel context.CancelCauseFunc
	result *engine.Result
}

// execution returns a run in memory, and reads it if it is not there. Without one it returns how long to wait.
func (r *Reconciler) execution(
	ctx context.Context, name types.NamespacedName, seen *workflowsv1alpha1.WorkflowRun,
) (*execution, time.Duration, error) {
	r.mu.Lock()
	x := r.live[name]
	r.mu.Unlock()
	if x != nil && x.object.UID != seen.UID {
		r.drop(name, errUnwanted)
		x = nil
	}
	if x != nil && x.state != nil && revision(seen) <= revision(x.object) {
		if revision(seen) == revision(x.object) {
			x.object = seen
		}
		switch problem, err := r.readSecrets(ctx, x); {
		case problem != nil:
			x.fail(problem)
		case apierrors.IsForbidden(err):
			return nil, pendingLook, r.secretForbidden(ctx, x.object, err)
		case err != nil:
			return nil, 0, err
		}
		return x, 0, nil
	}
	if x == nil {
		x = &execution{name: name, flights: map[int]*flight{}}
	}
	wait, err := r.load(ctx, x)
	if err != nil || x.state == nil {
		return nil, wait, err
	}
	r.mu.Lock()
	r.live[name] = x
	r.mu.Unlock()
	return x, 0, nil
}

func revision(run *workflowsv1alpha1.WorkflowRun) int64 {
	if run.Status.Journal == nil {
		return 0
	}
	return run.Status.Journal.Revision
}

// load reads a run as it is in the API, and begins it if it has not begun. It leaves no state if it cannot begin yet.
func (r *Reconciler) load(ctx context.Context, x *execution) (time.Duration, error) {
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := r.reader.Get(ctx, x.name, run); err != nil {
		return 0, err
	}
	x.object, x.state, x.written, x.revision, x.log, x.ahead, x.told = run, nil, nil, revision(run), nil, nil, time.Time{}
	if run.Status.Phase.Finished() || !run.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	begin := engine.Facts{Now: time.Now()}
	fail := func(err *engine.Error) (time.Duration, error) {
		err.Instance = "/"
		x.state = &engine.State{ID: string(run.UID), StartedAt: begin.Now, End: &engine.End{Error: err, At: begin.Now}}
		return 0, nil
	}
	if problem, wait, err := r.document(ctx, x); problem != nil {
		return fail(problem)
	} else if err != nil || x.doc == nil {
		return wait, err
	}
	if problem := x.prepare(); problem != nil {
		return fail(problem)
	}
	switch problem, err := r.readSecrets(ctx, x); {
	case problem != nil:
		return fail(problem)
	case apierrors.IsForbidden(err):
		return pendingLook, r.secretForbidden(ctx, run, err)
	case err != nil:
		return 0, err
	}
	if run.Status.Journal != nil {
		switch s, err := r.resume(ctx, x); {
		case apierrors.IsNotFound(err): // somebody has deleted it: it would be looked for for ever
			return fail(engine.NewError(engine.Runtime, "it is not known any more where the run was: %v", err))
		case err != nil:
			return 0, err
		default:
			x.state = s
			x.written, err = json.Marshal(s)
			return 0, err
		}
	}
	x.state = engine.Begin(ctx, x.doc, string(run.UID), x.facts())
	return 0, nil
}

// resume reads where a run is: in its status, or ahead of it.
func (r *Reconciler) resume(ctx context.Context, x *execution) (*engine.State, error) {
	m, a, err := r.journals.readAhead(ctx, x.object)
	if err != nil {
		return nil, err
	}
	x.ahead = m
	if a.Revision <= x.revision {
		return r.journals.read(ctx, x.object)
	}
	x.revision, x.log = a.Revision, a.History
	return engine.Load(a.State)
}

// document finds the document of a run: the one that it began with, or that it has now. It leaves none if there is none yet.
func (r *Reconciler) document(ctx context.Context, x *execution) (*engine.Error, time.Duration, error) {
	run := x.object
	var problems field.ErrorList
	switch kept := run.Status.Definition; {
	case kept != nil && run.Spec.Workflow != "":
		x.doc, problems = definition.OfWorkflow(kept.Raw)
	case kept != nil:
		x.doc, problems = definition.OfRun(kept.Raw, field.NewPath("status", "definition"))
	case run.Spec.Workflow != "" && run.Spec.Definition != nil || run.Spec.Workflow == "" && run.Spec.Definition == nil:
		return engine.NewError(engine.Configuration, "set one of spec.workflow and spec.definition"), 0, nil
	case run.Spec.Definition != nil:
		run.Status.Definition = run.Spec.Definition
		x.doc, problems = definition.OfRun(run.Spec.Definition.Raw, field.NewPath("spec", "definition"))
	default:
		var w workflowsv1alpha1.Workflow
		err := r.reader.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: run.Spec.Workflow}, &w)
		if apierrors.IsNotFound(err) {
			return nil, pendingLook, r.pending(ctx, run, "NoWorkflow",
				fmt.Sprintf("There is no Workflow %q in this namespace; the run begins when there is.", run.Spec.Workflow))
		}
		if err != nil {
			return nil, 0, fmt.Errorf("getting the Workflow: %w", err)
		}
		run.Status.Definition = &apiextensionsv1.JSON{Raw: w.Spec.Raw}
		x.doc, problems = definition.OfWorkflow(w.Spec.Raw)
	}
	if len(problems) > 0 {
		run.Status.Definition = nil
		return engine.NewError(engine.Configuration, "the document is not valid: %s", definition.Message(problems)), 0, nil
	}
	return nil, 0, nil
}

// SecretsRole names the ClusterRole that has the right to read Secrets. The controller has it in those namespaces only where somebody who
// has it binds it to the controller's account.
const SecretsRole = "system:minik8s:addon:workflows:secrets"

// secretForbidden says in the status of a run that it goes on when somebody who may has allowed it.
func (r *Reconciler) secretForbidden(ctx context.Context, run *workflowsv1alpha1.WorkflowRun, err error) error {
	return r.pending(ctx, run, "SecretForbidden", fmt.Sprintf(
		"%s; who may read it can allow it in this namespace: kubectl create rolebinding workflows --clusterrole=%s --user=USER", shorten(err.Error()), SecretsRole))
}

// pending says in the status of a run what it waits for.
func (r *Reconciler) pending(ctx context.Context, run *workflowsv1alpha1.WorkflowRun, reason, message string) error {
	condition := metav1.Condition{
		Type: workflowsv1alpha1.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: reason, ObservedGeneration: run.Generation, Message: message,
	}
	changed := meta.SetStatusCondition(&run.Status.Conditions, condition)
	if run.Status.Phase == workflowsv1alpha1.PhasePending && !changed {
		return nil
	}
	run.Status.Phase = workflowsv1alpha1.PhasePending
	if err := r.client.Status().Update(ctx, run); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing that the run is pending: %w", err)
	}
	return nil
}

// prepare reads the input of a run.
func (x *execution) prepare() *engine.Error {
	if in := x.object.Spec.Input; in != nil {
		if len(in.Raw) > MaxInputBytes {
			return engine.NewError(engine.Validation, "spec.input has %d bytes, and the limit is %d: put the data elsewhere, and give the run where",
				len(in.Raw), MaxInputBytes)
		}
		value, err := dsl.Decode(in.Raw)
		if err != nil {
			return engine.NewError(engine.Validation, "spec.input: %v", err)
		}
		x.input = value
	}
	listens := false
	for _, t := range x.doc.Tasks {
		listens = listens || t.Kind == dsl.KindListen
	}
	x.object.Status.Listens = &listens
	return nil
}

// readSecrets reads those that use.secrets names.
func (r *Reconciler) readSecrets(ctx context.Context, x *execution) (*engine.Error, error) {
	x.secrets = map[string]any{}
	for _, name := range x.doc.Use.Secrets {
		var secret corev1.Secret
		err := r.reader.Get(ctx, types.NamespacedName{Namespace: x.name.Namespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) {
			return engine.NewError(engine.Authorization, "there is no Secret %q, which use.secrets names", name), nil
		}
		if err != nil {
			return nil, fmt.Errorf("getting the Secret %q: %w", name, err)
		}
		values := map[string]any{}
		for key, value := range secret.Data {
			values[key] = string(value)
		}
		x.secrets[name] = values
	}
	return nil, nil
}

// facts are what the run sees of the world now.
func (x *execution) facts() engine.Facts {
	f := engine.Facts{Now: time.Now(), Input: x.input, Secrets: x.secrets, MaxSteps: int(x.object.Spec.MaxSteps), MaxBytes: MaxStateBytes, Batch: batch}
	for _, raw := range x.object.Spec.Events {
		if e, ok := eventOf(raw); ok {
			f.Events = append(f.Events, e)
		}
	}
	return f
}

// fail ends a run.
func (x *execution) fail(err *engine.Error) {
	err.Instance = "/"
	x.state = &engine.State{
		ID: x.state.ID, StartedAt: x.state.StartedAt, Steps: x.state.Steps, End: &engine.End{Error: err, At: time.Now()},
	}
}

// write writes down where a run is, if that is not written yet. A run that goes on at once has its status written now and then; in between
// what it has come to is written ahead of that, at a fifth of the cost.
func (r *Reconciler) write(ctx context.Context, x *execution, turn engine.Turn) error {
	text, err := json.Marshal(x.state)
	if err != nil {
		return err
	}
	changed := !bytes.Equal(text, x.written)
	switch {
	case changed && len(text) <= inlineBytes && x.statusCanWait(turn):
		// A quota or a namespace that goes may have no room for a ConfigMap; a status has room all the same.
		if err := r.writeAhead(ctx, x, text); !apierrors.IsForbidden(err) {
			return err
		}
		return r.writeStatus(ctx, x, turn, text)
	// The run may have been Pending on its way.
	case changed, x.statusDueIn() == 0, x.object.Status.Phase == workflowsv1alpha1.PhasePending:
		return r.writeStatus(ctx, x, turn, text)
	}
	return nil
}

// statusCanWait tells whether a status that says that the run goes on was written a moment ago, and would say so again.
func (x *execution) statusCanWait(turn engine.Turn) bool {
	status := &x.object.Status
	return status.Journal != nil && status.Phase == workflowsv1alpha1.PhaseRunning && time.Since(x.told) < statusInterval &&
		x.state.End == nil && (len(turn.Actions) > 0 || turn.Again)
}

// statusDueIn returns when the status must be written because something is ahead of it: -1 if nothing is.
func (x *execution) statusDueIn() time.Duration {
	if x.revision == revision(x.object) {
		return -1
	}
	return max(0, time.Until(x.told.Add(statusInterval)))
}

// writeAhead writes down where a run is ahead of its status.
func (r *Reconciler) writeAhead(ctx context.Context, x *execution, text []byte) error {
	m, err := r.journals.writeAhead(ctx, x.object, x.ahead, ahead{Revision: x.revision + 1, State: text, History: x.log})
	if err != nil {
		return fmt.Errorf("writing where the run is: %w", err)
	}
	x.ahead, x.written = m, text
	x.revision++
	return nil
}

// writeStatus writes down where a run is in its status. After a conflict with somebody who has changed something else it is written onto
// that.
func (r *Reconciler) writeStatus(ctx context.Context, x *execution, turn engine.Turn, text []byte) error {
	const attempts = 5
	var err error
	for range attempts {
		before := x.object.Status.Journal
		next := x.object.DeepCopy()
		tell(next, x.state, turn, x.log)
		if x.state.End == nil {
			if next.Status.Journal, err = r.journals.write(ctx, next, x.revision+1, x.state); err != nil {
				return err
			}
		} else {
			next.Status.Journal = &workflowsv1alpha1.Journal{Revision: x.revision + 1}
		}
		err = r.client.Status().Update(ctx, next)
		if err == nil {
			x.object, x.written, x.revision, x.log, x.told = next, text, revision(next), nil, time.Now()
			return r.forget(ctx, x, before)
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("writing where the run is: %w", err)
		}
		current := &workflowsv1alpha1.WorkflowRun{}
		if err := r.reader.Get(ctx, x.name, current); err != nil {
			return err
		}
		if current.UID != x.object.UID || revision(current) != revision(x.object) {
			return apierrors.NewConflict(workflowsv1alpha1.GroupVersion.WithResource("workflowruns").GroupResource(), x.name.Name,
				errors.New("another process runs it"))
		}
		current.Status.Definition, current.Status.Listens = x.object.Status.Definition, x.object.Status.Listens
		x.object = current
	}
	return err
}

// forget deletes what a status that is written does without: parts of the one before, and at the end what was ahead of it.
func (r *Reconciler) forget(ctx context.Context, x *execution, before *workflowsv1alpha1.Journal) error {
	if err := r.journals.forget(ctx, x.object, before, x.object.Status.Journal); err != nil {
		return err
	}
	if x.state.End == nil || x.ahead == nil {
		return nil
	}
	if err := r.client.Delete(ctx, x.ahead); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting what was ahead of the status: %w", err)
	}
	return nil
}

// collect gives the state what has come of actions.
func (x *execution) collect() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for seq, f := range x.flights {
		if f.result != nil {
			x.state.Resolve(seq, *f.result)
		}
	}
}

// follow starts actions that are not on their way, and ends those that are wanted no more.
func (x *execution) follow(r *Reconciler, actions []engine.Action) {
	x.mu.Lock()
	defer x.mu.Unlock()
	wanted := map[int]bool{}
	for _, a := range actions {
		wanted[a.Seq] = true
		if x.flights[a.Seq] != nil || r.lifetime.Err() != nil {
			continue
		}
		ctx, cancel := context.WithCancelCause(r.lifetime)
		f := &flight{cancel: cancel}
		x.flights[a.Seq] = f
		object := x.object
		r.calls.Go(func() {
			result := r.do(ctx, object, a)
			if ctx.Err() != nil {
				return
			}
			x.mu.Lock()
			f.result = &result
			x.mu.Unlock()
			r.wake(x.name)
		})
	}
	for seq, f := range x.flights {
		if !wanted[seq] {
			f.cancel(errUnwanted)
			delete(x.flights, seq)
		}
	}
}

// cancel ends all actions.
func (x *execution) cancel(cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for seq, f := range x.flights {
		f.cancel(cause)
		delete(x.flights, seq)
	}
}
