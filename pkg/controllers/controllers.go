// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers runs the control loops that upstream keeps in kube-controller-manager: one manager, one cache, one
// folder per controller. Touch this package to add a controller (a folder and one line in List) or to change what they
// share.
package controllers

import (
	"fmt"
	"strings"

	"k8s.io/component-base/featuregate"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/controllers/attachdetach"
	"minik8s.io/minik8s/pkg/controllers/bootstrapsigner"
	"minik8s.io/minik8s/pkg/controllers/certificatesigningrequestapproving"
	"minik8s.io/minik8s/pkg/controllers/certificatesigningrequestcleaner"
	"minik8s.io/minik8s/pkg/controllers/certificatesigningrequestsigning"
	"minik8s.io/minik8s/pkg/controllers/clusterroleaggregation"
	"minik8s.io/minik8s/pkg/controllers/cronjob"
	"minik8s.io/minik8s/pkg/controllers/daemonset"
	"minik8s.io/minik8s/pkg/controllers/deployment"
	"minik8s.io/minik8s/pkg/controllers/devicetainteviction"
	"minik8s.io/minik8s/pkg/controllers/disruption"
	"minik8s.io/minik8s/pkg/controllers/endpoints"
	"minik8s.io/minik8s/pkg/controllers/endpointslice"
	"minik8s.io/minik8s/pkg/controllers/endpointslicemirroring"
	"minik8s.io/minik8s/pkg/controllers/ephemeralvolume"
	"minik8s.io/minik8s/pkg/controllers/garbagecollector"
	"minik8s.io/minik8s/pkg/controllers/horizontalpodautoscaler"
	"minik8s.io/minik8s/pkg/controllers/job"
	"minik8s.io/minik8s/pkg/controllers/kubeapiserverclustertrustbundlepublisher"
	"minik8s.io/minik8s/pkg/controllers/legacyserviceaccounttokencleaner"
	"minik8s.io/minik8s/pkg/controllers/namespace"
	"minik8s.io/minik8s/pkg/controllers/nodeipam"
	"minik8s.io/minik8s/pkg/controllers/nodelifecycle"
	"minik8s.io/minik8s/pkg/controllers/persistentvolumebinder"
	"minik8s.io/minik8s/pkg/controllers/persistentvolumeclaimprotection"
	"minik8s.io/minik8s/pkg/controllers/persistentvolumeprotection"
	"minik8s.io/minik8s/pkg/controllers/podcertificaterequestcleaner"
	"minik8s.io/minik8s/pkg/controllers/podgc"
	"minik8s.io/minik8s/pkg/controllers/podgroupprotection"
	"minik8s.io/minik8s/pkg/controllers/replicaset"
	"minik8s.io/minik8s/pkg/controllers/replicationcontroller"
	"minik8s.io/minik8s/pkg/controllers/resourceclaim"
	"minik8s.io/minik8s/pkg/controllers/resourcequota"
	"minik8s.io/minik8s/pkg/controllers/rootcacertpublisher"
	"minik8s.io/minik8s/pkg/controllers/service"
	"minik8s.io/minik8s/pkg/controllers/serviceaccount"
	"minik8s.io/minik8s/pkg/controllers/serviceaccounttoken"
	"minik8s.io/minik8s/pkg/controllers/servicecidrs"
	"minik8s.io/minik8s/pkg/controllers/setup"
	"minik8s.io/minik8s/pkg/controllers/statefulset"
	"minik8s.io/minik8s/pkg/controllers/storageversionmigrator"
	"minik8s.io/minik8s/pkg/controllers/tainteviction"
	"minik8s.io/minik8s/pkg/controllers/tokencleaner"
	"minik8s.io/minik8s/pkg/controllers/ttl"
	"minik8s.io/minik8s/pkg/controllers/ttlafterfinished"
	"minik8s.io/minik8s/pkg/controllers/validatingadmissionpolicystatus"
	"minik8s.io/minik8s/pkg/controllers/volumeattributesclassprotection"
	"minik8s.io/minik8s/pkg/controllers/volumeexpand"
)

// Controller is one line of List.
type Controller struct {
	// Name is the folder's name.
	Name string
	// Upstream is the name in kube-controller-manager's --controllers flag.
	Upstream string
	// ServiceAccount is the name in kube-system that the controller writes as. It is upstream's, because the bootstrap
	// role bindings speak of it. Empty: the controller writes as the manager does, system:kube-controller-manager.
	ServiceAccount string
	// EventSource is the component name in the controller's events; empty stands for ServiceAccount.
	EventSource string
	// Off says that the star in --controllers does not switch the controller on, only its name does.
	Off bool
	// Gate is the feature without which the controller does not run, whatever --controllers says; may be empty.
	Gate featuregate.Feature
	// Setup adds the controller to the manager.
	Setup func(setup.Env) error
}

