// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apis/core/container"
	"minik8s.io/minik8s/pkg/registry"
)

// nodeLost is the reason that the node lifecycle controller gives pods of nodes that do not answer.
const nodeLost = "NodeLost"

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Ready", "string", "The aggregate readiness state of this pod for accepting traffic."),
	registry.Column("Status", "string", "The aggregate status of the containers in this pod."),
	registry.Column("Restarts", "string", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
	registry.AgeColumn,
	registry.WideColumn("IP", "string", corev1.PodStatus{}.SwaggerDoc()["podIP"]),
	registry.WideColumn("Node", "string", corev1.PodSpec{}.SwaggerDoc()["nodeName"]),
	registry.WideColumn("Nominated Node", "string", corev1.PodStatus{}.SwaggerDoc()["nominatedNodeName"]),
	registry.WideColumn("Readiness Gates", "string", corev1.PodSpec{}.SwaggerDoc()["readinessGates"]),
}

func row(p *corev1.Pod) []any {
	s := summarize(p)
	ip := ""
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return []any{
		p.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.status, s.restarts(), registry.Age(p.CreationTimestamp),
		orNone(ip), orNone(p.Spec.NodeName), orNone(p.Status.NominatedNodeName), readinessGates(p),
	}
}

// rowConditions tell that a pod is at its end.
func rowConditions(p *corev1.Pod) []metav1.TableRowCondition {
	var message string
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		message = "The pod has completed successfully."
	case corev1.PodFailed:
		message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(p.Status.Phase), Message: message}}
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	met := 0
	for _, g := range p.Spec.ReadinessGates {
		if hasCondition(&p.Status, g.ConditionType) {
			met++
		}
	}
	return fmt.Sprintf("%d/%d", met, len(p.Spec.ReadinessGates))
}

// summary is a pod in one line.
type summary struct {
	ready, total int
	status       string
	count        restarts
}

// restarts are counted with the time at which the last one began.
type restarts struct {
	n    int
	last metav1.Time
}

func (r *restarts) add(c *corev1.ContainerStatus) {
	r.n += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

func (s summary) restarts() string {
	if s.count.n == 0 || s.count.last.IsZero() {
		return strconv.Itoa(s.count.n)
	}
	return fmt.Sprintf("%d (%s ago)", s.count.n, registry.Age(s.count.last))
}

func summarize(p *corev1.Pod) summary {
	s := summary{total: len(p.Spec.Containers), status: string(p.Status.Phase)}
	if p.Status.Reason != "" {
		s.status = p.Status.Reason
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.status = corev1.PodReasonSchedulingGated
		}
	}
	sidecars, initializing := s.addInit(p)
	if !initializing || hasCondition(&p.Status, corev1.PodInitialized) {
		s.count = sidecars // init containers that are done with do not count any more
		s.addRegular(p)
	}
	switch {
	case p.DeletionTimestamp == nil:
	case p.Status.Reason == nodeLost:
		s.status = "Unknown"
	case !terminal(p.Status.Phase):
		s.status = "Terminating"
	}
	return s
}

// addInit goes through the init containers up to the first that is at work, which gives the pod its status.
func (s *summary) addInit(p *corev1.Pod) (sidecars restarts, initializing bool) {
	isSidecar := func(name string) bool {
		return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name && container.Restartable(&c) })
	}
	for i := range p.Spec.InitContainers {
		if container.Restartable(&p.Spec.InitContainers[i]) {
			s.total++
		}
	}
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		sidecar := isSidecar(c.Name)
		s.count.add(c)
		if sidecar {
			sidecars.add(c)
		}
		ended, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecar && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.status = "Init:" + endReason(ended)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.status = "Init:" + waiting.Reason
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return sidecars, true
	}
	return sidecars, false
}

// addRegular goes through the containers from the last, so that the first has the last word.
func (s *summary) addRegular(p *corev1.Pod) {
	running := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.count.add(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.status = endReason(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.status != "Completed" || !running {
		return
	}
	s.status = "NotReady"
	if hasCondition(&p.Status, corev1.PodReady) {
		s.status = "Running"
	}
}

func endReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
