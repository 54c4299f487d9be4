// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package priority turns the priority class of a pod into its priority and preemption policy, that of a PodGroup into its priority,
// and keeps the default class unique. Touch it when pods take more from their class. See
// https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/.
package priority

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "Priority"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	classes schedulinglisters.PriorityClassLister
}

var (
	_ admission.MutationInterface                  = (*Plugin)(nil)
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)

	classResource = schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}
)

// New returns the plugin.
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete)}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	classes := f.Scheduling().V1().PriorityClasses()
	p.classes = classes.Lister()
	p.SetReadyFunc(classes.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.classes == nil {
		return errors.New(Name + " requires a lister") //nolint:staticcheck // it begins with the name of the plugin
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == schedulingv1beta1.Resource("podgroups") && a.GetSubresource() == "" && a.GetOperation() == admission.Create {
		return p.admitGroup(a)
	}
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	switch a.GetOperation() {
	case admission.Create:
		pod, err := object.New[*corev1.Pod](a)
		if err != nil {
			return err
		}
		return p.resolve(a, &pod.Spec)
	case admission.Update:
		pod, err := object.New[*corev1.Pod](a)
		if err != nil {
			return err
		}
		old, err := object.Old[*corev1.Pod](a)
		if err != nil {
			return err
		}
		keep(&pod.Spec, &old.Spec)
	}
	return nil
}

// keep lets an update leave out what was resolved when the pod was made; classes may have changed since.
func keep(spec, old *corev1.PodSpec) {
	if spec.Priority == nil {
		spec.Priority = old.Priority
	}
	if spec.PreemptionPolicy == nil {
		spec.PreemptionPolicy = old.PreemptionPolicy
	}
}

func (p *Plugin) resolve(a admission.Attributes, spec *corev1.PodSpec) error {
	class, err := p.classFor(a, spec.PriorityClassName)
	if err != nil {
		return err
	}
	spec.PriorityClassName = class.Name
	if v := spec.Priority; v != nil && *v != class.Value {
		return admission.NewForbidden(a, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *v, class.Value))
	}
	spec.Priority = &class.Value
	if class.PreemptionPolicy == nil {
		return nil
	}
	if v := spec.PreemptionPolicy; v != nil && *v != *class.PreemptionPolicy {
		return admission.NewForbidden(a, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *v, *class.PreemptionPolicy))
	}
	spec.PreemptionPolicy = class.PreemptionPolicy
	return nil
}

// admitGroup gives a PodGroup the priority of its class. Its preemption policy is that of a gate of its own, which is off.
func (p *Plugin) admitGroup(a admission.Attributes) error {
	if !feature.Enabled(feature.GenericWorkload) {
		return nil
	}
	group, err := object.New[*schedulingv1beta1.PodGroup](a)
	if err != nil {
		return err
	}
	spec := &group.Spec
	class, err := p.classFor(a, spec.PriorityClassName)
	if err != nil {
		return err
	}
	if v := spec.Priority; v != nil && *v != class.Value {
		return admission.NewForbidden(a, fmt.Errorf("priority set in the pod group (%d) must match the priority computed (%d) based on the priority class set in the spec", *v, class.Value))
	}
	spec.PriorityClassName, spec.Priority = class.Name, &class.Value
	return nil
}

// classFor is class, with errors that are the answer to the request.
func (p *Plugin) classFor(a admission.Attributes, name string) (*schedulingv1.PriorityClass, error) {
	if !p.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	class, err := p.class(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, admission.NewForbidden(a, fmt.Errorf("no PriorityClass with name %v was found", name))
	case err != nil:
		return nil, admission.NewForbidden(a, fmt.Errorf("failed to get priority class %q: %w", name, err))
	}
	return class, nil
}

// class returns a copy of the named class, of the default class, or what holds without any.
func (p *Plugin) class(name string) (*schedulingv1.PriorityClass, error) {
	if name != "" {
		class, err := p.classes.Get(name)
		if err != nil {
			return nil, err
		}
		return class.DeepCopy(), nil
	}
	class, err := p.defaultClass()
	if err != nil || class != nil {
		return class.DeepCopy(), err
	}
	policy := corev1.PreemptLowerPriority
	return &schedulingv1.PriorityClass{PreemptionPolicy: &policy}, nil
}

// defaultClass is the one of the lowest value, should two servers have let two in; nil if there is none.
func (p *Plugin) defaultClass() (*schedulingv1.PriorityClass, error) {
	all, err := p.classes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var found *schedulingv1.PriorityClass
	for _, c := range all {
		if c.GlobalDefault && (found == nil || c.Value < found.Value) {
			found = c
		}
	}
	return found, nil
}

// Validate implements admission.ValidationInterface: there is one default class.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != classResource || a.GetSubresource() != "" || a.GetOperation() == admission.Delete {
		return nil
	}
	class, err := object.New[*schedulingv1.PriorityClass](a)
	if err != nil || !class.GlobalDefault {
		return err
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	other, err := p.defaultClass()
	if err != nil {
		return fmt.Errorf("failed to get default priority class: %w", err)
	}
	if other != nil && (a.GetOperation() == admission.Create || other.Name != class.Name) {
		return admission.NewForbidden(a, fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", other.Name))
	}
	return nil
}
