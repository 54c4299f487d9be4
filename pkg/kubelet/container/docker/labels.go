// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Labels of containers. The io.kubernetes ones are those that the kubelet's former Docker support used, which tools for
// Docker look for.
const (
	labelCluster = "minik8s.io/cluster"
	labelNode    = "minik8s.io/node"
	labelPause   = "minik8s.io/pause" // on the pause image

	labelKind      = "io.kubernetes.docker.type"
	kindSandbox    = "podsandbox"
	kindContainer  = "container"
	labelPodName   = "io.kubernetes.pod.name"
	labelPodNS     = "io.kubernetes.pod.namespace"
	labelPodUID    = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
	labelSandbox   = "io.kubernetes.sandbox.id"

	// annotation is the prefix of facts that are kept, and not selected by.
	annotation       = "annotation."
	labelAttempt     = annotation + "io.kubernetes.container.restartCount"
	labelHash        = annotation + "io.kubernetes.container.hash"
	labelTermination = annotation + "io.kubernetes.container.terminationMessageFile"
	labelType        = annotation + "minik8s.io/container-type"
	labelUser        = annotation + "minik8s.io/user"
	labelImageRef    = annotation + "minik8s.io/image"
	labelNetwork     = annotation + "minik8s.io/network" // "node" on a sandbox that has entered the node's

	// labelExtra is the prefix of what the caller gave as Labels.
	labelExtra = "label.minik8s.io/"
)

// sandboxName and containerName are Docker's names, in the form of the kubelet's former Docker support. They make
// creation idempotent: Docker refuses a second container of the same name.
func sandboxName(p container.Pod, attempt uint32) string { return containerName("POD", p, attempt) }

func containerName(name string, p container.Pod, attempt uint32) string {
	return fmt.Sprintf("k8s_%s_%s_%s_%s_%d", name, p.Name, p.Namespace, p.UID, attempt)
}

func (r *Runtime) labels(kind string, p container.Pod, attempt uint32, extra map[string]string) map[string]string {
	l := map[string]string{
		labelCluster: r.config.Cluster,
		labelNode:    r.config.Node,
		labelKind:    kind,
		labelPodName: p.Name,
		labelPodNS:   p.Namespace,
		labelPodUID:  string(p.UID),
		labelAttempt: strconv.FormatUint(uint64(attempt), 10),
	}
	for k, v := range extra {
		l[labelExtra+k] = v
	}
	return l
}

func podOf(labels map[string]string) container.Pod {
	return container.Pod{UID: types.UID(labels[labelPodUID]), Namespace: labels[labelPodNS], Name: labels[labelPodName]}
}

func attemptOf(labels map[string]string) uint32 {
	n, _ := strconv.ParseUint(labels[labelAttempt], 10, 32) // absent or foreign: 0
	return uint32(n)
}

func extraOf(labels map[string]string) map[string]string {
	var extra map[string]string
	for k, v := range labels {
		if name, ok := strings.CutPrefix(k, labelExtra); ok {
			if extra == nil {
				extra = map[string]string{}
			}
			extra[name] = v
		}
	}
	return extra
}

// owns tells whether a container is of this cluster and node.
func (r *Runtime) owns(labels map[string]string) bool {
	return labels[labelCluster] == r.config.Cluster && labels[labelNode] == r.config.Node
}
