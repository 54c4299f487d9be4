// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/revision"
)

// serve has requests of the function's Service come to the activator.
func (p *pass) serve(ctx context.Context) error {
	slice := &discoveryv1.EndpointSlice{}
	slice.Namespace, slice.Name = p.fn.Namespace, p.fn.Name+"-activator"
	err := p.client.Get(ctx, client.ObjectKeyFromObject(slice), slice)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	preferred := 0
	if len(slice.Ports) > 0 && slice.Ports[0].Port != nil {
		preferred = int(*slice.Ports[0].Port) // who has resolved the Service already goes on reaching it
	}
	port, err := p.activator.Serve(p.name, preferred)
	if err != nil {
		return err
	}
	if err := p.makeService(ctx, port); err != nil {
		return err
	}
	return p.makeSlice(ctx, slice, port)
}

// ours tells whether something is the function's.
func (p *pass) ours(o client.Object) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), revision.IsOwner(p.fn))
}

func (p *pass) makeService(ctx context.Context, port int) error {
	have := &corev1.Service{}
	err := p.client.Get(ctx, p.name, have)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	want := []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt(port)}}
	switch {
	case apierrors.IsNotFound(err):
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.fn.Namespace, Name: p.fn.Name, Labels: revision.Labels(p.fn.Name, ""), OwnerReferences: revision.OwnerReferences(p.fn),
			},
			Spec: corev1.ServiceSpec{Ports: want},
		}
		err := p.client.Create(ctx, service)
		if apierrors.IsAlreadyExists(err) {
			return p.taken(ctx)
		}
		return err
	case !p.ours(have):
		return p.taken(ctx)
	case len(have.Spec.Ports) != 1 || have.Spec.Ports[0].TargetPort != want[0].TargetPort || len(have.Spec.Selector) > 0:
		patch := client.MergeFrom(have.DeepCopy())
		want[0].NodePort = nodePort(have)
		have.Spec.Ports, have.Spec.Selector = want, nil
		return p.client.Patch(ctx, have, patch)
	}
	return nil
}

func nodePort(s *corev1.Service) int32 {
	if len(s.Spec.Ports) > 0 {
		return s.Spec.Ports[0].NodePort
	}
	return 0
}

// taken says that the name is that of a Service which is not the function's, if that is so and not only the cache behind.
func (p *pass) taken(ctx context.Context) error {
	var s corev1.Service
	if err := p.live.Get(ctx, p.name, &s); err != nil || p.ours(&s) {
		return client.IgnoreNotFound(err)
	}
	message := fmt.Sprintf("there is a Service %q which is not the function's: delete one of them, or give the function another name", p.fn.Name)
	p.problem = problem{v1alpha1.ReasonConflict, message}
	return &userError{fmt.Errorf("%s", message)}
}

func (p *pass) makeSlice(ctx context.Context, have *discoveryv1.EndpointSlice, port int) error {
	want := p.slice(port)
	if have.UID == "" {
		err := p.client.Create(ctx, want)
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache is behind, or it is one of a function before this, which goes
		}
		return err
	}
	if !p.ours(have) || equality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(have.Ports, want.Ports) {
		return nil
	}
	patch := client.MergeFrom(have.DeepCopy())
	have.Endpoints, have.Ports = want.Endpoints, want.Ports
	return p.client.Patch(ctx, have, patch)
}

func (p *pass) slice(port int) *discoveryv1.EndpointSlice {
	labels := revision.Labels(p.fn.Name, "")
	labels[discoveryv1.LabelServiceName] = p.fn.Name
	labels[discoveryv1.LabelManagedBy] = revision.Manager
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.fn.Namespace, Name: p.fn.Name + "-activator", Labels: labels, OwnerReferences: revision.OwnerReferences(p.fn),
		},
		AddressType: addressType(p.config.Address),
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{p.config.Address.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(port))}},
	}
}

func addressType(a netip.Addr) discoveryv1.AddressType {
	if a.Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}
