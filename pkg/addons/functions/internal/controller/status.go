// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

const (
	// maxMessage is how long a message of a condition may be.
	maxMessage = 2048
	// maxNote is how long the note of an event may be: the API server refuses longer ones.
	maxNote = 1024
)

func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}

// serving comes between what is wrong and the revision that answers nevertheless.
const serving = "; revision "

func condition(fn *v1alpha1.Function) *metav1.Condition {
	return meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionReady)
}

// tell writes the status if it is another, and an event if the condition is.
func (p *pass) tell(ctx context.Context) error {
	status := p.fn.Status.DeepCopy()
	status.ObservedGeneration = p.fn.Generation
	status.URL = fmt.Sprintf("http://%s.%s.svc", p.fn.Name, p.fn.Namespace)
	if p.latest.Name != "" {
		status.LatestRevision = p.latest.Name
	}
	status.ReadyRevision = p.state.ready
	status.Replicas, status.ReadyReplicas, status.Revisions = 0, 0, nil
	by := map[string]int32{}
	for _, pod := range p.state.pods {
		if pod.deleted {
			continue
		}
		by[pod.revision]++
		status.Replicas++
		if pod.ready && pod.leaving.IsZero() {
			status.ReadyReplicas++
		}
	}
	for _, r := range slices.Backward(p.revisions) {
		status.Revisions = append(status.Revisions, v1alpha1.RevisionStatus{Name: r.Name, Replicas: by[r.Name], Percent: int32(p.aim.Percent[r.Name])})
	}
	status.Triggers = p.triggers()
	c := p.condition()
	changed := meta.SetStatusCondition(&status.Conditions, c)
	if equality.Semantic.DeepEqual(*status, p.fn.Status) {
		return nil
	}
	before := condition(p.fn)
	worse := c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonStarting
	news := changed && (before == nil || before.Reason != c.Reason || before.Message != c.Message)
	p.fn.Status = *status
	if err := p.client.Status().Update(ctx, p.fn); err != nil {
		return err
	}
	if news && worse {
		p.recorder.Eventf(p.fn, nil, corev1.EventTypeWarning, c.Reason, "Reconcile", "%s", shorten(c.Message, maxNote))
	} else if news && c.Status == metav1.ConditionTrue {
		p.recorder.Eventf(p.fn, nil, corev1.EventTypeNormal, c.Reason, "Reconcile", "%s", c.Message)
	}
	return nil
}

// condition is what there is to say.
func (p *pass) condition() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: p.fn.Generation}
	serves := ""
	if p.state.ready != "" && p.state.ready != p.latest.Name {
		serves = serving + p.state.ready + " goes on serving"
	}
	trouble := ""
	for _, pod := range p.state.pods {
		if pod.trouble != "" && !pod.deleted && !pod.ready {
			trouble = pod.trouble
		}
	}
	switch {
	case p.problem.reason != "":
		c.Reason, c.Message = p.problem.reason, p.problem.message+serves
	case p.state.broken[p.latest.Name] != "":
		c.Reason, c.Message = v1alpha1.ReasonHandler, p.state.broken[p.latest.Name]+serves
	case trouble != "":
		c.Reason, c.Message = v1alpha1.ReasonPod, trouble+serves
	case p.state.ready != p.latest.Name:
		c.Reason, c.Message = v1alpha1.ReasonStarting, "the first pod of revision "+p.latest.Name+" is on its way"+serves
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonReady, "revision "+p.latest.Name+" works"
	}
	c.Message = shorten(c.Message, maxMessage)
	return c
}
