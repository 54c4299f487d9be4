// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/registry/networking/servicecidr"
)

// serviceCIDR makes the ServiceCIDR of the configured ranges, without which no Service gets an address, adds a range of the
// second family and says that it is ready. What is there and differs otherwise is for people to solve.
func serviceCIDR(ctx context.Context, client kubernetes.Interface, c Config) error {
	api := client.NetworkingV1().ServiceCIDRs()
	var want []string
	for _, p := range c.ServiceIPRanges {
		want = append(want, p.Masked().String())
	}
	have, err := api.Get(ctx, servicecidr.Default, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		have, err = api.Create(ctx, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: servicecidr.Default},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: want},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if len(want) == 2 && slices.Equal(have.Spec.CIDRs, want[:1]) {
		have.Spec.CIDRs = want
		if have, err = api.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if !slices.Equal(have.Spec.CIDRs, want) {
		klog.FromContext(ctx).Info("The default ServiceCIDR does not match the configuration", "serviceCIDR", have.Spec.CIDRs, "configured", want)
		return nil
	}
	ready := meta.FindStatusCondition(have.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if have.DeletionTimestamp != nil || ready != nil && ready.Status != metav1.ConditionUnknown {
		return nil
	}
	status := applynetworkingv1.ServiceCIDRStatus().WithConditions(applymetav1.Condition().
		WithType(networkingv1.ServiceCIDRConditionReady).
		WithStatus(metav1.ConditionTrue).
		WithMessage("Kubernetes default Service CIDR is ready").
		WithLastTransitionTime(metav1.Now()))
	_, err = api.ApplyStatus(ctx, applynetworkingv1.ServiceCIDR(servicecidr.Default).WithStatus(status),
		metav1.ApplyOptions{FieldManager: "kubernetes-service-cidr-controller", Force: true})
	return err
}
