// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry"
)

// BindingREST is the binding subresource, by which a scheduler gives a pod a node, once.
type BindingREST struct{ pods *genericregistry.Store }

var (
	_ rest.NamedCreater                   = (*BindingREST)(nil)
	_ rest.SubresourceObjectMetaPreserver = (*BindingREST)(nil)
)

// New implements rest.Storage.
func (r *BindingREST) New() runtime.Object { return &corev1.Binding{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *BindingREST) Destroy() {}

// NamespaceScoped tells that bindings live in namespaces.
func (r *BindingREST) NamespaceScoped() bool { return true }

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate implements rest.SubresourceObjectMetaPreserver: the UID and
// revision of a binding are preconditions.
func (r *BindingREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create implements rest.NamedCreater.
func (r *BindingREST) Create(ctx context.Context, name string, obj runtime.Object, admit rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	b, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
	}
	if name != b.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(b); len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Binding").GroupKind(), b.Name, errs)
	}
	if admit != nil {
		if err := admit(ctx, b.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if err := r.bind(ctx, b, dryrun.IsDryRun(options.DryRun)); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

func validateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	if k := b.Target.Kind; k != "" && k != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), k, []string{"Node", "<empty>"}))
	}
	name := field.NewPath("target", "name")
	switch {
	case b.Target.Name == "":
		errs = append(errs, field.Required(name, ""))
	case len(errs) == 0:
		for _, msg := range apivalidation.NameIsDNSSubdomain(b.Target.Name, false) {
			errs = append(errs, field.Invalid(name, b.Target.Name, msg))
		}
	}
	return errs
}

func (r *BindingREST) bind(ctx context.Context, b *corev1.Binding, dry bool) error {
	key, err := r.pods.KeyFunc(ctx, b.Name)
	if err != nil {
		return err
	}
	preconditions := &storage.Preconditions{}
	if b.UID != "" {
		preconditions.UID = &b.UID
	}
	if b.ResourceVersion != "" {
		preconditions.ResourceVersion = &b.ResourceVersion
	}
	err = r.pods.Storage.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, preconditions, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("unexpected object: %#v", obj)
		}
		return p, assign(p, b)
	}), dry, nil)
	if err == nil {
		return nil
	}
	err = storeerr.InterpretGetError(err, Resource.GroupResource(), b.Name)
	err = storeerr.InterpretUpdateError(err, Resource.GroupResource(), b.Name)
	if _, ok := err.(apierrors.APIStatus); ok {
		return err
	}
	return apierrors.NewConflict(corev1.Resource("pods/binding"), b.Name, err)
}

// assign puts a pod on the node that b names.
func assign(p *corev1.Pod, b *corev1.Binding) error {
	switch {
	case p.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", p.Name)
	case p.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", p.Name, p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", p.Name)
	}
	p.Spec.NodeName = b.Target.Name
	if len(b.Annotations) > 0 {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		maps.Copy(p.Annotations, b.Annotations)
		podtemplate.DropAnnotations(p.Annotations)
	}
	// Labels come from the node (KEP-4742), whatever the pod says of itself: it cannot know where it will be.
	if len(b.Labels) > 0 {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		maps.Copy(p.Labels, b.Labels)
	}
	setCondition(&p.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	p.Status.NominatedNodeName = ""
	return nil
}

// Binding is the old way to bind: posting to bindings instead of to the pod.
var Binding = registry.Virtual{
	Kind:       corev1.SchemeGroupVersion.WithKind("Binding"),
	Name:       "bindings",
	Namespaced: true,
	Build: func(c registry.Config) (rest.Storage, error) {
		return &bindings{stores: c.Stores}, nil
	},
}

type bindings struct{ stores *registry.Stores }

var (
	_ rest.Creater              = (*bindings)(nil)
	_ rest.Scoper               = (*bindings)(nil)
	_ rest.SingularNameProvider = (*bindings)(nil)
)

func (r *bindings) New() runtime.Object     { return &corev1.Binding{} }
func (r *bindings) Destroy()                {}
func (r *bindings) NamespaceScoped() bool   { return true }
func (r *bindings) GetSingularName() string { return "binding" }

func (r *bindings) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	b, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
	}
	pods, err := r.stores.Get(Resource.GroupResource())
	if err != nil {
		return nil, err
	}
	return (&BindingREST{pods: pods}).Create(ctx, b.Name, obj, admit, options)
}
