// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"minik8s.io/minik8s/pkg/policy/model"
)

// accepted is the type of the condition by which a ClusterNetworkPolicy says whether it can be enforced as it is written. Upstream leaves
// to implementations what conditions there are.
const accepted = "Accepted"

// reportTime is what the API server may take to store a status.
const reportTime = 10 * time.Second

// condition says of a policy which of its rules are not supported. It does not depend on the node.
func condition(p *v1alpha2.ClusterNetworkPolicy) metav1.Condition {
	c := metav1.Condition{Type: accepted, Status: metav1.ConditionTrue, Reason: "Accepted", Message: "All rules are supported", ObservedGeneration: p.Generation}
	if what := model.Unsupported(p); what != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Unsupported", what
	}
	return c
}

// says tells whether a policy has the condition.
func says(p *v1alpha2.ClusterNetworkPolicy, c metav1.Condition) bool {
	has := meta.FindStatusCondition(p.Status.Conditions, c.Type)
	return has != nil && has.Status == c.Status && has.Reason == c.Reason && has.Message == c.Message && has.ObservedGeneration == c.ObservedGeneration
}

// report writes the condition of each policy that has not got it. It is beside the loop that enforces, which waits for no answer.
func (e *Enforcer) report(ctx context.Context) error {
	var errs []error
	for _, p := range e.cluster.known() {
		if c := condition(p); !says(p, c) {
			errs = append(errs, e.write(ctx, p, c))
		}
	}
	return errors.Join(errs...)
}

func (e *Enforcer) write(ctx context.Context, p *v1alpha2.ClusterNetworkPolicy, c metav1.Condition) error {
	p = p.DeepCopy()
	meta.SetStatusCondition(&p.Status.Conditions, c)
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	_, err := e.config.Statuses.PolicyV1alpha2().ClusterNetworkPolicies().UpdateStatus(ctx, p, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is another one by now, of which the watch tells
	}
	if err != nil {
		return fmt.Errorf("writing the status of cluster network policy %q: %w", p.Name, err)
	}
	return nil
}
