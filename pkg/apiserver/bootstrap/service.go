// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

const serviceName = "kubernetes"

// kubernetesService keeps the Service by which pods reach the API server, with its endpoints: they have no selector, so
// no controller makes them. This server's address replaces what is there; a cluster has one API server so far.
func kubernetesService(ctx context.Context, client kubernetes.Interface, c Config) error {
	services := client.CoreV1().Services(metav1.NamespaceDefault)
	_, err := services.Get(ctx, serviceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = services.Create(ctx, service(c), metav1.CreateOptions{})
	}
	if ignoreExists(err) != nil {
		return err
	}
	if !c.Endpoint.IsValid() {
		return nil
	}
	if err := ensureEndpoints(ctx, client, c); err != nil {
		return err
	}
	return ensureSlice(ctx, client, c)
}

func service(c Config) *corev1.Service {
	policy := corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:   serviceName,
			Labels: map[string]string{"provider": "kubernetes", "component": "apiserver"},
		},
		Spec: corev1.ServiceSpec{
			Type:            corev1.ServiceTypeClusterIP,
			ClusterIP:       c.ServiceIP.String(),
			IPFamilyPolicy:  &policy,
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(int32(c.Endpoint.Port())),
			}},
		},
	}
}

func ensureEndpoints(ctx context.Context, client kubernetes.Interface, c Config) error {
	api := client.CoreV1().Endpoints(metav1.NamespaceDefault)
	want := []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: c.Endpoint.Addr().String()}},
		Ports:     []corev1.EndpointPort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: int32(c.Endpoint.Port())}},
	}}
	have, err := api.Get(ctx, serviceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, &corev1.Endpoints{
			// The label keeps the mirroring controller away: the slice is made here too.
			ObjectMeta: metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
			Subsets:    want,
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil || apiequality.Semantic.DeepEqual(have.Subsets, want) {
		return err
	}
	have.Subsets = want
	_, err = api.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

func ensureSlice(ctx context.Context, client kubernetes.Interface, c Config) error {
	api := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	name, port, protocol, ready := "https", int32(c.Endpoint.Port()), corev1.ProtocolTCP, true
	want := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{c.Endpoint.Addr().String()},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	if c.Endpoint.Addr().Is6() {
		want.AddressType = discoveryv1.AddressTypeIPv6
	}
	have, err := api.Get(ctx, serviceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, want, metav1.CreateOptions{})
		return err
	}
	if err != nil || apiequality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) && apiequality.Semantic.DeepEqual(have.Ports, want.Ports) {
		return err
	}
	if have.AddressType != want.AddressType { // immutable
		if err := api.Delete(ctx, serviceName, metav1.DeleteOptions{}); err != nil {
			return err
		}
		_, err = api.Create(ctx, want, metav1.CreateOptions{})
		return err
	}
	have.Endpoints, have.Ports = want.Endpoints, want.Ports
	_, err = api.Update(ctx, have, metav1.UpdateOptions{})
	return err
}
