// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// Message is the text of upstream's events about resizes: what happened and, as JSON, what the containers of the pod ask for, of which
// generation that is, and what is in the way, "" if nothing is.
func Message(what string, pod *corev1.Pod, generation int64, problem string) string {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	of := func(list []corev1.Container) (out []container) {
		for _, c := range list {
			out = append(out, container{c.Name, c.Resources})
		}
		return out
	}
	data, err := json.Marshal(struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}{of(pod.Spec.InitContainers), of(pod.Spec.Containers), generation, problem})
	if err != nil {
		return what
	}
	return what + ": " + string(data)
}
