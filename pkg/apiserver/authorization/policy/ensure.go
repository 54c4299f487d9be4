// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
)

// parallel writes: a new cluster gets some 150 objects before it is ready, and etcd makes one disk write of many.
const parallel = 24

// step is one write that is still to be done.
type step func(context.Context) error

// Ensure adds to the cluster what it lacks of a policy: objects, rules, subjects. What the cluster has beyond it stays, as
// do objects annotated with rbac.authorization.kubernetes.io/autoupdate=false. It may be repeated after an error.
func Ensure(ctx context.Context, client kubernetes.Interface, p Policy) error {
	plans := []func(context.Context, kubernetes.Interface, Policy) ([]step, error){planClusterRoles, planClusterRoleBindings, planRoles, planRoleBindings}
	found := make([][]step, len(plans))
	lists, listCtx := errgroup.WithContext(ctx)
	for i, plan := range plans {
		lists.Go(func() (err error) {
			found[i], err = plan(listCtx, client, p)
			return err
		})
	}
	if err := lists.Wait(); err != nil {
		return err
	}
	var writes errgroup.Group // one that is refused, by a webhook of a user's say, is no reason to leave out others
	writes.SetLimit(parallel)
	for _, steps := range found {
		for _, s := range steps {
			writes.Go(func() error { return s(ctx) })
		}
	}
	return writes.Wait()
}

// ruleOwners and bindings answer what exists; nothing is written through them, since reconciliation only computes here.
type ruleOwners struct {
	reconciliation.RuleOwnerModifier
	existing map[types.NamespacedName]reconciliation.RuleOwner
}

func (o ruleOwners) Get(namespace, name string) (reconciliation.RuleOwner, error) {
	if r, ok := o.existing[types.NamespacedName{Namespace: namespace, Name: name}]; ok {
		return r, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
}

type bindings struct {
	reconciliation.RoleBindingModifier
	existing map[types.NamespacedName]reconciliation.RoleBinding
}

func (o bindings) Get(namespace, name string) (reconciliation.RoleBinding, error) {
	if b, ok := o.existing[types.NamespacedName{Namespace: namespace, Name: name}]; ok {
		return b, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("rolebindings"), name)
}

func (o ruleOwners) plan(want reconciliation.RuleOwner) (reconciliation.RuleOwner, reconciliation.ReconcileOperation, error) {
	options := reconciliation.ReconcileRoleOptions{Role: want, Client: o}
	result, err := options.Run()
	if err != nil {
		return nil, "", fmt.Errorf("comparing role %q: %w", want.GetName(), err)
	}
	if result.Protected {
		return nil, reconciliation.ReconcileNone, nil
	}
	return result.Role, result.Operation, nil
}

func (o bindings) plan(want reconciliation.RoleBinding) (reconciliation.RoleBinding, reconciliation.ReconcileOperation, error) {
	options := reconciliation.ReconcileRoleBindingOptions{RoleBinding: want, Client: o}
	result, err := options.Run()
	if err != nil {
		return nil, "", fmt.Errorf("comparing role binding %q: %w", want.GetName(), err)
	}
	if result.Protected {
		return nil, reconciliation.ReconcileNone, nil
	}
	return result.RoleBinding, result.Operation, nil
}

// writer is the part of a typed client that is used here.
type writer[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// todo returns the step for an operation, nil if there is none.
func todo[T metav1.Object](op reconciliation.ReconcileOperation, obj T, w writer[T]) step {
	var do step
	switch op {
	case reconciliation.ReconcileCreate:
		do = func(ctx context.Context) error {
			_, err := w.Create(ctx, obj, metav1.CreateOptions{})
			return err
		}
	case reconciliation.ReconcileUpdate:
		do = func(ctx context.Context) error {
			_, err := w.Update(ctx, obj, metav1.UpdateOptions{})
			return err
		}
	case reconciliation.ReconcileRecreate: // what a binding refers to cannot be changed
		do = func(ctx context.Context) error {
			if err := w.Delete(ctx, obj.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			_, err := w.Create(ctx, obj, metav1.CreateOptions{})
			return err
		}
	default:
		return nil
	}
	return func(ctx context.Context) error {
		if err := do(ctx); err != nil {
			return fmt.Errorf("%s of RBAC object %q: %w", op, obj.GetName(), err)
		}
		return nil
	}
}

func planClusterRoles(ctx context.Context, client kubernetes.Interface, p Policy) ([]step, error) {
	api := client.RbacV1().ClusterRoles()
	have, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing cluster roles: %w", err)
	}
	owners := ruleOwners{existing: map[types.NamespacedName]reconciliation.RuleOwner{}}
	for i := range have.Items {
		owners.existing[types.NamespacedName{Name: have.Items[i].Name}] = reconciliation.ClusterRoleRuleOwner{ClusterRole: &have.Items[i]}
	}
	var steps []step
	var errs []error
	for i := range p.ClusterRoles {
		obj, op, err := owners.plan(reconciliation.ClusterRoleRuleOwner{ClusterRole: &p.ClusterRoles[i]})
		if r, ok := obj.(reconciliation.ClusterRoleRuleOwner); ok {
			steps = add(steps, todo(op, r.ClusterRole, api))
		}
		errs = append(errs, err)
	}
	return steps, errors.Join(errs...)
}

func planClusterRoleBindings(ctx context.Context, client kubernetes.Interface, p Policy) ([]step, error) {
	api := client.RbacV1().ClusterRoleBindings()
	have, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing cluster role bindings: %w", err)
	}
	existing := bindings{existing: map[types.NamespacedName]reconciliation.RoleBinding{}}
	for i := range have.Items {
		existing.existing[types.NamespacedName{Name: have.Items[i].Name}] = reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &have.Items[i]}
	}
	var steps []step
	var errs []error
	for i := range p.ClusterRoleBindings {
		want, err := splitOff(&p.ClusterRoleBindings[i], have.Items)
		errs = append(errs, err)
		obj, op, err := existing.plan(reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: want})
		if b, ok := obj.(reconciliation.ClusterRoleBindingAdapter); ok {
			steps = add(steps, todo(op, b.ClusterRoleBinding, api))
		}
		errs = append(errs, err)
	}
	return steps, errors.Join(errs...)
}

