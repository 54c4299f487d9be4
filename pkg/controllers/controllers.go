// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers runs the control loops that upstream keeps in kube-controller-manager: one manager, one cache, one
// folder per controller. Touch this package to add a controller (a folder and one line in List) or to change what they
// share.
package controllers

import (
	"fmt"
	"strings"

	"minik8s.io/minik8s/pkg/controllers/clusterroleaggregation"
	"minik8s.io/minik8s/pkg/controllers/daemonset"
	"minik8s.io/minik8s/pkg/controllers/deployment"
	"minik8s.io/minik8s/pkg/controllers/disruption"
	"minik8s.io/minik8s/pkg/controllers/endpoints"
	"minik8s.io/minik8s/pkg/controllers/endpointslice"
	"minik8s.io/minik8s/pkg/controllers/garbagecollector"
	"minik8s.io/minik8s/pkg/controllers/namespace"
	"minik8s.io/minik8s/pkg/controllers/nodelifecycle"
	"minik8s.io/minik8s/pkg/controllers/persistentvolumeclaimprotection"
	"minik8s.io/minik8s/pkg/controllers/persistentvolumeprotection"
	"minik8s.io/minik8s/pkg/controllers/podgc"
	"minik8s.io/minik8s/pkg/controllers/replicaset"
	"minik8s.io/minik8s/pkg/controllers/replicationcontroller"
	"minik8s.io/minik8s/pkg/controllers/resourcequota"
	"minik8s.io/minik8s/pkg/controllers/rootcacertpublisher"
	"minik8s.io/minik8s/pkg/controllers/serviceaccount"
	"minik8s.io/minik8s/pkg/controllers/setup"
	"minik8s.io/minik8s/pkg/controllers/tainteviction"
	"minik8s.io/minik8s/pkg/controllers/volumeattributesclassprotection"
)

// Controller is one line of List.
type Controller struct {
	// Name is the folder's name.
	Name string
	// Upstream is the name in kube-controller-manager's --controllers flag.
	Upstream string
	// ServiceAccount is the name in kube-system that the controller writes as. It is upstream's, because the bootstrap
	// role bindings speak of it.
	ServiceAccount string
	// EventSource is the component name in the controller's events; empty stands for ServiceAccount.
	EventSource string
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
		{Name: "disruption", Upstream: "disruption-controller", ServiceAccount: "disruption-controller", EventSource: "controllermanager", Setup: disruption.Setup},
		{Name: "endpoints", Upstream: "endpoints-controller", ServiceAccount: "endpoint-controller", Setup: endpoints.Setup},
		{Name: "endpointslice", Upstream: "endpointslice-controller", ServiceAccount: "endpointslice-controller", EventSource: "endpoint-slice-controller", Setup: endpointslice.Setup},
		{Name: "resourcequota", Upstream: "resourcequota-controller", ServiceAccount: "resourcequota-controller", Setup: resourcequota.Setup},
		{Name: "garbagecollector", Upstream: "garbage-collector-controller", ServiceAccount: "generic-garbage-collector", EventSource: "garbage-collector-controller", Setup: garbagecollector.Setup},
		{Name: "nodelifecycle", Upstream: "node-lifecycle-controller", ServiceAccount: "node-controller", Setup: nodelifecycle.Setup},
		{Name: "tainteviction", Upstream: "taint-eviction-controller", ServiceAccount: "node-controller", EventSource: "taint-eviction-controller", Setup: tainteviction.Setup},
		{Name: "podgc", Upstream: "pod-garbage-collector-controller", ServiceAccount: "pod-garbage-collector", Setup: podgc.Setup},
		{Name: "persistentvolumeclaimprotection", Upstream: "persistentvolumeclaim-protection-controller", ServiceAccount: "pvc-protection-controller", Setup: persistentvolumeclaimprotection.Setup},
		{Name: "persistentvolumeprotection", Upstream: "persistentvolume-protection-controller", ServiceAccount: "pv-protection-controller", Setup: persistentvolumeprotection.Setup},
		{Name: "volumeattributesclassprotection", Upstream: "volumeattributesclass-protection-controller", ServiceAccount: "volumeattributesclass-protection-controller", Setup: volumeattributesclassprotection.Setup},
	}
}

// selectEnabled returns the controllers of list that the items of enabled switch on.
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
		if isEnabled(c, enabled) {
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
	return star
}
