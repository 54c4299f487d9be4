// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package addons tests that add-ons come and go: each of the list, with a real API server and the rights that it has then.
package addons

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/addons"
	"minik8s.io/minik8s/pkg/addons/addon"
	"minik8s.io/minik8s/pkg/addons/definitions"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/test/integration/framework"
)

var cluster *framework.Cluster

func TestMain(m *testing.M) {
	os.Exit(framework.Main(m, framework.Options{}, func(c *framework.Cluster) error { cluster = c; return nil }))
}

// patience is how long something of an add-on may take here.
const patience = time.Minute

// run runs add-ons as the process of a cluster does, until stop is called.
func run(t *testing.T, all []addon.Addon) (stop func()) {
	t.Helper()
	r, err := addons.NewRunner(addons.Config{
		Watch: cluster.User(policy.AddonsUser), Identity: "test", Addons: all, Renew: newInstaller(t).Renew,
		ClientFor: func(a addon.Addon) (*rest.Config, error) { return cluster.User(addons.User(a)), nil },
		Machine:   addon.Machine{Cluster: "integration", Address: netip.MustParseAddr("127.0.0.1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	var once atomic.Bool
	stop = func() {
		if !once.CompareAndSwap(false, true) {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func newInstaller(t *testing.T) *addons.Installer {
	t.Helper()
	i, err := addons.NewInstaller(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// ofTwoKinds is an add-on that has more than one kind.
func ofTwoKinds() addon.Addon {
	all := addons.List()
	return all[slices.IndexFunc(all, func(a addon.Addon) bool { return len(a.Definitions) > 1 })]
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cluster.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// left names what there is of an add-on.
func left(t *testing.T, a addon.Addon) []string {
	t.Helper()
	c := newClient(t)
	var found []string
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&apiextensionsv1.CustomResourceDefinitionList{}, &coordinationv1.LeaseList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{},
	} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			m := o.(client.Object)
			if m.GetLabels()[addons.Label] == a.Name || strings.Contains(m.GetName(), "addon:"+a.Name) || m.GetName() == "minik8s-addon-"+a.Name {
				found = append(found, fmt.Sprintf("%T %s", o, m.GetName()))
			}
		}
	}
	return found
}

// Every add-on can be enabled, twice, disabled, and enabled again; nothing of it stays.
func TestAddons(t *testing.T) {
	run(t, nil)
	i := newInstaller(t)
	for _, a := range addons.List() {
		t.Run(a.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for range 2 {
				for range 2 {
					if err := i.Enable(ctx, a); err != nil {
						t.Fatal(err)
					}
				}
				if enabled, err := i.Enabled(ctx, a); err != nil || !enabled {
					t.Errorf("enabled: %t, %v", enabled, err)
				}
				if err := i.Disable(ctx, a); err != nil {
					t.Fatal(err)
				}
				if enabled, err := i.Enabled(ctx, a); err != nil || enabled {
					t.Errorf("enabled after it was disabled: %t, %v", enabled, err)
				}
				if found := left(t, a); len(found) > 0 {
					t.Errorf("left: %q", found)
				}
			}
			if err := i.Disable(ctx, a); err != nil {
				t.Errorf("disabling what is not enabled: %v", err)
			}
		})
	}
}

// What runs an add-on elsewhere can be made there, and is what enabling makes besides its Deployment.
func TestManifest(t *testing.T) {
	c := newClient(t)
	for _, a := range addons.List() {
		objects, err := addons.Manifest(a, "example.com/minik8s:1")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := addons.WriteManifest(&text, objects); err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(text.String(), "---\n")[1:]
		if len(documents) != len(objects) {
			t.Fatalf("%s: %d documents of %d objects", a.Name, len(documents), len(objects))
		}
		for _, document := range documents {
			o := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
				t.Fatal(err)
			}
			if o.GetKind() == "Namespace" {
				continue
			}
			o.SetNamespace(strings.ReplaceAll(o.GetNamespace(), addons.Namespace, "default"))
			if err := c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Errorf("%s: %s %s: %v", a.Name, o.GetKind(), o.GetName(), err)
			}
		}
	}
}

// Kinds of an add-on look like those of Kubernetes: kubectl explains each field, lists columns, knows the status from the spec, and
// "kubectl get minik8s" has them all.
func TestDefinitions(t *testing.T) {
	for _, a := range addons.List() {
		for _, name := range a.Definitions {
			d, err := definitions.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Spec.Names.Categories) != 1 || d.Spec.Names.Categories[0] != "minik8s" {
				t.Errorf("%s: categories %q", name, d.Spec.Names.Categories)
			}
			for _, v := range d.Spec.Versions {
				if v.Subresources == nil || v.Subresources.Status == nil || len(v.AdditionalPrinterColumns) == 0 {
					t.Errorf("%s: no status or no columns", name)
				}
				undocumented(t, name, *v.Schema.OpenAPIV3Schema)
			}
		}
	}
}

func undocumented(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for name, p := range s.Properties {
		if p.Description == "" && name != "metadata" {
			t.Errorf("%s.%s: no description", path, name)
		}
		undocumented(t, path+"."+name, p)
	}
	if s.Items != nil && s.Items.Schema != nil {
		undocumented(t, path+"[]", *s.Items.Schema)
	}
}

// An add-on that fails is tried again, and one that was enabled before its process began runs.
func TestRunner(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var tried, ran atomic.Int32
	a := addons.List()[0]
	a.Setup = func(_ context.Context, env addon.Env) error {
		if tried.Add(1) < 3 {
			return errors.New("not yet")
		}
		return env.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
			ran.Add(1)
			<-ctx.Done()
			return nil
		}))
	}
	i := newInstaller(t)
	stop := run(t, []addon.Addon{a})
	if err := i.Enable(ctx, a); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the add-on", func() error { return want(&ran, 1) })
	stop()
	run(t, []addon.Addon{a})
	framework.Eventually(t, "the add-on of the next process", func() error { return want(&ran, 2) })
	if err := i.Disable(ctx, a); err != nil {
		t.Fatal(err)
	}
}

