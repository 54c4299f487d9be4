// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// admitNode keeps a node from writing other nodes, and from drawing pods to itself by taints and labels that belong to the
// administrator.
func admitNode(name string, a admission.Attributes) error {
	requested := a.GetName()
	if a.GetOperation() == admission.Create {
		n, err := object.New[*corev1.Node](a)
		if err != nil {
			return err
		}
		requested = n.Name
	}
	if requested != name {
		return fmt.Errorf("node %q is not allowed to modify node %q", name, requested)
	}
	switch a.GetOperation() {
	case admission.Create:
		n, err := object.New[*corev1.Node](a)
		if err != nil {
			return err
		}
		if n.Spec.ConfigSource != nil {
			return fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", name)
		}
		// Upstream asks for this in updates only. But a node that registers as the dependent of something which it may delete
		// (its CSINode) can have itself deleted later, and come back without the taints it got in between.
		if len(n.OwnerReferences) > 0 {
			return fmt.Errorf("node %q is not allowed to set ownerReferences", name)
		}
		if bad := forbiddenLabels(n.Labels, nil); len(bad) > 0 {
			return fmt.Errorf("node %q is not allowed to set the following labels: %s", name, strings.Join(bad, ", "))
		}
	case admission.Update:
		n, err := object.New[*corev1.Node](a)
		if err != nil {
			return err
		}
		old, err := object.Old[*corev1.Node](a)
		if err != nil {
			return err
		}
		if n.Spec.ConfigSource != nil && !apiequality.Semantic.DeepEqual(n.Spec.ConfigSource, old.Spec.ConfigSource) {
			return fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", name)
		}
		if !apiequality.Semantic.DeepEqual(n.Spec.Taints, old.Spec.Taints) {
			return fmt.Errorf("node %q is not allowed to modify taints", name)
		}
		// The garbage collector would delete the node with its owner, and it may register anew with other taints (CVE-2025-5187).
		if !apiequality.Semantic.DeepEqual(n.OwnerReferences, old.OwnerReferences) {
			return fmt.Errorf("node %q is not allowed to modify ownerReferences", name)
		}
		if bad := forbiddenLabels(n.Labels, old.Labels); len(bad) > 0 {
			return fmt.Errorf("is not allowed to modify labels: %s", strings.Join(bad, ", "))
		}
	}
	return nil
}

// forbiddenLabels are the changed labels that a node must leave alone: node-restriction ones, and those of Kubernetes that
// are not known to be the kubelet's.
func forbiddenLabels(labels, old map[string]string) []string {
	bad := sets.New[string]()
	check := func(a, b map[string]string) {
		for key, v := range a {
			if w, ok := b[key]; (!ok || v != w) && forbidden(key) {
				bad.Insert(key)
			}
		}
	}
	check(labels, old)
	check(old, labels)
	return sets.List(bad)
}

func forbidden(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	return within(domain, corev1.LabelNamespaceNodeRestriction) ||
		(within(domain, "kubernetes.io") || within(domain, "k8s.io")) && !kubeletapis.IsKubeletLabel(key)
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
