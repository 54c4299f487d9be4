// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/addons/addon"
	"minik8s.io/minik8s/pkg/addons/definitions"
)

const (
	// Label is on all that enabling an add-on makes; its value is the add-on's name.
	Label = "minik8s.io/addon"
	// disabled is the value of Label on the definitions of an add-on that is being disabled: it runs until they are gone.
	disabled = "disabled"
	// fieldManager makes these objects.
	fieldManager = "minik8s-addons"
	// look is how often it is looked whether something has come about.
	look = 50 * time.Millisecond
)

var definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// User is the identity of an add-on in the process of a cluster.
func User(a addon.Addon) string { return "system:minik8s:addon:" + a.Name }

// roleOf names the role and the binding of an add-on.
func roleOf(a addon.Addon) string { return User(a) }

// leaseOf is held by the process that runs an add-on.
func leaseOf(a addon.Addon) types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "minik8s-addon-" + a.Name}
}

// Installer enables and disables add-ons in a cluster. It needs the rights of a cluster's administrator.
type Installer struct {
	client client.Client
}

// NewInstaller returns an Installer.
func NewInstaller(config *rest.Config) (*Installer, error) {
	scheme, err := installerScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(plain(config), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Installer{client: c}, nil
}

// installerScheme knows what an add-on has in a cluster.
func installerScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// Objects are what an add-on has in a cluster while it is enabled, in the order in which they are made: rights before the
// definitions, as it runs from when those are there. Subject is who runs it.
func Objects(a addon.Addon, subject rbacv1.Subject) ([]client.Object, error) {
	labels := map[string]string{Label: a.Name}
	lease := leaseOf(a)
	meta := metav1.ObjectMeta{Name: roleOf(a), Labels: labels}
	namespaced := metav1.ObjectMeta{Namespace: lease.Namespace, Name: roleOf(a), Labels: labels}
	cluster := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: append([]rbacv1.PolicyRule{
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}, a.Rules...)}
	lead := &rbacv1.Role{ObjectMeta: namespaced, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{lease.Name}, Verbs: []string{"get", "update", "patch"}},
	}}
	subjects := []rbacv1.Subject{subject}
	all := []client.Object{
		cluster, lead,
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cluster.Name}},
		&rbacv1.RoleBinding{ObjectMeta: namespaced, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: lead.Name}},
	}
	for _, granted := range a.Granted {
		granted.Labels = labels
		all = append(all, &granted)
	}
	for _, name := range a.Definitions {
		definition, err := definitions.Get(name)
		if err != nil {
			return nil, err
		}
		definition.Labels = labels
		all = append(all, definition)
	}
	return all, nil
}

// Enable makes what an add-on has in a cluster, and waits until its kinds are served and it runs. What is there already is made
// to be as it is to be.
func (i *Installer) Enable(ctx context.Context, a addon.Addon) error {
	since := time.Now()
	if err := i.make(ctx, a); err != nil {
		return err
	}
	waits := "its kinds are not served"
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		for _, name := range a.Definitions {
			if ok, err := i.established(ctx, name); err != nil || !ok {
				return false, err
			}
		}
		waits = "no process runs it: it runs in the process of a cluster that is up"
		return i.runs(ctx, a, since)
	})
	if err != nil {
		return fmt.Errorf("add-on %q: %s: %w", a.Name, waits, errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// make makes what an add-on has in a cluster where it runs in the cluster's process.
func (i *Installer) make(ctx context.Context, a addon.Addon) error {
	objects, err := Objects(a, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User(a)})
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := i.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Renew gives an add-on that is enabled what this version has of it: an older one may have enabled it, with fewer kinds and rights. One that
// is not enabled, or is being disabled, it leaves alone.
func (i *Installer) Renew(ctx context.Context, a addon.Addon) error {
	enabled := false
	for _, name := range a.Definitions {
		d, err := i.definition(ctx, name)
		if err != nil || d != nil && d.DeletionTimestamp != nil {
			return err
		}
		enabled = enabled || d != nil && d.Labels[Label] == a.Name
	}
	if !enabled {
		return nil
	}
	return i.make(ctx, a)
}

// definition is what the cluster has of one, nil if there is none.
func (i *Installer) definition(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	d := &metav1.PartialObjectMetadata{}
	d.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := i.client.Get(ctx, types.NamespacedName{Name: name}, d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return d, err
}

// apply makes an object, or gives it the fields that it is to have.
func (i *Installer) apply(ctx context.Context, o client.Object) error {
	gvk, err := i.client.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(u.Object, "status")
	if err := i.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("making %s %q: %w", strings.ToLower(gvk.Kind), o.GetName(), err)
	}
	return nil
}

func (i *Installer) established(ctx context.Context, name string) (bool, error) {
	var d apiextensionsv1.CustomResourceDefinition
	if err := i.client.Get(ctx, types.NamespacedName{Name: name}, &d); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue, nil
		}
	}
	return false, nil
}

// runs tells whether a process leads an add-on, which it says for so long as its lease.
func (i *Installer) runs(ctx context.Context, a addon.Addon, since time.Time) (bool, error) {
	var lease coordinationv1.Lease
	if err := i.client.Get(ctx, leaseOf(a), &lease); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		return false, nil
	}
	return s.RenewTime.Add(leaseDuration).After(since), nil
}

// Enabled tells whether the kinds of an add-on are defined in a cluster.
func (i *Installer) Enabled(ctx context.Context, a addon.Addon) (bool, error) {
	for _, name := range a.Definitions {
		if d, err := i.definition(ctx, name); err != nil || d == nil {
			return false, err
		}
	}
	return true, nil
}

// Disable deletes the kinds of an add-on with all objects of them, waits until these are gone, and deletes the rest of what Enable
// has made. The add-on runs until its kinds are gone: it is what ends its objects.
func (i *Installer) Disable(ctx context.Context, a addon.Addon) error {
	objects, err := Objects(a, rbacv1.Subject{})
	if err != nil {
		return err
	}
	lease := leaseOf(a)
	objects = append(objects, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name}})
	if err := i.mark(ctx, a); err != nil {
		return err
	}
	for _, first := range []bool{true, false} {
		for _, o := range objects {
			if _, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok != first {
				continue
			}
			if err := i.client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting %T %q: %w", o, o.GetName(), err)
			}
		}
		if !first {
			break
		}
		if err := i.awaitGone(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// mark says of all definitions of an add-on that they are to go, before the first does: if this is where Disable ends, what is left is not
// taken for an add-on that lacks a kind.
func (i *Installer) mark(ctx context.Context, a addon.Addon) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, Label, disabled))
	for _, name := range a.Definitions {
		d, err := i.definition(ctx, name)
		if err == nil && d != nil {
			err = i.client.Patch(ctx, d, patch)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("marking the definition %q: %w", name, err)
		}
	}
	return nil
}

// awaitGone waits until the kinds of an add-on are gone, which is when their last object is.
func (i *Installer) awaitGone(ctx context.Context, a addon.Addon) error {
	waits := ""
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		for _, name := range a.Definitions {
			var d apiextensionsv1.CustomResourceDefinition
			err := i.client.Get(ctx, types.NamespacedName{Name: name}, &d)
			if apierrors.IsNotFound(err) {
				continue
			}
			waits = name
			return false, err
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("add-on %q: %s is not gone, see what is left with: kubectl get %s -A: %w", a.Name, waits, waits, errors.Join(context.Cause(ctx), err))
	}
	return nil
}
