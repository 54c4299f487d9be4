// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// newMapper knows the kinds that controllers work with by heart and asks the API server for all others, such as custom
// resources. So controllers can be built before the server serves, and start without a round of discovery.
func newMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	discovered, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, err
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{builtin(), discovered}}, nil
}

// clusterScoped are the built-in kinds outside namespaces.
var clusterScoped = map[string]bool{
	"Node": true, "Namespace": true, "PersistentVolume": true, "ComponentStatus": true, "ClusterRole": true, "ClusterRoleBinding": true,
	"StorageClass": true, "VolumeAttachment": true, "CSIDriver": true, "CSINode": true, "VolumeAttributesClass": true,
	"DeviceClass": true, "DeviceTaintRule": true, "ResourceSlice": true, "StorageVersionMigration": true,
	"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true, "ValidatingWebhookConfiguration": true,
	"MutatingAdmissionPolicy": true, "MutatingAdmissionPolicyBinding": true, "MutatingWebhookConfiguration": true,
	"CertificateSigningRequest": true, "ClusterTrustBundle": true, "ServiceCIDR": true, "IPAddress": true, "IngressClass": true,
}

func builtin() meta.RESTMapper {
	versions := []schema.GroupVersion{
		corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, autoscalingv2.SchemeGroupVersion, batchv1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion,
		policyv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion, storagev1.SchemeGroupVersion,
		admissionv1.SchemeGroupVersion, migrationv1.SchemeGroupVersion, resourcev1.SchemeGroupVersion,
		certificatesv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion,
	}
	if feature.Enabled(feature.GenericWorkload) {
		versions = append(versions, schedulingv1beta1.SchemeGroupVersion)
	}
	m := meta.NewDefaultRESTMapper(versions)
	for _, gv := range versions {
		for kind, t := range clientgoscheme.Scheme.KnownTypes(gv) {
			_, object := t.FieldByName("ObjectMeta")
			if !object || strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/") {
				continue // lists and options
			}
			if gv == schedulingv1beta1.SchemeGroupVersion && kind == "PriorityClass" {
				continue // it is not served in this version
			}
			scope := meta.RESTScopeNamespace
			if clusterScoped[kind] {
				scope = meta.RESTScopeRoot
			}
			m.Add(gv.WithKind(kind), scope)
		}
	}
	return m
}
