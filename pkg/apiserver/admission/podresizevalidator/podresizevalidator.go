// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podresizevalidator refuses to resize a pod to more than its node could ever give it. Touch it when nodes learn to
// resize more. See https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/ (KEP-1287).
package podresizevalidator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "PodResizeValidator"

// What the cause of a refusal says.
const (
	nodeCapacity        metav1.CauseType = "NodeCapacity"
	unsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	nodes corelisters.NodeLister
}

var (
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface { return &Plugin{Handler: admission.NewHandler(admission.Update)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	nodes := f.Core().V1().Nodes()
	p.nodes = nodes.Lister()
	p.SetReadyFunc(nodes.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.nodes == nil {
		return errors.New("missing node lister for " + Name)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "resize" {
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
	node, err := p.nodes.Get(pod.Spec.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		return admission.NewForbidden(a, fmt.Errorf("node %q not found", pod.Spec.NodeName))
	case err != nil:
		return admission.NewForbidden(a, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err))
	}
	if system, known := node.Labels[corev1.LabelOSStable]; known && system != "linux" {
		return refused(a, unsupportedPlatform, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, system))
	}
	if lacking := lacks(pod, node.Status.Allocatable); len(lacking) > 0 {
		return refused(a, nodeCapacity, fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(lacking, "; ")))
	}
	return nil
}

// lacks tells of what a pod requests more than there is, even if no other pod were there.
func lacks(pod *corev1.Pod, allocatable corev1.ResourceList) []string {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	var lacking []string
	if wanted, have := requests.Cpu(), allocatable.Cpu(); wanted.Cmp(*have) > 0 {
		lacking = append(lacking, fmt.Sprintf("cpu, requested: %d, allocatable: %d", wanted.MilliValue(), have.MilliValue()))
	}
	if wanted, have := requests.Memory(), allocatable.Memory(); wanted.Cmp(*have) > 0 {
		lacking = append(lacking, fmt.Sprintf("memory, requested: %d, allocatable: %d", wanted.Value(), have.Value()))
	}
	return lacking
}

func refused(a admission.Attributes, cause metav1.CauseType, why error) error {
	err := admission.NewForbidden(a, why)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return err
}
