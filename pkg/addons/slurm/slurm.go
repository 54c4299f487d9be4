// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package slurm runs SlurmJobs: it copies what they need to the login node of a Slurm cluster, compiles and submits it there, and brings
// back what becomes of it. What has been done is found in the status or on the login node, so that it goes on wherever it was
// killed. Touch it to change how jobs get there and back.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"minik8s.io/minik8s/pkg/addons/addon"
	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/login"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/transfer"
)

// Addon is SlurmJobs.
func Addon() addon.Addon {
	return addon.Addon{
		Name:        "slurm",
		Title:       "SlurmJob: jobs that a Slurm cluster runs",
		Definitions: []string{batchv1alpha1.Definition},
		AddToScheme: batchv1alpha1.AddToScheme,
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{batchv1alpha1.GroupVersion.Group}, Resources: []string{"slurmjobs"}, Verbs: []string{"get", "list", "watch", "update", "patch"}},
			{APIGroups: []string{batchv1alpha1.GroupVersion.Group}, Resources: []string{"slurmjobs/status", "slurmjobs/finalizers"}, Verbs: []string{"update", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "update"}},
			{APIGroups: []string{""}, Resources: []string{"services", "persistentvolumeclaims", "namespaces"}, Verbs: []string{"get"}},
			// Those that mount volumes, and have logs. In all namespaces, by design: a SlurmJob may be made in any, by whoever has got that
			// right from an administrator, and its pods are in its own.
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "create", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get", "create"}},
		},
		Granted: []rbacv1.ClusterRole{{
			ObjectMeta: metav1.ObjectMeta{Name: SecretsRole},
			// What spec.login names.
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
		}},
		Setup: Setup,
	}
}

// SecretsRole names the ClusterRole that has the right to read Secrets. The controller has it in those namespaces only where somebody who
// has it binds it to the controller's account.
const SecretsRole = "system:minik8s:addon:slurm:secrets"

// concurrency is how many jobs are worked on at once; each waits for its login node.
const concurrency = 16

// Setup adds the controller to the manager.
func Setup(_ context.Context, env addon.Env) error {
	r := &Reconciler{
		Client: env.Manager.GetClient(), Live: env.Manager.GetAPIReader(), Events: env.Manager.GetEventRecorder("slurm"),
		Now: time.Now, Archive: execArchive(env.Streams), Transfers: transfer.New(transfers, transferTimeout),
	}
	if err := env.Manager.Add(r.Transfers); err != nil {
		return fmt.Errorf("adding transfers: %w", err)
	}
	changes := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*batchv1alpha1.SlurmJob)
		after, too := e.ObjectNew.(*batchv1alpha1.SlurmJob)
		return !ok || !too || moved(before, after)
	}}
	return ctrl.NewControllerManagedBy(env.Manager).For(&batchv1alpha1.SlurmJob{}, builder.WithPredicates(changes)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).Complete(r)
}

// moved tells whether a change of a job is one to look at it for. What is only said otherwise, such as an error with another port in it,
// and what the job writes, come from a look itself: another one at once would be a look without an end.
func moved(before, after *batchv1alpha1.SlurmJob) bool {
	outline := func(job *batchv1alpha1.SlurmJob) *batchv1alpha1.SlurmJob {
		job = job.DeepCopy()
		job.ResourceVersion, job.ManagedFields = "", nil
		job.Status.Output, job.Status.Error = "", ""
		for i := range job.Status.Conditions {
			job.Status.Conditions[i].Message, job.Status.Conditions[i].LastTransitionTime = "", metav1.Time{}
		}
		return job
	}
	return !equality.Semantic.DeepEqual(outline(before), outline(after))
}

// Reconciler brings SlurmJobs about.
type Reconciler struct {
	Client client.Client
	// Live reads what nobody watches: Secrets, ConfigMaps, pods.
	Live   client.Reader
	Events events.EventRecorder
	Now    func() time.Time
	// Archive reads volumes, and Transfers has them copied.
	Archive   Archive
	Transfers *transfer.Transfers

	logins logins
}

// patience is how long one look at a login node may take.
const patience = time.Minute

// retry is how soon a login node that cannot be reached is tried again.
const retry = 15 * time.Second

