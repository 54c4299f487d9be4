// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodedeclaredfeaturevalidator refuses changes of a pod that its node has not declared to be able to carry out.
// Touch it when something else than pods depends on what nodes declare. See KEP-5328; the features are those of
// k8s.io/component-helpers.
package nodedeclaredfeaturevalidator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	versionutil "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "NodeDeclaredFeatureValidator"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	nodes   corelisters.NodeLister
	version *versionutil.Version
}

var (
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Update)}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	nodes := f.Core().V1().Nodes()
	p.nodes = nodes.Lister()
	p.SetReadyFunc(nodes.Informer().HasSynced)
}

// InspectEffectiveVersion implements initializer.WantsEffectiveVersion.
func (p *Plugin) InspectEffectiveVersion(v compatibility.EffectiveVersion) {
	p.version = v.BinaryVersion()
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.nodes == nil || p.version == nil {
		return errors.New(Name + " requires a node lister and the version of the server")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" && a.GetSubresource() != "resize" {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	old, err := object.Old[*corev1.Pod](a)
	if err != nil {
		return err
	}
	// The generation counts changes of the spec.
	if pod.Spec.NodeName == "" || pod.Generation == old.Generation {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	if err := p.check(pod, old); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

func (p *Plugin) check(pod, old *corev1.Pod) error {
	features := nodedeclaredfeatures.DefaultFramework
	needed, err := features.InferForPodUpdate(
		&nodedeclaredfeatures.PodInfo{Spec: &old.Spec, Status: &old.Status}, &nodedeclaredfeatures.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, p.version)
	if err != nil {
		return fmt.Errorf("failed to infer pod capability requirements: %w", err)
	}
	if needed.IsEmpty() {
		return nil
	}
	node, err := p.nodes.Get(pod.Spec.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("node %q not found", pod.Spec.NodeName)
	case err != nil:
		return fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err)
	}
	match, err := features.MatchNode(needed, node)
	switch {
	case err != nil:
		return fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err)
	case !match.IsMatch:
		return fmt.Errorf("pod update requires features %s which are not available on node %q", strings.Join(match.UnsatisfiedRequirements, ", "), node.Name)
	}
	return nil
}
