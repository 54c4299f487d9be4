// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// What Gateways and ListenerSets are told that are accepted. Their statuses do not say whose they are: by this it is known.
const (
	gatewayAccepted = "the Gateway is the router's"
	setAccepted     = "the listeners are the Gateway's"
	someAccepted    = "some listeners cannot be used"
)

// orphans are those that say that this router serves them, and are not its own any more: Gateways whose class is gone, and ListenerSets
// without such a Gateway. They wait for a controller, as new ones do. One that has a class of another controller is told by that.
func (o *Output) orphans() []client.Object {
	var changed []client.Object
	for _, g := range o.input.Gateways {
		if !accepted(g.Status.Conditions) || slices.ContainsFunc(o.input.Classes, func(c *gatewayv1.GatewayClass) bool {
			return gatewayv1.ObjectName(c.Name) == g.Spec.GatewayClassName
		}) {
			continue
		}
		next := g.DeepCopy()
		next.Status = gatewayv1.GatewayStatus{Conditions: o.waiting(g.Status.Conditions, g.Generation)}
		changed = append(changed, next)
	}
	for _, s := range o.input.ListenerSets {
		if !accepted(s.Status.Conditions) || slices.ContainsFunc(o.gateways, func(g *gateway) bool { return parentOf(s) == client.ObjectKeyFromObject(g.object) }) {
			continue
		}
		next := s.DeepCopy()
		next.Status = gatewayv1.ListenerSetStatus{Conditions: o.waiting(s.Status.Conditions, s.Generation)}
		changed = append(changed, next)
	}
	return changed
}

// accepted tells whether conditions say that this router serves an object.
func accepted(conditions []metav1.Condition) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Type == string(gatewayv1.GatewayConditionAccepted) && slices.Contains([]string{gatewayAccepted, setAccepted, someAccepted}, c.Message)
	})
}

// waiting are the conditions of an object that nobody has looked at, with those of types that nobody sets here.
func (o *Output) waiting(old []metav1.Condition, generation int64) []metav1.Condition {
	others := slices.DeleteFunc(slices.Clone(old), func(c metav1.Condition) bool { return c.Type == string(gatewayv1.GatewayConditionResolvedRefs) })
	var now []metav1.Condition
	for _, kind := range []gatewayv1.GatewayConditionType{gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayConditionProgrammed} {
		now = append(now, metav1.Condition{
			Type: string(kind), Status: metav1.ConditionUnknown, Reason: string(gatewayv1.GatewayReasonPending), Message: "Waiting for controller",
		})
	}
	return o.merged(others, now, generation)
}
