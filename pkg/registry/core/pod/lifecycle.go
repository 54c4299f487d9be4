// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"minik8s.io/minik8s/pkg/apis/core/affinity"
	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/apis/core/topologyspread"
)

func prepareForCreate(ctx context.Context, p *corev1.Pod) {
	// Admission may have chosen the account after the defaults, which keep the two names equal, ran.
	p.Spec.DeprecatedServiceAccount = p.Spec.ServiceAccountName
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
	dropDisabled(p, nil)
	if len(p.Spec.SchedulingGates) > 0 {
		setCondition(&p.Status, corev1.PodCondition{
			Type:    corev1.PodScheduled,
			Status:  corev1.ConditionFalse,
			Reason:  corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		})
	}
	affinity.MergeLabelKeys(p)
	topologyspread.MergeLabelKeys(p)
	for _, key := range podspec.SetAppArmorProfiles(p.Annotations, &p.Spec) {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: %s", annotationsPath.Key(key), podtemplate.ObsoleteAppArmor))
	}
	podspec.SetPodLevelDefaults(&p.Spec)
	p.Status.QOSClass = qos.Class(&p.Spec)
}

func prepareForUpdate(_ context.Context, p, old *corev1.Pod) {
	keepResources(p, old)
	dropDisabled(p, &old.Spec)
}

// keepResources restores pod-level resources that a client drops which does not know them.
func keepResources(p, old *corev1.Pod) {
	if p.Spec.Resources == nil {
		p.Spec.Resources = old.Spec.Resources.DeepCopy()
	}
}

// dropDisabled clears the fields of features that are off by default in Kubernetes 1.37, as upstream does without a word; old
// is the spec before an update, nil on create.
func dropDisabled(p *corev1.Pod, old *corev1.PodSpec) {
	podspec.DropDisabled(&p.Spec, old)
	podtemplate.DropAnnotations(p.Annotations)
	p.Status.NodeAllocatableResourceClaimStatuses = nil // DRANodeAllocatableResources
	p.Status.VolumeHealth = nil                         // CSIVolumeHealth
	for _, list := range statuses(&p.Status) {
		for i := range list {
			for j := range list[i].VolumeMounts {
				list[i].VolumeMounts[j].VolumeStatus = nil // ImageVolumeWithDigest
			}
		}
	}
}

// statuses are those of all containers, by kind.
func statuses(s *corev1.PodStatus) [][]corev1.ContainerStatus {
	return [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses}
}

func warnings(_ context.Context, p, old *corev1.Pod) []string {
	if old != nil {
		return nil // updates come from programs, which read no warnings
	}
	var out []string
	if msgs := validation.IsDNS1123Label(p.Name); len(msgs) > 0 {
		out = append(out, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v", msgs))
	}
	return append(out, podtemplate.Warnings(&p.ObjectMeta, &p.Spec, (*field.Path)(nil))...)
}

// checkGracefulDelete sets how long the pod may take to end: no time at all if nothing runs.
func checkGracefulDelete(_ context.Context, p *corev1.Pod, options *metav1.DeleteOptions) bool {
	if options == nil {
		return false
	}
	var period int64
	switch {
	case options.GracePeriodSeconds != nil:
		period = *options.GracePeriodSeconds
	case p.Spec.TerminationGracePeriodSeconds != nil:
		period = *p.Spec.TerminationGracePeriodSeconds
	}
	if p.Spec.NodeName == "" || terminal(p.Status.Phase) {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	options.GracePeriodSeconds = &period
	return true
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// setCondition puts a condition into a status.
func setCondition(s *corev1.PodStatus, c corev1.PodCondition) {
	for i := range s.Conditions {
		old := &s.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		c.LastTransitionTime = metav1.Now()
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	c.LastTransitionTime = metav1.Now()
	s.Conditions = append(s.Conditions, c)
}

func hasCondition(s *corev1.PodStatus, kind corev1.PodConditionType) bool {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
