// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/gateway"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
)

// nameTaken is the reason of the event of a Gateway whose Service cannot be made.
const nameTaken = "NameTaken"

// gatewayServices says what is to be done so that Gateways have their Services, and nothing else is there that was made for one. What somebody else has
// made under such a name stays as it is, which the Gateway is told. A Service gets its endpoints once it is known to be the Gateway's: those of
// another one of that name would get a part of what that is asked.
func gatewayServices(want []gateway.Service, there resolve.Objects) (changes []change, problems []problem) {
	kept, gateways := map[client.Object]bool{}, map[types.UID]bool{"": true} // as if what nobody has made were a Gateway's that is there
	for _, w := range want {
		gateways[w.Gateway.UID] = true
	}
	// keep has an object be as it is wanted, and tells whether one is there that is made for this Gateway.
	keep := func(of *gatewayv1.Gateway, have, want client.Object) bool {
		switch {
		case have == nil:
			changes = append(changes, change{want, create})
			return false
		case gateway.MadeFor(have) == of.UID:
			kept[have] = true
			if now := adjusted(have, want); now != nil {
				changes = append(changes, change{now, update})
			}
			return true
		case gateways[gateway.MadeFor(have)]: // two may have one name, as "a" of class "b-c" and "a-b" of class "c"
			problems = append(problems, problem{of, nameTaken, fmt.Sprintf("%q is the name of something that is not the Gateway's: it has no name in the cluster", have.GetName())})
		}
		return false // what was made for a Gateway of the same name before goes first
	}
	for _, w := range want {
		var have client.Object
		if s := there.Services[client.ObjectKeyFromObject(w.Service)]; s != nil {
			have = s
		}
		if !keep(w.Gateway, have, w.Service) {
			continue
		}
		for _, slice := range w.Slices {
			keep(w.Gateway, sliceOf(there, slice), slice)
		}
	}
	left := func(o client.Object) {
		if gateway.MadeFor(o) != "" && !kept[o] {
			changes = append(changes, change{o, remove})
		}
	}
	for _, s := range there.Services {
		left(s)
	}
	for _, list := range there.Slices {
		for _, s := range list {
			left(s)
		}
	}
	return changes, problems
}

// sliceOf is what has the name of an EndpointSlice, nil if nothing has, of whatever Service it is.
func sliceOf(there resolve.Objects, want *discoveryv1.EndpointSlice) client.Object {
	own := types.NamespacedName{Namespace: want.Namespace, Name: want.Labels[discoveryv1.LabelServiceName]}
	named := func(s *discoveryv1.EndpointSlice) bool { return s.Namespace == want.Namespace && s.Name == want.Name }
	if i := slices.IndexFunc(there.Slices[own], named); i >= 0 {
		return there.Slices[own][i]
	}
	for _, list := range there.Slices {
		if i := slices.IndexFunc(list, named); i >= 0 {
			return list[i]
		}
	}
	return nil
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
