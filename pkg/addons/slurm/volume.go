// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/transfer"
)

const (
	// transfers is how many volumes are copied at once.
	transfers = 8
	// brief is how long making or naming a directory may take.
	brief = 10 * time.Second
	// stall is how long nothing may come or go.
	stall = 2 * time.Minute
)

// Archive writes the directory of a pod's file system as tar does.
type Archive func(ctx context.Context, pod client.ObjectKey, directory string, w io.Writer) error

// execArchive has tar run in the pod. Connections that are upgraded are made apart from the client's, by what config returns.
func execArchive(config func() (*rest.Config, error)) Archive {
	return func(ctx context.Context, pod client.ObjectKey, directory string, w io.Writer) error {
		c, err := config()
		if err != nil {
			return err
		}
		c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &corev1.SchemeGroupVersion, "/api", scheme.Codecs.WithoutConversion()
		rc, err := rest.UnversionedRESTClientFor(c)
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		url := rc.Get().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: []string{"tar", "-C", directory, "-c", "-f", "-", "."}, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
		executor, err := remotecommand.NewWebSocketExecutor(c, "GET", url.String())
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		complaints := &head{limit: 1 << 10}
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: w, Stderr: complaints})
		if said := strings.TrimSpace(complaints.String()); err != nil && said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return err
	}
}

// head keeps the first bytes of what is written.
type head struct {
	bytes.Buffer

	limit int
}

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	_, _ = h.Buffer.Write(p[:min(len(p), h.limit-h.Len())])
	return len(p), nil
}

// bring has the volume of the source copied. True: all of it is there.
func (r *Reconciler) bring(ctx context.Context, h host) (bool, time.Duration, error) {
	job, want := h.job, sourcePod(h.job)
	waits := func(after time.Duration, reason, format string, args ...any) (bool, time.Duration, error) {
		set(job, batchv1alpha1.Submitted, false, reason, "%s", text(fmt.Sprintf(format, args...), 1024))
		return false, after, nil
	}
	there, err := h.brought(ctx)
	if err != nil {
		return waits(retry, "CannotCopy", "%v", err)
	}
	if there {
		if c := meta.FindStatusCondition(job.Status.Conditions, batchv1alpha1.Submitted); c != nil && c.Reason == "Compiling" {
			return true, 0, nil // whoever began that has removed the pod
		}
		err := r.removePod(ctx, job, want)
		return err == nil, 0, err
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: job.Spec.Source.Volume.ClaimName}, claim)
	if apierrors.IsNotFound(err) {
		return waits(retry, "SourceNotFound", "there is no PersistentVolumeClaim %q", job.Spec.Source.Volume.ClaimName)
	}
	if err != nil {
		return false, 0, err
	}
	pod, err := r.ensurePod(ctx, job, want)
	switch {
	case err != nil:
		return waits(retry, "CannotCopy", "making a pod that mounts the volume: %v", err)
	case pod.DeletionTimestamp != nil:
		return waits(time.Second, "Copying", "the pod %q, which is deleted, has to be gone first", pod.Name)
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		if err := r.removePod(ctx, job, pod); err != nil {
			return false, 0, err
		}
		return waits(retry, "CannotCopy", "the pod %q, which mounts the volume, has ended: %s %s; another is made", pod.Name, pod.Status.Reason, ended(pod))
	case pod.Status.Phase != corev1.PodRunning:
		return waits(time.Second, "Copying", "the pod %q, which mounts the volume, does not run yet: %s", pod.Name, waitsFor(pod))
	}
	now, key := job.DeepCopy(), client.ObjectKeyFromObject(pod)
	switch state, err := r.Transfers.Look(job.UID, func(ctx context.Context) error { return r.transfer(ctx, now, key) }); {
	case state == transfer.Waiting:
		return waits(time.Second, "Copying", "%d other volumes are being copied", transfers)
	case state == transfer.Running:
		return waits(time.Second, "Copying", "the volume is being copied")
	case err != nil:
		return waits(retry, "CannotCopy", "copying the volume: %v", err)
	}
	return false, time.Millisecond, nil // what is there is looked at
}

// ended is what the container of a pod has ended with.
func ended(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return fmt.Sprintf("%s, code %d %s", t.Reason, t.ExitCode, t.Message)
		}
	}
	return pod.Status.Message
}

// transfer copies the volume that a pod mounts. It takes longer than a pass may, and so has a connection of its own.
func (r *Reconciler) transfer(ctx context.Context, job *batchv1alpha1.SlurmJob, pod client.ObjectKey) error {
	node, err := r.login(ctx, job)
	if err != nil {
		return err
	}
	defer node.Close()
	h := host{node, job}
	directory := path.Join(mounted, job.Spec.Source.Volume.Path)
	from := func(ctx context.Context, w io.Writer) error {
		if err := r.Archive(ctx, pod, directory, w); err != nil {
			return fmt.Errorf("reading it by tar in the pod: %w", err)
		}
		return nil
	}
	// Who ends the transfer waits for what makes and names directories: done late, they would be left.
	briefly := func(do func(context.Context, string) error, part string) error {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), brief, fmt.Errorf("it took longer than %s", brief))
		defer cancel()
		return do(ctx, part)
	}
	part := h.parts() + rand.String(8)
	if err := briefly(h.prepare, part); err != nil {
		return err
	}
	to := func(ctx context.Context, archive io.Reader) error { return h.receive(ctx, part, archive) }
	if err := transfer.Pipe(ctx, stall, from, to); err != nil {
		return err
	}
	return briefly(h.received, part)
}