// splitOff returns what is wanted of a binding in a cluster that has others: system:public-info-viewer was once part of
// system:discovery. Where there is only that, it is for the same subjects, so that nobody gets back what was taken from them.
func splitOff(want *rbacv1.ClusterRoleBinding, have []rbacv1.ClusterRoleBinding) (*rbacv1.ClusterRoleBinding, error) {
	named := func(name string) int {
		return slices.IndexFunc(have, func(b rbacv1.ClusterRoleBinding) bool { return b.Name == name })
	}
	from := named("system:discovery")
	if want.Name != "system:public-info-viewer" || named(want.Name) >= 0 || from < 0 {
		return want, nil
	}
	made := want.DeepCopy()
	made.Subjects, made.Labels, made.Annotations = have[from].Subjects, have[from].Labels, have[from].Annotations
	key := types.NamespacedName{Name: want.Name}
	alone := bindings{existing: map[types.NamespacedName]reconciliation.RoleBinding{key: reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: made}}}
	obj, _, err := alone.plan(reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: want})
	if b, ok := obj.(reconciliation.ClusterRoleBindingAdapter); ok {
		return b.ClusterRoleBinding, err
	}
	return made, err // protected
}

func planRoles(ctx context.Context, client kubernetes.Interface, p Policy) ([]step, error) {
	owners := ruleOwners{existing: map[types.NamespacedName]reconciliation.RuleOwner{}}
	namespaces := sets.New[string]()
	for i := range p.Roles {
		namespaces.Insert(p.Roles[i].Namespace)
	}
	for namespace := range namespaces {
		have, err := client.RbacV1().Roles(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing roles in %q: %w", namespace, err)
		}
		for i := range have.Items {
			owners.existing[types.NamespacedName{Namespace: namespace, Name: have.Items[i].Name}] = reconciliation.RoleRuleOwner{Role: &have.Items[i]}
		}
	}
	var steps []step
	var errs []error
	for i := range p.Roles {
		obj, op, err := owners.plan(reconciliation.RoleRuleOwner{Role: &p.Roles[i]})
		if r, ok := obj.(reconciliation.RoleRuleOwner); ok {
			steps = add(steps, todo(op, r.Role, client.RbacV1().Roles(r.Role.Namespace)))
		}
		errs = append(errs, err)
	}
	return steps, errors.Join(errs...)
}

func planRoleBindings(ctx context.Context, client kubernetes.Interface, p Policy) ([]step, error) {
	existing := bindings{existing: map[types.NamespacedName]reconciliation.RoleBinding{}}
	namespaces := sets.New[string]()
	for i := range p.RoleBindings {
		namespaces.Insert(p.RoleBindings[i].Namespace)
	}
	for namespace := range namespaces {
		have, err := client.RbacV1().RoleBindings(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing role bindings in %q: %w", namespace, err)
		}
		for i := range have.Items {
			existing.existing[types.NamespacedName{Namespace: namespace, Name: have.Items[i].Name}] = reconciliation.RoleBindingAdapter{RoleBinding: &have.Items[i]}
		}
	}
	var steps []step
	var errs []error
	for i := range p.RoleBindings {
		obj, op, err := existing.plan(reconciliation.RoleBindingAdapter{RoleBinding: &p.RoleBindings[i]})
		if b, ok := obj.(reconciliation.RoleBindingAdapter); ok {
			steps = add(steps, todo(op, b.RoleBinding, client.RbacV1().RoleBindings(b.RoleBinding.Namespace)))
		}
		errs = append(errs, err)
	}
	return steps, errors.Join(errs...)
}

func add(steps []step, s step) []step {
	if s == nil {
		return steps
	}
	return append(steps, s)
}
