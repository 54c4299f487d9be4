// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/gateway"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
)

// nameTaken is the reason of the event of a Gateway whose Service cannot be made.
const nameTaken = "NameTaken"

// made says what is to be done so that there is what Gateways are to have, and nothing else that was made for one. What somebody else has
// made under such a name stays as it is, which the Gateway is told.
func made(want []client.Object, gateways []*gatewayv1.Gateway, there resolve.Objects) (changes []change, problems []problem) {
	have := map[string]client.Object{}
	for _, s := range there.Services {
		have[keyOf(s)] = s
	}
	for _, list := range there.Slices {
		for _, s := range list {
			have[keyOf(s)] = s
		}
	}
	wanted := map[string]bool{}
	for _, w := range want {
		key := keyOf(w)
		wanted[key] = true
		switch h := have[key]; {
		case h == nil:
			changes = append(changes, change{w, create})
		case owner(h) == owner(w):
			if now := adjusted(h, w); now != nil {
				changes = append(changes, change{now, update})
			}
		case owner(h) != "":
			changes = append(changes, change{h, remove}) // of a Gateway that had the name before
		default:
			for _, g := range gateways {
				if g.UID == owner(w) {
					problems = append(problems, problem{g, nameTaken, fmt.Sprintf("%s is somebody else's: the Gateway has no name in the cluster", key)})
				}
			}
		}
	}
	for key, h := range have {
		if !wanted[key] && owner(h) != "" {
			changes = append(changes, change{h, remove})
		}
	}
	return changes, problems
}

// owner is the Gateway that a router has made an object for, "" if it has not.
func owner(o client.Object) types.UID {
	if c := metav1.GetControllerOf(o); c != nil && c.Kind == "Gateway" && gateway.IsMade(o) {
		return c.UID
	}
	return ""
}

// keyOf names an object with its kind.
func keyOf(o client.Object) string {
	kind := "Service"
	if _, ok := o.(*discoveryv1.EndpointSlice); ok {
		kind = "EndpointSlice"
	}
	return kind + " " + types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}.String()
}

// adjusted is an object as it is to be, nil if it is. Others may have annotated it.
func adjusted(have, want client.Object) client.Object {
	now := have.DeepCopyObject().(client.Object)
	now.SetLabels(want.GetLabels())
	annotations := maps.Clone(now.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, want.GetAnnotations())
	now.SetAnnotations(annotations)
	switch now := now.(type) {
	case *corev1.Service:
		now.Spec.Ports = want.(*corev1.Service).Spec.Ports
	case *discoveryv1.EndpointSlice:
		now.Endpoints, now.Ports = want.(*discoveryv1.EndpointSlice).Endpoints, want.(*discoveryv1.EndpointSlice).Ports
	}
	if equality.Semantic.DeepEqual(have, now) {
		return nil
	}
	return now
}