// List is every controller, in the order of set-up: what a new cluster waits for first comes first.
func List() []Controller {
	return []Controller{
		{Name: "serviceaccount", Upstream: "serviceaccount-controller", ServiceAccount: "service-account-controller", Setup: serviceaccount.Setup},
		{Name: "rootcacertpublisher", Upstream: "root-ca-certificate-publisher-controller", ServiceAccount: "root-ca-cert-publisher", Setup: rootcacertpublisher.Setup},
		{Name: "clusterroleaggregation", Upstream: "clusterrole-aggregation-controller", ServiceAccount: "clusterrole-aggregation-controller", Setup: clusterroleaggregation.Setup},
		{Name: "namespace", Upstream: "namespace-controller", ServiceAccount: "namespace-controller", Setup: namespace.Setup},
		{Name: "deployment", Upstream: "deployment-controller", ServiceAccount: "deployment-controller", Setup: deployment.Setup},
		{Name: "replicaset", Upstream: "replicaset-controller", ServiceAccount: "replicaset-controller", Setup: replicaset.Setup},
		{Name: "replicationcontroller", Upstream: "replicationcontroller-controller", ServiceAccount: "replication-controller", Setup: replicationcontroller.Setup},
		{Name: "daemonset", Upstream: "daemonset-controller", ServiceAccount: "daemon-set-controller", EventSource: "daemonset-controller", Setup: daemonset.Setup},
		{Name: "job", Upstream: "job-controller", ServiceAccount: "job-controller", Setup: job.Setup},
		{Name: "cronjob", Upstream: "cronjob-controller", ServiceAccount: "cronjob-controller", Setup: cronjob.Setup},
		{Name: "ttlafterfinished", Upstream: "ttl-after-finished-controller", ServiceAccount: "ttl-after-finished-controller", Setup: ttlafterfinished.Setup},
		{Name: "statefulset", Upstream: "statefulset-controller", ServiceAccount: "statefulset-controller", Setup: statefulset.Setup},
		{Name: "horizontalpodautoscaler", Upstream: "horizontal-pod-autoscaler-controller", ServiceAccount: "horizontal-pod-autoscaler", Setup: horizontalpodautoscaler.Setup},
		{Name: "disruption", Upstream: "disruption-controller", ServiceAccount: "disruption-controller", EventSource: "controllermanager", Setup: disruption.Setup},
		{Name: "endpoints", Upstream: "endpoints-controller", ServiceAccount: "endpoint-controller", Setup: endpoints.Setup},
		{Name: "endpointslice", Upstream: "endpointslice-controller", ServiceAccount: "endpointslice-controller", EventSource: "endpoint-slice-controller", Setup: endpointslice.Setup},
		{Name: "endpointslicemirroring", Upstream: "endpointslice-mirroring-controller", ServiceAccount: "endpointslicemirroring-controller", EventSource: "endpoint-slice-mirroring-controller", Setup: endpointslicemirroring.Setup},
		{Name: "serviceaccounttoken", Upstream: "serviceaccount-token-controller", Setup: serviceaccounttoken.Setup},
		{Name: "kubeapiserverclustertrustbundlepublisher", Upstream: "kube-apiserver-serving-clustertrustbundle-publisher-controller", ServiceAccount: "kube-apiserver-serving-clustertrustbundle-publisher", Setup: kubeapiserverclustertrustbundlepublisher.Setup},
		{Name: "certificatesigningrequestapproving", Upstream: "certificatesigningrequest-approving-controller", ServiceAccount: "certificate-controller", Setup: certificatesigningrequestapproving.Setup},
		{Name: "certificatesigningrequestsigning", Upstream: "certificatesigningrequest-signing-controller", ServiceAccount: "certificate-controller", Setup: certificatesigningrequestsigning.Setup},
		{Name: "certificatesigningrequestcleaner", Upstream: "certificatesigningrequest-cleaner-controller", ServiceAccount: "certificate-controller", Setup: certificatesigningrequestcleaner.Setup},
		{Name: "podcertificaterequestcleaner", Upstream: "podcertificaterequest-cleaner-controller", ServiceAccount: "podcertificaterequestcleaner", Setup: podcertificaterequestcleaner.Setup},
		{Name: "legacyserviceaccounttokencleaner", Upstream: "legacy-serviceaccount-token-cleaner-controller", ServiceAccount: "legacy-service-account-token-cleaner", Setup: legacyserviceaccounttokencleaner.Setup},
		{Name: "bootstrapsigner", Upstream: "bootstrap-signer-controller", ServiceAccount: "bootstrap-signer", Off: true, Setup: bootstrapsigner.Setup},
		{Name: "tokencleaner", Upstream: "token-cleaner-controller", ServiceAccount: "token-cleaner", Off: true, Setup: tokencleaner.Setup},
		{Name: "servicecidrs", Upstream: "service-cidr-controller", ServiceAccount: "service-cidrs-controller", EventSource: "service-cidr-controller", Setup: servicecidrs.Setup},
		{Name: "service", Upstream: "service-lb-controller", ServiceAccount: "service-controller", Setup: service.Setup},
		{Name: "nodeipam", Upstream: "node-ipam-controller", ServiceAccount: "node-controller", EventSource: "cidrAllocator", Setup: nodeipam.Setup},
		{Name: "ttl", Upstream: "ttl-controller", ServiceAccount: "ttl-controller", Setup: ttl.Setup},
		{Name: "resourcequota", Upstream: "resourcequota-controller", ServiceAccount: "resourcequota-controller", Setup: resourcequota.Setup},
		{Name: "garbagecollector", Upstream: "garbage-collector-controller", ServiceAccount: "generic-garbage-collector", EventSource: "garbage-collector-controller", Setup: garbagecollector.Setup},
		{Name: "nodelifecycle", Upstream: "node-lifecycle-controller", ServiceAccount: "node-controller", Setup: nodelifecycle.Setup},
		{Name: "tainteviction", Upstream: "taint-eviction-controller", ServiceAccount: "node-controller", EventSource: "taint-eviction-controller", Setup: tainteviction.Setup},
		{Name: "podgc", Upstream: "pod-garbage-collector-controller", ServiceAccount: "pod-garbage-collector", Setup: podgc.Setup},
		{Name: "ephemeralvolume", Upstream: "ephemeral-volume-controller", ServiceAccount: "ephemeral-volume-controller", EventSource: "ephemeral_volume", Setup: ephemeralvolume.Setup},
		{Name: "persistentvolumebinder", Upstream: "persistentvolume-binder-controller", ServiceAccount: "persistent-volume-binder", EventSource: "persistentvolume-controller", Setup: persistentvolumebinder.Setup},
		{Name: "attachdetach", Upstream: "persistentvolume-attach-detach-controller", ServiceAccount: "attachdetach-controller", Setup: attachdetach.Setup},
		{Name: "volumeexpand", Upstream: "persistentvolume-expander-controller", ServiceAccount: "expand-controller", EventSource: "volume_expand", Setup: volumeexpand.Setup},
		{Name: "persistentvolumeclaimprotection", Upstream: "persistentvolumeclaim-protection-controller", ServiceAccount: "pvc-protection-controller", Setup: persistentvolumeclaimprotection.Setup},
		{Name: "persistentvolumeprotection", Upstream: "persistentvolume-protection-controller", ServiceAccount: "pv-protection-controller", Setup: persistentvolumeprotection.Setup},
		{Name: "volumeattributesclassprotection", Upstream: "volumeattributesclass-protection-controller", ServiceAccount: "volumeattributesclass-protection-controller", Setup: volumeattributesclassprotection.Setup},
		{Name: "podgroupprotection", Upstream: "podgroup-protection-controller", ServiceAccount: "podgroup-protection-controller", Gate: feature.GenericWorkload, Setup: podgroupprotection.Setup},
		{Name: "storageversionmigrator", Upstream: "storage-version-migrator-controller", ServiceAccount: "storage-version-migrator-controller", Setup: storageversionmigrator.Setup},
		{Name: "validatingadmissionpolicystatus", Upstream: "validatingadmissionpolicy-status-controller", ServiceAccount: "validatingadmissionpolicy-status-controller", Setup: validatingadmissionpolicystatus.Setup},
		{Name: "resourceclaim", Upstream: "resourceclaim-controller", ServiceAccount: "resource-claim-controller", EventSource: "resource_claim", Setup: resourceclaim.Setup},
		{Name: "devicetainteviction", Upstream: "device-taint-eviction-controller", ServiceAccount: "device-taint-eviction-controller", Setup: devicetainteviction.Setup},
	}
}

// selectEnabled returns the controllers of list that the items of enabled switch on and their gates allow.
func selectEnabled(list []Controller, enabled []string) ([]Controller, error) {
	known := map[string]bool{"*": true}
	for _, c := range list {
		known[c.Name], known[c.Upstream] = true, true
	}
	for _, item := range enabled {
		if name := strings.TrimPrefix(item, "-"); !known[name] || item == "-*" {
			return nil, fmt.Errorf("%q is not a known controller", item)
		}
	}
	var selected []Controller
	for _, c := range list {
		if isEnabled(c, enabled) && (c.Gate == "" || feature.Enabled(c.Gate)) {
			selected = append(selected, c)
		}
	}
	return selected, nil
}

// isEnabled reports whether enabled switches c on; an item that names it precedes the star.
func isEnabled(c Controller, enabled []string) bool {
	star := false
	for _, item := range enabled {
		switch item {
		case c.Name, c.Upstream:
			return true
		case "-" + c.Name, "-" + c.Upstream:
			return false
		case "*":
			star = true
		}
	}
	return star && !c.Off
}
