// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// labelRun is the label of a container that counts how often all containers of its pod were started again before it was made.
const labelRun = "run"

// RunLabels are the labels of a container of a run of its pod. Those of the first run have none.
func RunLabels(run uint32) map[string]string {
	if run == 0 {
		return nil
	}
	return map[string]string{labelRun: strconv.FormatUint(uint64(run), 10)}
}

func runOf(c *container.Container) uint32 {
	n, _ := strconv.ParseUint(c.Labels[labelRun], 10, 32) // absent: 0
	return uint32(n)
}

// MayRestartAll says whether a container has a rule by which all containers of its pod are started again (KEP-5532).
func MayRestartAll(c *corev1.Container) bool {
	return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
		return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
	})
}

// MayRestartAll says whether the pod has such a container.
func (p *Pod) MayRestartAll() bool {
	return slices.ContainsFunc(slices.Concat(p.Init, p.Regular), func(c *Container) bool { return MayRestartAll(c.Spec) })
}

// runs finds out in which run of the pod its containers are to be. As soon as one of the newest run has ended by a rule that
// starts all again the next run begins, and what the engine has is stale. Nothing but the engine is asked, so that a kubelet that
// is killed in the middle of it goes on where it was.
func (p *Pod) runs() {
	all := slices.Concat(p.Init, p.Regular)
	for _, c := range all {
		if c.Latest != nil {
			p.newest = max(p.newest, runOf(c.Latest))
		}
	}
	p.Run = p.newest
	for _, c := range all {
		if l := c.Latest; l != nil && l.State == container.StateExited && runOf(l) == p.newest && c.restartsAllOn(l.ExitCode) {
			p.Run = p.newest + 1
		}
	}
	for _, c := range all {
		c.Stale = c.Latest != nil && runOf(c.Latest) < p.Run
	}
}

// RestartingAll says whether all containers are to be started again, and none of them has been.
func (p *Pod) RestartingAll() bool { return p.Run > p.newest }

// EndedForAll says whether an attempt of the container was ended because all containers were started again: it was not its own end
// that brought that about.
func (c *Container) EndedForAll(attempt *container.Container) bool {
	later := c.Stale
	if c.Latest != attempt {
		later = runOf(attempt) < runOf(c.Latest)
	}
	return later && !c.restartsAllOn(attempt.ExitCode)
}

// restartsAllOn says whether all containers are to be started again when this one has ended with exitCode.
func (c *Container) restartsAllOn(exitCode int) bool {
	r := c.rule(exitCode)
	return r != nil && r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// rule is the first one that an end with exitCode meets, nil if there is none.
func (c *Container) rule(exitCode int) *corev1.ContainerRestartRule {
	for i := range c.Spec.RestartPolicyRules {
		r := &c.Spec.RestartPolicyRules[i]
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, int32(exitCode))
		if in == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return r
		}
	}
	return nil
}
