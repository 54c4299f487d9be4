// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/runtime"
	"minik8s.io/minik8s/pkg/addons/functions/internal/sandbox"
)

// container is the name of the container in pods.
const container = "function"

// Poolable tells whether a pod of the runtime's pool will do: such have nothing that a function may ask for.
func (t Template) Poolable() bool {
	for _, e := range t.Env {
		if e.ValueFrom != nil || strings.Contains(e.Value, "$(") {
			return false
		}
	}
	return t.Image == "" && len(t.EnvFrom) == 0 && t.ServiceAccountName == "" &&
		len(t.Resources.Limits) == 0 && len(t.Resources.Requests) == 0 && len(t.Resources.Claims) == 0
}

// Code is what a server in a pod is given. One of the pool is given the environment, too, which others have.
func (r Revision) Code(pooled bool) ([]byte, error) {
	c := sandbox.Code{Revision: r.Name, Handler: r.Template.Handler, Files: r.Files, TimeoutSeconds: r.Template.TimeoutSeconds}
	if pooled {
		c.Env = map[string]string{}
		for _, e := range r.Template.Env {
			c.Env[e.Name] = e.Value
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding the code: %w", err)
	}
	return data, nil
}

// Pod returns a pod of a revision; token is what its server knows the controller by.
func (r Revision) Pod(fn *v1alpha1.Function, settings runtime.Settings, name, token string) *corev1.Pod {
	t := r.Template
	var pod *corev1.Pod
	if t.Image != "" {
		pod = imagePod(t)
	} else {
		pod = serverPod(settings[t.Runtime], token)
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, t.Env...)
	}
	c := &pod.Spec.Containers[0]
	c.EnvFrom, c.Resources = t.EnvFrom, t.Resources
	pod.Name, pod.Namespace, pod.Labels = name, fn.Namespace, Labels(fn.Name, r.Name)
	pod.OwnerReferences = []metav1.OwnerReference{Owner(fn)}
	if t.ServiceAccountName != "" {
		pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = t.ServiceAccountName, nil
	}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(min(t.TimeoutSeconds, 60)))
	return pod
}

// PoolPod returns a pod of a runtime which any function of the namespace can take. It goes with owner, unless it has been taken.
func PoolPod(owner *v1alpha1.Function, name v1alpha1.Runtime, r runtime.Runtime, podName, token string) *corev1.Pod {
	pod := serverPod(r, token)
	pod.Name, pod.Namespace = podName, owner.Namespace
	pod.Labels = map[string]string{LabelManagedBy: Manager, LabelPool: string(name)}
	reference := Owner(owner)
	reference.Controller, reference.BlockOwnerDeletion = nil, nil
	pod.OwnerReferences = []metav1.OwnerReference{reference}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(10))
	return pod
}

// Token is what the server of a pod knows the controller by; "" if it is none of ours.
func Token(pod *corev1.Pod) string {
	for _, e := range pod.Spec.Containers[0].Env {
		if e.Name == runtime.TokenVariable {
			return e.Value
		}
	}
	return ""
}

// AnnotationPooled is on pods that were one of the pool.
const AnnotationPooled = "functions.minik8s.io/pooled"

// serverPod has a server without code, with no rights at all.
func serverPod(r runtime.Runtime, token string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65534)), RunAsGroup: new(int64(65534)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: container, Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: r.Command,
			Env: []corev1.EnvVar{
				{Name: runtime.TokenVariable, Value: token},
				{Name: "PORT", Value: strconv.Itoa(runtime.Port)},
				{Name: "HOME", Value: "/tmp"},
			},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: runtime.Port}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
}

// imagePod runs what the user has built, with what Kubernetes gives any pod.
func imagePod(t Template) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		Containers: []corev1.Container{{
			Name: container, Image: t.Image, ImagePullPolicy: corev1.PullIfNotPresent,
			Env:   append([]corev1.EnvVar{{Name: "PORT", Value: strconv.Itoa(int(t.Port))}}, t.Env...),
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: t.Port}},
		}},
	}}
}
