// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package declarative is the validation that the +k8s: tags of the API types declare (KEP-5073), one generated folder per
// group and version, made by hack/codegen. Touch it when a version is added; rules that no tag states are in the folders
// of the resources.
package declarative

import (
	"k8s.io/apimachinery/pkg/runtime"

	admissionregistrationv1 "minik8s.io/minik8s/pkg/apis/declarative/admissionregistration/v1"
	appsv1 "minik8s.io/minik8s/pkg/apis/declarative/apps/v1"
	authenticationv1 "minik8s.io/minik8s/pkg/apis/declarative/authentication/v1"
	authorizationv1 "minik8s.io/minik8s/pkg/apis/declarative/authorization/v1"
	autoscalingv1 "minik8s.io/minik8s/pkg/apis/declarative/autoscaling/v1"
	autoscalingv2 "minik8s.io/minik8s/pkg/apis/declarative/autoscaling/v2"
	batchv1 "minik8s.io/minik8s/pkg/apis/declarative/batch/v1"
	certificatesv1 "minik8s.io/minik8s/pkg/apis/declarative/certificates/v1"
	coordinationv1 "minik8s.io/minik8s/pkg/apis/declarative/coordination/v1"
	corev1 "minik8s.io/minik8s/pkg/apis/declarative/core/v1"
	discoveryv1 "minik8s.io/minik8s/pkg/apis/declarative/discovery/v1"
	eventsv1 "minik8s.io/minik8s/pkg/apis/declarative/events/v1"
	flowcontrolv1 "minik8s.io/minik8s/pkg/apis/declarative/flowcontrol/v1"
	networkingv1 "minik8s.io/minik8s/pkg/apis/declarative/networking/v1"
	nodev1 "minik8s.io/minik8s/pkg/apis/declarative/node/v1"
	policyv1 "minik8s.io/minik8s/pkg/apis/declarative/policy/v1"
	rbacv1 "minik8s.io/minik8s/pkg/apis/declarative/rbac/v1"
	resourcev1 "minik8s.io/minik8s/pkg/apis/declarative/resource/v1"
	schedulingv1 "minik8s.io/minik8s/pkg/apis/declarative/scheduling/v1"
	schedulingv1beta1 "minik8s.io/minik8s/pkg/apis/declarative/scheduling/v1beta1"
	storagev1 "minik8s.io/minik8s/pkg/apis/declarative/storage/v1"
	storagemigrationv1 "minik8s.io/minik8s/pkg/apis/declarative/storagemigration/v1"
)

// Options are the features that tags ask for, as upstream's gates are set in 1.37.
var Options = map[string]bool{
	"CompositePodGroup":                            false,
	"DRAPartitionableDevicesType":                  false,
	"DRAWorkloadResourceClaims":                    false,
	"HPAScaleToZero":                               true,
	"InPlacePodVerticalScalingSchedulerPreemption": false,
	"PodGroupPreemptionPolicy":                     false,
	"TopologyAwareWorkloadScheduling":              false,
	"WorkloadWithJob":                              false,
}

// AddToScheme registers the validation of all versions; registry.NewScheme calls it.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme,
		appsv1.AddToScheme,
		authenticationv1.AddToScheme,
		authorizationv1.AddToScheme,
		autoscalingv1.AddToScheme,
		autoscalingv2.AddToScheme,
		batchv1.AddToScheme,
		certificatesv1.AddToScheme,
		coordinationv1.AddToScheme,
		corev1.AddToScheme,
		discoveryv1.AddToScheme,
		eventsv1.AddToScheme,
		flowcontrolv1.AddToScheme,
		networkingv1.AddToScheme,
		nodev1.AddToScheme,
		policyv1.AddToScheme,
		rbacv1.AddToScheme,
		resourcev1.AddToScheme,
		schedulingv1.AddToScheme,
		schedulingv1beta1.AddToScheme,
		storagev1.AddToScheme,
		storagemigrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}