// Reconcile does the next thing for a job.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took longer than %s", patience))
	defer cancel()
	job := &batchv1alpha1.SlurmJob{}
	if err := r.Client.Get(ctx, request.NamespacedName, job); err != nil {
		if apierrors.IsNotFound(err) {
			r.logins.forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if job.DeletionTimestamp != nil {
		return r.end(ctx, job)
	}
	if finished(job) && job.Status.Directory == "" {
		return ctrl.Result{}, nil
	}
	before := job.DeepCopy()
	if controllerutil.AddFinalizer(job, batchv1alpha1.Finalizer) {
		return written(r.patch(ctx, job, before), 0) // its event brings us back
	}
	after, err := r.advance(ctx, job)
	if serr := r.writeStatus(ctx, before, job); serr != nil {
		return written(serr, 0)
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// patch writes what has changed, and nothing else: a whole object would have its spec in our spelling, 1m0s for 1m.
func (r *Reconciler) patch(ctx context.Context, job, before *batchv1alpha1.SlurmJob) error {
	return r.Client.Patch(ctx, job, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// conflictRetry is how soon an object is looked at again that was changed by somebody else, or that the cache does not have as it is yet.
const conflictRetry = time.Second

// written is what a write comes to, after which the object is looked at again in a while.
func written(err error, after time.Duration) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// finished tells whether a job will not change any more.
func finished(job *batchv1alpha1.SlurmJob) bool {
	return meta.IsStatusConditionTrue(job.Status.Conditions, batchv1alpha1.Complete) || meta.IsStatusConditionTrue(job.Status.Conditions, batchv1alpha1.Failed)
}

// noteLimit is how long the note of an event may be: the API server refuses longer ones.
const noteLimit = 1024

// writeStatus writes what has changed, and says it by events.
func (r *Reconciler) writeStatus(ctx context.Context, before, job *batchv1alpha1.SlurmJob) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // also when the login node took all the time
	defer cancel()
	for i := range job.Status.Conditions { // one that was set twice on the way has not changed
		c := &job.Status.Conditions[i]
		if was := meta.FindStatusCondition(before.Status.Conditions, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, job, patch); err != nil {
		return err
	}
	for _, c := range job.Status.Conditions {
		was := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason {
			continue
		}
		kind := corev1.EventTypeNormal
		if (c.Type == batchv1alpha1.Failed) == (c.Status == metav1.ConditionTrue) {
			kind = corev1.EventTypeWarning
		}
		note := strings.ToValidUTF8(c.Message[:min(len(c.Message), noteLimit)], "")
		r.Events.Eventf(job, nil, kind, c.Reason, "Reconciling", "%s", note)
	}
	return nil
}

// set sets a condition.
func set(job *batchv1alpha1.SlurmJob, kind string, value bool, reason, format string, args ...any) {
	status := metav1.ConditionFalse
	if value {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&job.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...), ObservedGeneration: job.Generation,
	})
}

// fail ends a job that was not to be.
func (r *Reconciler) fail(job *batchv1alpha1.SlurmJob, reason, format string, args ...any) {
	set(job, batchv1alpha1.Failed, true, reason, format, args...)
	now := metav1.NewTime(r.Now())
	job.Status.CompletionTime = &now
}

// advance does the next thing, and says after how long to look again.
func (r *Reconciler) advance(ctx context.Context, job *batchv1alpha1.SlurmJob) (time.Duration, error) {
	if job.Status.Directory == "" { // noted before anything is there
		job.Status.Directory = directory(job)
		set(job, batchv1alpha1.Submitted, false, "Preparing", "the job is not submitted yet")
		return 0, nil
	}
	node, err := r.login(ctx, job)
	if err != nil {
		reason, after := "Unreachable", retry
		switch {
		case apierrors.IsForbidden(err):
			reason = "SecretForbidden"
		case errors.Is(err, login.ErrRefused):
			reason, after = "Refused", 4*retry // somebody has to change something
		}
		set(job, batchv1alpha1.Reachable, false, reason, "logging in to %s@%s: %v", job.Spec.Login.User, job.Spec.Login.Host, err)
		return after, nil
	}
	defer node.Close()
	set(job, batchv1alpha1.Reachable, true, "LoggedIn", "%s lets %s in", job.Spec.Login.Host, job.Spec.Login.User)
	h := host{node, job}
	switch {
	case finished(job):
		if err := h.clean(ctx); err != nil { // what is left is removed later, or with the object
			set(job, batchv1alpha1.Reachable, false, "CannotClean", "%s", text(err.Error(), 1024))
			return retry, nil
		}
		job.Status.Directory = ""
		r.logins.forget(client.ObjectKeyFromObject(job))
		return 0, nil
	case job.Status.JobID == "":
		return r.submit(ctx, h)
	}
	return r.follow(ctx, h)
}

// errNoSecret is that of a job whose Secret is not there.
var errNoSecret = fmt.Errorf("%w: there is no Secret", login.ErrRefused)

// login gets in, and keeps in mind how.
func (r *Reconciler) login(ctx context.Context, job *batchv1alpha1.SlurmJob) (*login.Connection, error) {
	config, err := r.loginConfig(ctx, job)
	if err != nil {
		return nil, err
	}
	node, err := login.Dial(ctx, config)
	if err == nil {
		r.logins.keep(job, config)
	}
	return node, err
}

// loginConfig is how one gets in, by what the job names.
func (r *Reconciler) loginConfig(ctx context.Context, job *batchv1alpha1.SlurmJob) (login.Config, error) {
	l := job.Spec.Login
	var secret corev1.Secret
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: l.SecretName}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return login.Config{}, fmt.Errorf("%w %q", errNoSecret, l.SecretName)
	case apierrors.IsForbidden(err): // it goes on when somebody who may has allowed it
		return login.Config{}, fmt.Errorf("%w; who may read it can allow it in this namespace: kubectl create rolebinding slurm --clusterrole=%s --user=USER", err, SecretsRole)
	case err != nil:
		return login.Config{}, err
	}
	for _, key := range []string{corev1.SSHAuthPrivateKey, "known_hosts"} {
		if len(secret.Data[key]) == 0 {
			return login.Config{}, fmt.Errorf("%w: Secret %q has no %s", login.ErrRefused, l.SecretName, key)
		}
	}
	address, err := r.serviceAddress(ctx, l.Host)
	if err != nil {
		return login.Config{}, err
	}
	return login.Config{
		Host: l.Host, Address: address, Port: int(l.Port), User: l.User,
		PrivateKey: secret.Data[corev1.SSHAuthPrivateKey], KnownHosts: secret.Data["known_hosts"],
	}, nil
}

// serviceAddress is that of a Service whose name in cluster DNS a host is, which the machine of the control plane need not resolve; "" for
// other hosts.
func (r *Reconciler) serviceAddress(ctx context.Context, host string) (string, error) {
	name, rest, _ := strings.Cut(host, ".")
	namespace, rest, _ := strings.Cut(rest, ".")
	if rest != "svc" && !strings.HasPrefix(rest, "svc.") {
		return "", nil
	}
	var service corev1.Service
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &service); err != nil {
		return "", client.IgnoreNotFound(err) // another cluster's, perhaps
	}
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		return "", nil
	}
	return service.Spec.ClusterIP, nil
}

