// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package priorityclass serves PriorityClasses: names for how important pods are. The two system classes cannot be
// changed into something else or deleted, and at most one class is the default. Touch it when these rules change.
package priorityclass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
)

// HighestUserDefinable is the largest value of a class that is not one of the system's.
const HighestUserDefinable = 1_000_000_000

// System returns the classes that exist in every cluster.
func System() []*schedulingv1.PriorityClass {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, Description: description}
		setDefaults(c)
		return c
	}
	return []*schedulingv1.PriorityClass{
		class("system-node-critical", 2*HighestUserDefinable+1000,
			"Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", 2*HighestUserDefinable,
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}

// Resource describes priorityclasses.
var Resource registry.Descriptor = descriptor{stored}

// descriptor is the stored resource with a delete of its own.
type descriptor struct {
	*registry.Resource[*schedulingv1.PriorityClass]
}

// Storage implements registry.Descriptor.
func (d descriptor) Storage(c registry.Config) (map[string]rest.Storage, error) {
	all, err := d.Resource.Storage(c)
	if err != nil {
		return nil, err
	}
	all[d.Name] = &REST{all[d.Name].(*registry.Store[*schedulingv1.PriorityClass])}
	return all, nil
}

// REST is the storage of priorityclasses.
type REST struct {
	*registry.Store[*schedulingv1.PriorityClass]
}

// Delete implements rest.GracefulDeleter. It refuses system classes.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if slices.ContainsFunc(System(), func(c *schedulingv1.PriorityClass) bool { return c.Name == name }) {
		return nil, false, apierrors.NewForbidden(stored.GroupResource(), name, errors.New("this is a system priority class and cannot be deleted"))
	}
	return r.Store.Delete(ctx, name, validate, options)
}

var stored = &registry.Resource[*schedulingv1.PriorityClass]{
	Kind:           schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
	Name:           "priorityclasses",
	ShortNames:     []string{"pc"},
	ClusterScoped:  true,
	New:            func() *schedulingv1.PriorityClass { return &schedulingv1.PriorityClass{} },
	NewList:        func() runtime.Object { return &schedulingv1.PriorityClassList{} },
	Default:        setDefaults,
	Spec:           func(c *schedulingv1.PriorityClass) any { return c.Value },
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Value", "integer", schedulingv1.PriorityClass{}.SwaggerDoc()["value"]),
		registry.Column("Global-Default", "boolean", schedulingv1.PriorityClass{}.SwaggerDoc()["globalDefault"]),
		registry.AgeColumn,
		registry.Column("PreemptionPolicy", "string", schedulingv1.PriorityClass{}.SwaggerDoc()["preemptionPolicy"]),
	},
	Row: func(c *schedulingv1.PriorityClass) []any {
		return []any{c.Name, int64(c.Value), c.GlobalDefault, registry.Age(c.CreationTimestamp), string(ptr.Deref(c.PreemptionPolicy, ""))}
	},
	Configure: func(s *registry.Store[*schedulingv1.PriorityClass], _ registry.Config) error {
		s.BeginCreate = func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
			return checkDefault(ctx, s, obj.(*schedulingv1.PriorityClass))
		}
		s.BeginUpdate = func(ctx context.Context, obj, _ runtime.Object, _ *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
			return checkDefault(ctx, s, obj.(*schedulingv1.PriorityClass))
		}
		return nil
	},
}

func setDefaults(c *schedulingv1.PriorityClass) {
	if c.PreemptionPolicy == nil {
		c.PreemptionPolicy = new(corev1.PreemptLowerPriority)
	}
}

// checkDefault refuses a second default class. Two at the same instant may still both pass, as upstream's admission
// plugin lets them; the lowest then counts.
func checkDefault(ctx context.Context, s *registry.Store[*schedulingv1.PriorityClass], c *schedulingv1.PriorityClass) (genericregistry.FinishFunc, error) {
	done := func(context.Context, bool) {}
	if !c.GlobalDefault {
		return done, nil
	}
	list, err := s.List(ctx, &internalversion.ListOptions{ResourceVersion: ""})
	if err != nil {
		return nil, err
	}
	for _, other := range list.(*schedulingv1.PriorityClassList).Items {
		if other.GlobalDefault && other.Name != c.Name {
			return nil, apierrors.NewForbidden(s.DefaultQualifiedResource, c.Name,
				fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", other.Name))
		}
	}
	return done, nil
}

func validate(_ context.Context, c *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(c.Name, "system-") {
		if err := knownSystem(c); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else if c.Value > HighestUserDefinable {
		errs = append(errs, field.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %v", HighestUserDefinable)))
	}
	policies := []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}
	switch path := field.NewPath("preemptionPolicy"); {
	case c.PreemptionPolicy == nil:
	case *c.PreemptionPolicy == "":
		errs = append(errs, field.Required(path, ""))
	case !slices.Contains(policies, *c.PreemptionPolicy):
		errs = append(errs, field.NotSupported(path, *c.PreemptionPolicy, policies))
	}
	return errs
}

func knownSystem(c *schedulingv1.PriorityClass) error {
	for _, s := range System() {
		switch {
		case s.Name != c.Name:
		case s.Value != c.Value:
			return fmt.Errorf("value of %v PriorityClass must be %v", s.Name, s.Value)
		case s.GlobalDefault != c.GlobalDefault:
			return fmt.Errorf("globalDefault of %v PriorityClass must be %v", s.Name, s.GlobalDefault)
		default:
			return nil
		}
	}
	return fmt.Errorf("%v is not a known system priority class", c.Name)
}

func validateUpdate(_ context.Context, c, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if c.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, apivalidation.ValidateImmutableField(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
