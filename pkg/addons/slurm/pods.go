// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
)

// Where the pods have what they are for.
const (
	mounted   = "/minik8s"
	container = "slurm"
)

// transferTimeout is how long a volume may take.
const transferTimeout = time.Hour

// named is the name of what a job has in this cluster. The end of a job's name for which there is no room is not in it, but the job's UID is.
func named(job *batchv1alpha1.SlurmJob, suffix string) string {
	if name := job.Name + suffix; len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	suffix = "-" + string(job.UID) + suffix
	return strings.TrimRight(job.Name[:validation.DNS1123SubdomainMaxLength-len(suffix)], ".") + suffix
}

// newPod is a pod of a job, which may be made where Pod Security is restricted if it says who runs it.
func newPod(job *batchv1alpha1.SlurmJob, suffix string, volume corev1.VolumeSource, command ...string) *corev1.Pod {
	p := job.Spec.Pod
	security := &corev1.PodSecurityContext{RunAsUser: p.RunAsUser, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if p.RunAsUser != nil && *p.RunAsUser != 0 {
		security.RunAsNonRoot = new(true)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: named(job, suffix),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1alpha1.GroupVersion.WithKind("SlurmJob"))},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(1)), // what sleeps as the first process hears no signal but the last
			SecurityContext:               security,
			ImagePullSecrets:              p.ImagePullSecrets,
			Containers: []corev1.Container{{
				Name: container, Image: p.Image, Command: command,
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				VolumeMounts:    []corev1.VolumeMount{{Name: "files", MountPath: mounted, ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "files", VolumeSource: volume}},
		},
	}
}

// sourcePod mounts the volume of the source for as long as it is read.
func sourcePod(job *batchv1alpha1.SlurmJob) *corev1.Pod {
	claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: job.Spec.Source.Volume.ClaimName, ReadOnly: true}
	limit := int64((2 * transferTimeout).Seconds()) // an image that comes slowly has some time, too
	pod := newPod(job, "-slurm-source", corev1.VolumeSource{PersistentVolumeClaim: claim}, "sleep", fmt.Sprint(limit))
	pod.Spec.ActiveDeadlineSeconds = &limit
	return pod
}

// logPod writes what the job has written.
func logPod(job *batchv1alpha1.SlurmJob) *corev1.Pod {
	files := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: job.Status.ResultConfigMapName}}
	return newPod(job, "-slurm", corev1.VolumeSource{ConfigMap: files}, "sh", "-c", "cat "+mounted+"/output; cat "+mounted+"/error >&2")
}

var errNotOurs = errors.New("the pod is somebody else's")

// ensurePod returns the pod that is there, and makes it if there is none.
func (r *Reconciler) ensurePod(ctx context.Context, job *batchv1alpha1.SlurmJob, want *corev1.Pod) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), pod)
	switch {
	case apierrors.IsNotFound(err):
		return want, r.Client.Create(ctx, want)
	case err != nil:
		return nil, err
	case !metav1.IsControlledBy(pod, job):
		return nil, fmt.Errorf("%w: %q", errNotOurs, pod.Name)
	}
	return pod, nil
}

// removePod removes a pod of the job's if there is one.
func (r *Reconciler) removePod(ctx context.Context, job *batchv1alpha1.SlurmJob, pod *corev1.Pod) error {
	there := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), there); err != nil || !metav1.IsControlledBy(there, job) {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, there, client.Preconditions{UID: &there.UID}))
}

// waitsFor says why a pod does not run yet, as far as it is known.
func waitsFor(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return cmp.Or(w.Reason+": "+w.Message, w.Reason)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return "it starts"
}
