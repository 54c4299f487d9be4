// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pod serves pods and everything that can be done to one: binding, eviction, logs, exec, attach, port-forward,
// proxy, resize. Touch it when pods get another field or subresource; the spec itself is pkg/apis/core/podspec.
package pod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes pods.
var Resource = &registry.Resource[*corev1.Pod]{
	Kind:             corev1.SchemeGroupVersion.WithKind("Pod"),
	Name:             "pods",
	ShortNames:       []string{"po"},
	Categories:       []string{"all"},
	New:              func() *corev1.Pod { return &corev1.Pod{} },
	NewList:          func() runtime.Object { return &corev1.PodList{} },
	Default:          setDefaults,
	PrepareForCreate: prepareForCreate,
	PrepareForUpdate: prepareForUpdate,
	Validate:         validateCreate,
	ValidateUpdate:   validateUpdate,
	Warnings:         warnings,
	Spec:             func(p *corev1.Pod) any { return &p.Spec },
	Status: &registry.Status[*corev1.Pod]{
		PrepareForUpdate: prepareStatus,
		Validate:         validateStatus,
		Warnings:         statusWarnings,
		ResetFields:      []string{"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"},
	},
	ReturnDeleted:       true,
	CheckGracefulDelete: checkGracefulDelete,
	Fields:              selectable,
	Indexed:             []string{"spec.nodeName"},
	Columns:             columns,
	Row:                 row,
	RowConditions:       rowConditions,
	Subresources:        subresources,
}

var selectable = registry.Fields[*corev1.Pod]{
	"spec.nodeName":           func(p *corev1.Pod) string { return p.Spec.NodeName },
	"spec.restartPolicy":      func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) },
	"spec.schedulerName":      func(p *corev1.Pod) string { return p.Spec.SchedulerName },
	"spec.serviceAccountName": func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
	"spec.hostNetwork":        func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
	"status.phase":            func(p *corev1.Pod) string { return string(p.Status.Phase) },
	"status.podIP": func(p *corev1.Pod) string {
		if len(p.Status.PodIPs) == 0 {
			return ""
		}
		return p.Status.PodIPs[0].IP
	},
	"status.podIPs":            func(*corev1.Pod) string { return "" }, // may be asked for, and is never found
	"status.nominatedNodeName": func(p *corev1.Pod) string { return p.Status.NominatedNodeName },
}

func subresources(pods *registry.Store[*corev1.Pod], c registry.Config) (map[string]rest.Storage, error) {
	node := kubelet{pods: pods, conn: c.Kubelet, authorizer: c.Authorizer}
	return map[string]rest.Storage{
		"binding":             &BindingREST{pods: pods.Store},
		"eviction":            &EvictionREST{pods: pods.Store, stores: c.Stores, backoff: evictionBackoff},
		"ephemeralcontainers": newPartREST(pods.Store, ephemeralPart(c.Scheme)),
		"resize":              newPartREST(pods.Store, resizePart(c.Scheme)),
		"log":                 &LogREST{node},
		"exec":                &ExecREST{node},
		"attach":              &AttachREST{node},
		"portforward":         &PortForwardREST{node},
		"proxy":               newProxyREST(pods),
	}, nil
}