// An add-on that an older version has enabled, without one of its kinds and with fewer rights, gets both from the process that begins; one
// that is not enabled gets nothing.
func TestRenew(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	two := ofTwoKinds()
	i, c := newInstaller(t), newClient(t)
	stop := run(t, []addon.Addon{two})
	if err := i.Enable(ctx, two); err != nil {
		t.Fatal(err)
	}
	stop()
	role := &rbacv1.ClusterRole{}
	role.Name = "system:minik8s:addon:" + two.Name
	if err := c.Get(ctx, client.ObjectKeyFromObject(role), role); err != nil {
		t.Fatal(err)
	}
	rules := len(role.Rules)
	role.Rules = role.Rules[:1]
	if err := c.Update(ctx, role); err != nil {
		t.Fatal(err)
	}
	lost := &apiextensionsv1.CustomResourceDefinition{}
	lost.Name = two.Definitions[1]
	if err := c.Delete(ctx, lost); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the definition gone", func() error {
		if enabled, err := i.Enabled(ctx, two); err != nil || enabled {
			return fmt.Errorf("enabled: %t, %w", enabled, err)
		}
		return nil
	})
	var ran atomic.Int32
	setup := two.Setup
	two.Setup = func(ctx context.Context, env addon.Env) error {
		ran.Add(1)
		return setup(ctx, env)
	}
	stop = run(t, append(slices.DeleteFunc(addons.List(), func(a addon.Addon) bool { return a.Name == two.Name }), two))
	framework.Eventually(t, "the add-on", func() error { return want(&ran, 1) })
	if err := c.Get(ctx, client.ObjectKeyFromObject(role), role); err != nil || len(role.Rules) != rules {
		t.Errorf("it has %d rules, want %d, %v", len(role.Rules), rules, err)
	}
	for _, a := range addons.List() {
		if enabled, err := i.Enabled(ctx, a); err != nil || enabled != (a.Name == two.Name) {
			t.Errorf("%s is enabled: %t, %v", a.Name, enabled, err)
		}
	}
	if err := i.Disable(ctx, two); err != nil {
		t.Fatal(err)
	}
	stop()
}

// broken is a connection that ends when a path is to be deleted.
type broken struct {
	http.RoundTripper
	path string
}

func (b broken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, b.path) {
		return nil, errors.New("broken")
	}
	return b.RoundTripper.RoundTrip(r)
}

// Who is interrupted while an add-on is disabled does it again: what is left of its kinds is not an older version's.
func TestDisable_Interrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	two := ofTwoKinds()
	i, config := newInstaller(t), rest.CopyConfig(cluster.Admin())
	stop := run(t, []addon.Addon{two})
	defer stop()
	if err := i.Enable(ctx, two); err != nil {
		t.Fatal(err)
	}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return broken{rt, "/" + two.Definitions[1]} })
	interrupted, err := addons.NewInstaller(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := interrupted.Disable(ctx, two); err == nil {
		t.Fatal("it was not interrupted")
	}
	framework.Eventually(t, "the first definition gone", func() error {
		if enabled, err := i.Enabled(ctx, two); err != nil || enabled {
			return fmt.Errorf("enabled: %t, %w", enabled, err)
		}
		return nil
	})
	if err := i.Renew(ctx, two); err != nil {
		t.Fatal(err)
	}
	if enabled, err := i.Enabled(ctx, two); err != nil || enabled {
		t.Errorf("enabled again: %t, %v", enabled, err)
	}
	if err := i.Enable(ctx, two); err != nil {
		t.Errorf("who wants it again after all: %v", err)
	}
	if err := i.Disable(ctx, two); err != nil {
		t.Error(err)
	}
}

func want(n *atomic.Int32, want int32) error {
	if got := n.Load(); got != want {
		return fmt.Errorf("it ran %d times, want %d", got, want)
	}
	return nil
}

// Who enables an add-on that no process runs is told so.
func TestEnable_NobodyRuns(t *testing.T) {
	i, a := newInstaller(t), addons.List()[0]
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("the time is over"))
	defer cancel()
	err := i.Enable(ctx, a)
	if err == nil || !strings.Contains(err.Error(), "no process runs it") || !strings.Contains(err.Error(), "the time is over") {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := i.Disable(ctx, a); err != nil {
		t.Fatal(err)
	}
}