// end cancels a job that is deleted, and lets its object go once nothing of it is left.
func (r *Reconciler) end(ctx context.Context, job *batchv1alpha1.SlurmJob) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(job, batchv1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.Transfers.Stop(ctx, job.UID); err != nil {
		return ctrl.Result{}, fmt.Errorf("ending the copying of its volume: %w", err)
	}
	if job.Status.Directory != "" && job.Annotations[batchv1alpha1.AbandonAnnotation] != "true" {
		if err := r.cancel(ctx, job); err != nil {
			before := job.DeepCopy()
			set(job, batchv1alpha1.Reachable, false, "CannotCancel", "the job cannot be cancelled: %v; the annotation %s=true gives it up",
				err, batchv1alpha1.AbandonAnnotation)
			return written(r.writeStatus(ctx, before, job), retry)
		}
	}
	before := job.DeepCopy()
	controllerutil.RemoveFinalizer(job, batchv1alpha1.Finalizer)
	return written(r.patch(ctx, job, before), 0)
}

// cancel ends what there is of a job on the login node. In a namespace that ends the Secret goes first, or the right to read it, and neither
// can be made there again: what was known before gets in once more. If that does not, or the process is a new one and knows nothing, the job
// is given up, for the namespace would wait for it for ever.
func (r *Reconciler) cancel(ctx context.Context, job *batchv1alpha1.SlurmJob) error {
	node, err := r.login(ctx, job)
	if namespace := r.ending(ctx, job, err); namespace != nil {
		config, known := r.logins.of(job)
		if known {
			node, err = login.Dial(ctx, config)
		}
		if err != nil {
			r.abandon(namespace, job)
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer node.Close()
	h := host{node, job}
	if err := h.cancel(ctx); err != nil {
		return err
	}
	return h.clean(ctx)
}

// ending is the namespace of a job that cannot be logged in for because its Secret went first, nil if that is not so.
func (r *Reconciler) ending(ctx context.Context, job *batchv1alpha1.SlurmJob, failed error) *corev1.Namespace {
	if !errors.Is(failed, errNoSecret) && !apierrors.IsForbidden(failed) {
		return nil
	}
	var namespace corev1.Namespace
	if err := r.Live.Get(ctx, client.ObjectKey{Name: job.Namespace}, &namespace); err != nil || namespace.DeletionTimestamp == nil {
		return nil
	}
	return &namespace
}

// abandon says that a job is given up. Its namespace takes no events any more: this one is about the namespace, and in "default".
func (r *Reconciler) abandon(namespace *corev1.Namespace, job *batchv1alpha1.SlurmJob) {
	r.Events.Eventf(namespace, job, corev1.EventTypeWarning, "SlurmJobAbandoned", "Reconciling",
		"the SlurmJob %.100s was not cancelled, as the Secret %.100s went first: job %s may run on, and ~/%s stays at %s",
		job.Name, job.Spec.Login.SecretName, job.Status.JobID, job.Status.Directory, job.Spec.Login.Host)
}
