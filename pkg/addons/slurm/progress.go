// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/script"
)

// submit brings a job to Slurm: files, compilation, sbatch.
func (r *Reconciler) submit(ctx context.Context, h host) (time.Duration, error) {
	job := h.job
	var source *corev1.ConfigMap
	switch s := job.Spec.Source; {
	case s == nil:
	case s.Volume != nil:
		if there, after, err := r.bring(ctx, h); !there {
			return after, err
		}
	default:
		source = &corev1.ConfigMap{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: s.ConfigMapName}, source)
		if apierrors.IsNotFound(err) {
			set(job, batchv1alpha1.Submitted, false, "SourceNotFound", "there is no ConfigMap %q", s.ConfigMapName)
			return retry, nil
		}
		if err != nil {
			return 0, err
		}
	}
	if err := h.upload(ctx, source); err != nil {
		set(job, batchv1alpha1.Submitted, false, "CannotCopy", "%v", err)
		return retry, nil
	}
	if len(job.Spec.Compile) > 0 {
		c, err := h.compile(ctx)
		switch {
		case err != nil:
			set(job, batchv1alpha1.Submitted, false, "CannotCompile", "%v", err)
			return retry, nil
		case c.code == "":
			return r.compiling(job, c.age), nil
		}
		job.Status.CompileOutput = text(c.output, kept)
		if c.code != "0" {
			r.fail(job, "CompileFailed", "%s; see status.compileOutput", compileProblem(c.code, job.Spec.CompileSeconds))
			return 0, nil
		}
	}
	return r.queue(ctx, h)
}

// compiling waits for a compilation, which ends in time by itself but for a login node that was started anew.
func (r *Reconciler) compiling(job *batchv1alpha1.SlurmJob, age time.Duration) time.Duration {
	set(job, batchv1alpha1.Submitted, false, "Compiling", "the compile commands run on the login node")
	if limit := time.Duration(job.Spec.CompileSeconds)*time.Second + 2*time.Minute; age > limit {
		r.fail(job, "CompileLost", "the compile commands have not ended after %s; was the login node started anew?", limit)
	}
	return time.Second
}

// compileProblem says what a code of timeout(1) means.
func compileProblem(code string, seconds int32) string {
	if code == "124" || code == "137" {
		return fmt.Sprintf("the compile commands took longer than compileSeconds, which is %d", seconds)
	}
	return "the compile commands ended with code " + code
}

// queue has Slurm take the job.
func (r *Reconciler) queue(ctx context.Context, h host) (time.Duration, error) {
	job := h.job
	result, err := h.submit(ctx)
	if err == nil && result.Code == 0 && strings.TrimSpace(result.Stdout) == "" {
		err = errors.New("it names no job")
	}
	id, said := strings.TrimSpace(result.Stdout), strings.TrimSpace(result.Stderr)
	switch {
	case err == nil && result.Code == 0:
		now := metav1.NewTime(r.Now())
		job.Status.JobID, job.Status.State, job.Status.StartTime = id, "PENDING", &now
		set(job, batchv1alpha1.Submitted, true, "Submitted", "Slurm has it as job %s", id)
		return time.Second, nil
	case err == nil && result.Code == notAnswered:
		set(job, batchv1alpha1.Submitted, false, "Submitting", "%v", errNotAnswered)
		return time.Second, nil
	case err == nil && result.Code == cannotSubmit && !passing(said):
		r.fail(job, "Rejected", "sbatch refuses it: %s", text(said, 1024))
		return 0, nil
	}
	set(job, batchv1alpha1.Submitted, false, "SlurmAway", "%s", text(explain("asking Slurm to take the job", result, err).Error(), 1024))
	return retry, nil
}

// passing tells whether what sbatch says is about Slurm and not about the job.
func passing(said string) bool {
	for _, s := range []string{"Unable to contact slurm controller", "Socket timed out", "Connection refused", "temporarily", "Slurm backup controller", "Communication connection failure", "Zero Bytes"} {
		if strings.Contains(said, s) {
			return true
		}
	}
	return false
}

