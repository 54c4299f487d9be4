// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

const (
	// indexVariable tells the containers of an Indexed Job which index they work on.
	indexVariable = "JOB_COMPLETION_INDEX"
	// maxPrefix is how long a prefix the API server leaves whole when it generates a name.
	maxPrefix = 58
)

// template returns what all pods of the Job have in common.
func template(job *batchv1.Job) *corev1.PodTemplateSpec {
	t := job.Spec.Template.DeepCopy()
	if !slices.Contains(t.Finalizers, batchv1.JobTrackingFinalizer) {
		t.Finalizers = append(t.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if isIndexed(job) {
		addIndexVariable(t.Spec.InitContainers)
		addIndexVariable(t.Spec.Containers)
	}
	return t
}

func addIndexVariable(containers []corev1.Container) {
	for i := range containers {
		env := containers[i].Env
		if slices.ContainsFunc(env, func(v corev1.EnvVar) bool { return v.Name == indexVariable }) {
			continue
		}
		path := fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation)
		containers[i].Env = append(env, corev1.EnvVar{
			Name:      indexVariable,
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}},
		})
	}
}

// newPod returns a pod of the template, for the index unless that is noIndex.
func (s *state) newPod(t *corev1.PodTemplateSpec, index int) *corev1.Pod {
	pod := pods.FromTemplate(t, s.job, *metav1.NewControllerRef(s.job, kind))
	if index == noIndex {
		return pod
	}
	number := strconv.Itoa(index)
	suffix := "-" + number + "-"
	pod.GenerateName = s.job.Name[:min(len(s.job.Name), maxPrefix-len(suffix))] + suffix
	pod.Spec.Hostname = s.job.Name + "-" + number
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Labels[batchv1.JobCompletionIndexAnnotation] = number
	pod.Annotations[batchv1.JobCompletionIndexAnnotation] = number
	if s.job.Spec.BackoffLimitPerIndex != nil {
		s.addTries(pod, s.retained[index])
	}
	return pod
}

// addTries tells a pod how many pods failed at its index before it; last is the last one of them, nil for the first
// try.
func (s *state) addTries(pod, last *corev1.Pod) {
	var failed, ignored int32
	if last != nil {
		failed = numberIn(last, batchv1.JobIndexFailureCountAnnotation)
		ignored = numberIn(last, batchv1.JobIndexIgnoredFailureCountAnnotation)
		if judge(s.job.Spec.PodFailurePolicy, last).counts() {
			failed++
		} else {
			ignored++
		}
	}
	pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(int(failed))
	if ignored > 0 {
		pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(int(ignored))
	}
}
