// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtimeclass gives pods what their RuntimeClass says: its overhead, and where it can run. A pod whose class does
// not exist is refused. Touch it when pods take more from their class.
package runtimeclass

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	nodeclient "k8s.io/client-go/kubernetes/typed/node/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"

	"minik8s.io/minik8s/pkg/apis/core/toleration"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "RuntimeClass"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	lister nodelisters.RuntimeClassLister
	client nodeclient.RuntimeClassInterface
}

var (
	_ admission.MutationInterface                  = (*Plugin)(nil)
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
	_ initializer.WantsExternalKubeClientSet       = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface { return &Plugin{Handler: admission.NewHandler(admission.Create)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	classes := f.Node().V1().RuntimeClasses()
	p.lister = classes.Lister()
	p.SetReadyFunc(classes.Informer().HasSynced)
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(client kubernetes.Interface) {
	p.client = client.NodeV1().RuntimeClasses()
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.lister == nil || p.client == nil {
		return errors.New(Name + " requires a lister and a client")
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.find(ctx, a)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if len(pod.Spec.Overhead) > 0 && !sameOverhead(pod, class) {
			return mismatch(a)
		}
		pod.Spec.Overhead = class.Overhead.DeepCopy().PodFixed
	}
	if class.Scheduling != nil {
		return schedule(a, &pod.Spec, class.Scheduling.DeepCopy())
	}
	return nil
}

// Validate implements admission.ValidationInterface: later plugins may have changed what Admit did.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.find(ctx, a)
	switch {
	case err != nil || pod == nil:
		return err
	case class != nil && class.Overhead != nil:
		if !sameOverhead(pod, class) {
			return mismatch(a)
		}
	case pod.Spec.Overhead != nil:
		return admission.NewForbidden(a, errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}

func sameOverhead(pod *corev1.Pod, class *nodev1.RuntimeClass) bool {
	return apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead)
}

func mismatch(a admission.Attributes) error {
	return admission.NewForbidden(a, errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
}

// find returns the pod of the request, nil if it is about something else, and the pod's class, nil if it names none.
func (p *Plugin) find(ctx context.Context, a admission.Attributes) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil, nil, nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil || pod.Spec.RuntimeClassName == nil {
		return pod, nil, err
	}
	name := *pod.Spec.RuntimeClassName
	class, err := p.lister.Get(name)
	if apierrors.IsNotFound(err) { // the cache may be behind
		class, err = p.client.Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, nil, admission.NewForbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", name))
	}
	return pod, class, err
}

// schedule narrows the nodes of a pod to those of its class.
func schedule(a admission.Attributes, spec *corev1.PodSpec, s *nodev1.Scheduling) error {
	for key, value := range s.NodeSelector {
		if own, ok := spec.NodeSelector[key]; ok && own != value {
			return admission.NewForbidden(a, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own))
		}
	}
	if spec.NodeSelector == nil {
		spec.NodeSelector = s.NodeSelector
	} else {
		maps.Copy(spec.NodeSelector, s.NodeSelector)
	}
	spec.Tolerations = toleration.Merge(spec.Tolerations, s.Tolerations)
	return nil
}