// follow looks what has become of a job, and brings back what it has written once it has ended.
func (r *Reconciler) follow(ctx context.Context, h host) (time.Duration, error) {
	job := h.job
	poll := time.Duration(job.Spec.PollSeconds) * time.Second
	is, known, err := h.look(ctx)
	if err != nil {
		set(job, batchv1alpha1.Reachable, false, "SlurmAway", "%s", text(err.Error(), 1024))
		return poll, nil
	}
	s := &job.Status
	if known {
		s.State, s.Reason, s.ExitCode, s.Account, s.AllocatedCPUs, s.NodeList = is.State, is.Reason, is.ExitCode, is.Account, is.AllocatedCPUs, is.Nodes
		if !script.Ended(is.State) {
			h.progress(ctx)
			return poll, nil
		}
	}
	// Also of a job that Slurm has forgotten: it may have ended well while nobody looked, and its directory goes next.
	fetched := "what it has written is in the status"
	switch err := r.fetch(ctx, h); {
	case err == nil:
		meta.RemoveStatusCondition(&job.Status.Conditions, batchv1alpha1.Complete) // for which it was waited, perhaps
	case errors.Is(err, errNoDirectory) && (!known || r.waited(job, err)):
		fetched = "what it has written could not be brought back: " + text(err.Error(), 1024)
	default:
		set(job, batchv1alpha1.Reachable, false, "CannotFetch", "%s", text(err.Error(), 1024))
		return poll, nil
	}
	if !known {
		r.fail(job, "JobLost", "Slurm does not know job %s any more; %s", s.JobID, fetched)
		return 0, nil
	}
	if script.Succeeded(is.State) {
		now := metav1.NewTime(r.Now())
		s.CompletionTime = &now
		set(job, batchv1alpha1.Complete, true, "Completed", "job %s has ended well; %s", is.ID, fetched)
		return 0, nil
	}
	r.fail(job, "Ended", "job %s has ended as %s, exit code %s; %s", is.ID, is.State, is.ExitCode, fetched)
	return 0, nil
}

// directoryWait is how long the directory of a job that has ended is waited for: that of a home that is mounted late may come back.
const directoryWait = 5 * time.Minute

// waited tells whether that was long enough. Since when it is waited is that of a condition.
func (r *Reconciler) waited(job *batchv1alpha1.SlurmJob, failed error) bool {
	set(job, batchv1alpha1.Complete, false, "CannotFetch", "job %s has ended as %s; for %s it is waited for what it has written: %s",
		job.Status.JobID, job.Status.State, directoryWait, text(failed.Error(), 1024))
	return r.Now().Sub(meta.FindStatusCondition(job.Status.Conditions, batchv1alpha1.Complete).LastTransitionTime.Time) > directoryWait
}

// shown is how much of each stream is in the status while a job runs, where it is written anew whenever there is more.
const shown = 4 << 10

// progress brings back the end of what a job has written so far. What cannot be read now is read at the end.
func (h host) progress(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, brief)
	defer cancel()
	s := &h.job.Status
	if s.State == "PENDING" {
		return
	}
	if output, err := h.read(ctx, script.Output, shown); err == nil {
		s.Output = text(output, shown)
	}
	if complaints, err := h.read(ctx, script.Error, shown); err == nil {
		s.Error = text(complaints, shown)
	}
}

// resultLimit is how much of each stream is brought back: both fit into a ConfigMap.
const resultLimit = 450 << 10

// fetch brings back what the job has written.
func (r *Reconciler) fetch(ctx context.Context, h host) error {
	job := h.job
	output, err := h.read(ctx, script.Output, resultLimit)
	if err != nil {
		return err
	}
	complaints, err := h.read(ctx, script.Error, resultLimit)
	if err != nil {
		return err
	}
	result := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: named(job, "-slurm-result"),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1alpha1.GroupVersion.WithKind("SlurmJob"))},
		},
		Data: map[string]string{"output": text(output, resultLimit), "error": text(complaints, resultLimit)},
	}
	if err := r.Client.Create(ctx, result); apierrors.IsAlreadyExists(err) {
		var there corev1.ConfigMap
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(result), &there); err != nil {
			return err
		}
		if !metav1.IsControlledBy(&there, job) {
			return fmt.Errorf("the ConfigMap %q is somebody else's", there.Name)
		}
		there.Data = result.Data
		if err := r.Client.Update(ctx, &there); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	job.Status.Output, job.Status.Error, job.Status.ResultConfigMapName = text(output, kept), text(complaints, kept), result.Name
	return r.log(ctx, job)
}

// log makes the pod whose log is the result. Where it may not be made, the result is in the object all the same.
func (r *Reconciler) log(ctx context.Context, job *batchv1alpha1.SlurmJob) error {
	if job.Spec.Pod == nil {
		return nil
	}
	_, err := r.ensurePod(ctx, job, logPod(job))
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || errors.Is(err, errNotOurs) {
		r.Events.Eventf(job, nil, corev1.EventTypeWarning, "CannotLog", "Reconciling", "making the pod whose log is the output: %.900v", err)
		return nil
	}
	return err
}

// text is the end of what was written, as JSON can have it.
func text(s string, limit int) string {
	return strings.ToValidUTF8(s[max(0, len(s)-limit):], "?")
}
