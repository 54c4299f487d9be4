// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	writePods(w, s.config.Host.Pods())
}

func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	pods, err := s.config.Host.RunningPods(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writePods(w, pods)
}

func writePods(w http.ResponseWriter, pods []*corev1.Pod) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	writeJSON(w, list)
}

// pod returns the pod that the path of the request names, nil if there is none. Who names a mirror pod means its static pod.
func (s *Server) pod(r *http.Request) *corev1.Pod {
	uid := s.config.Host.TranslateUID(types.UID(r.PathValue("uid")))
	for _, p := range s.config.Host.Pods() {
		if p.Namespace != r.PathValue("namespace") || p.Name != r.PathValue("pod") {
			continue
		}
		if uid == "" || uid == p.UID {
			return p
		}
	}
	return nil
}

// containerSpec returns the specification of a container by name, nil if the pod has none of that name.
func containerSpec(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return (*corev1.Container)(&c.EphemeralContainerCommon)
		}
	}
	return nil
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	s := &pod.Status
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// logged returns the engine's id of the container whose log is asked for: the running one, else the last that ran; or
// with previous that before. The errors are upstream's, kubectl shows them.
func logged(pod *corev1.Pod, name string, previous bool) (id string, err error) {
	cs := containerStatus(pod, name)
	if cs == nil {
		return "", fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	}
	last := ""
	if t := cs.LastTerminationState.Terminated; t != nil {
		last = t.ContainerID
	}
	state := cs.State
	switch {
	case previous:
		if last == "" {
			return "", fmt.Errorf("previous terminated container %q in pod %q not found", name, pod.Name)
		}
		id = last
	case state.Running != nil:
		id = cs.ContainerID
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		id = state.Terminated.ContainerID
	case state.Terminated != nil || cs.LastTerminationState.Terminated != nil:
		if last == "" {
			return "", fmt.Errorf("container %q in pod %q is terminated", name, pod.Name)
		}
		id = last
	case state.Waiting != nil:
		return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod.Name, waiting(state.Waiting.Reason))
	default:
		return "", fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, pod.Name)
	}
	_, bare, ok := strings.Cut(id, "://")
	if !ok || bare == "" {
		return "", errors.New("container id of " + name + " is not known yet")
	}
	return bare, nil
}

func waiting(reason string) string {
	switch reason {
	case "ErrImagePull":
		return "image can't be pulled"
	case "ImagePullBackOff":
		return "trying and failing to pull image"
	}
	return reason
}
