// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package registrytest is the suite that every stored resource passes, on a real API server and etcd; touch it when all
// resources must promise something more.
package registrytest

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Namespace is where namespaced objects are made.
const Namespace = "suite"

// Case is what the suite has to know of a resource.
type Case[T registry.Object] struct {
	// AddToScheme registers the types of the group.
	AddToScheme func(*runtime.Scheme) error
	// Group overrides the group that is served, for resources that need others beside them.
	Group *registry.Group
	// Beside are groups that it needs beside its own; Prepare, if set, runs before the suite.
	Beside  []registry.Group
	Prepare func(t *testing.T, c *rest.Config)
	// Deps are passed to the resource.
	Deps registry.Config
	// Valid returns a new valid object with a name, without namespace.
	Valid func() T
	// Update changes something that may be changed; nil: the resource has no update.
	Update func(T)
	// Invalid objects are refused with 422 and the given field among the causes.
	Invalid []Invalid[T]
	// InvalidUpdates are refused likewise.
	InvalidUpdates []InvalidUpdate[T]
	// StatusUpdate changes the status; required if the resource has one.
	StatusUpdate func(T)
	// Row is the table row of Valid, without the last cell if that is the age.
	Row []any
	// ExtraCells is how many cells of a row have no column.
	ExtraCells int
	// NamePrefix is set if names do not follow from generateName (fixed names).
	NoGenerateName bool
	// LongDelete is set if deletion only marks the object (finalizers, grace).
	LongDelete bool
}

// Invalid is a mutation of the valid object that must be refused.
type Invalid[T registry.Object] struct {
	Name   string
	Mutate func(T)
	// Field is the path that a cause must name.
	Field string
}

// InvalidUpdate is an update that must be refused. From prepares the object before it is created; may be nil.
type InvalidUpdate[T registry.Object] struct {
	Name         string
	From, Mutate func(T)
	Field        string
}

// suite is one run.
type suite[T registry.Object] struct {
	c      Case[T]
	r      *registry.Resource[T]
	client dynamic.ResourceInterface
	config *rest.Config
}

// Run runs the suite on one resource.
func Run[T registry.Object](t *testing.T, r *registry.Resource[T], c Case[T]) {
	t.Helper()
	group := registry.Group{
		Name:        r.Kind.Group,
		AddToScheme: c.AddToScheme,
		Versions:    []registry.Version{{Name: r.Kind.Version, Resources: []registry.Descriptor{r}}},
	}
	if c.Group != nil {
		group = *c.Group
	}
	config := Serve(t, c.Deps, append(c.Beside, group)...)
	if c.Prepare != nil {
		c.Prepare(t, config)
	}
	dyn, err := dynamic.NewForConfig(rest.CopyConfig(jsonConfig(config)))
	if err != nil {
		t.Fatal(err)
	}
	gvr := r.Kind.GroupVersion().WithResource(r.Name)
	s := &suite[T]{c: c, r: r, config: config, client: dyn.Resource(gvr).Namespace(Namespace)}
	if r.ClusterScoped {
		s.client = dyn.Resource(gvr)
	}
	t.Run("defaulting is idempotent", s.defaulting)
	t.Run("lifecycle", s.lifecycle)
	t.Run("watch", s.watch)
	t.Run("dry run", s.dryRun)
	t.Run("apply", s.apply)
	t.Run("patch", s.patch)
	t.Run("conflict", s.conflict)
	t.Run("finalizers", s.finalizers)
	t.Run("generateName", s.generateName)
	t.Run("table", s.table)
	t.Run("field selector", s.fieldSelector)
	t.Run("status", s.status)
	t.Run("invalid", s.invalid)
	t.Run("invalid update", s.invalidUpdate)
	t.Run("unknown field", s.unknownField)
}

func jsonConfig(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType = runtime.ContentTypeJSON
	return c
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return c
}

// object returns the valid object under a name of its own, so that subtests do not meet.
func (s *suite[T]) object(t *testing.T, mutate ...func(T)) *unstructured.Unstructured {
	t.Helper()
	obj := s.c.Valid()
	for _, m := range mutate {
		if m != nil {
			m(obj)
		}
	}
	return s.unstructured(t, obj)
}

func (s *suite[T]) unstructured(t *testing.T, obj T) *unstructured.Unstructured {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: m}
	u.SetGroupVersionKind(s.r.Kind)
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u
}

func (s *suite[T]) typed(t *testing.T, u *unstructured.Unstructured) T {
	t.Helper()
	obj := s.r.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func (s *suite[T]) create(t *testing.T, mutate ...func(T)) *unstructured.Unstructured {
	t.Helper()
	made, err := s.client.Create(ctx(t), s.object(t, mutate...), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	t.Cleanup(func() { s.remove(t, made.GetName()) })
	return made
}

// remove deletes an object whatever state it is in, so that the next subtest can use the name.
func (s *suite[T]) remove(t *testing.T, name string) {
	t.Helper()
	c, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	zero := int64(0)
	err := s.client.Delete(c, name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		t.Errorf("clean-up: delete: %v", err)
		return
	}
	if _, err := s.client.Get(c, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return
	}
	_, err = s.client.Patch(c, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("clean-up: removing finalizers: %v", err)
	}
	if !s.c.LongDelete {
		if _, err := s.client.Get(c, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("clean-up: object is still there: %v", err)
		}
		return
	}
	if s.r.Kind.Kind == "Namespace" {
		_, err = s.client.Patch(c, name, types.MergePatchType, []byte(`{"spec":{"finalizers":[]}}`), metav1.PatchOptions{}, "finalize")
		if err != nil && !apierrors.IsNotFound(err) {
			ns, gerr := s.client.Get(c, name, metav1.GetOptions{})
			if gerr == nil {
				_ = unstructured.SetNestedStringSlice(ns.Object, nil, "spec", "finalizers")
				_, err = s.client.Update(c, ns, metav1.UpdateOptions{}, "finalize")
				if err != nil && !apierrors.IsNotFound(err) {
					t.Errorf("clean-up: finalize: %v", err)
				}
			}
		}
	}
}

func (s *suite[T]) defaulting(t *testing.T) {
	if s.r.Default == nil {
		return
	}
	once := s.c.Valid()
	s.r.Default(once)
	twice := once.DeepCopyObject().(T)
	s.r.Default(twice)
	if diff := cmp.Diff(once, twice); diff != "" {
		t.Errorf("defaulting twice changes more than once (-once +twice):\n%s", diff)
	}
}

func (s *suite[T]) lifecycle(t *testing.T) {
	made := s.create(t)
	if made.GetUID() == "" || made.GetCreationTimestamp().Time.IsZero() || made.GetResourceVersion() == "" {
		t.Errorf("system fields are missing: %v", made.Object["metadata"])
	}
	_, err := s.client.Create(ctx(t), s.object(t), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create = %v, want AlreadyExists", err)
	}
	got, err := s.client.Get(ctx(t), made.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if diff := cmp.Diff(made.Object, got.Object); diff != "" {
		t.Errorf("get differs from create (-create +get):\n%s", diff)
	}
	// What is stored must survive a round trip: an update with nothing changed writes nothing.
	same, err := s.client.Update(ctx(t), got.DeepCopy(), metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update without change: %v", err)
	}
	if same.GetResourceVersion() != got.GetResourceVersion() {
		t.Errorf("an update without change wrote revision %s, was %s", same.GetResourceVersion(), got.GetResourceVersion())
	}
	if s.c.Update != nil {
		s.update(t, got)
	}
	list, err := s.client.List(ctx(t), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	if !slices.ContainsFunc(list.Items, func(u unstructured.Unstructured) bool { return u.GetName() == made.GetName() }) {
		t.Errorf("list does not hold the object")
	}
	if s.c.LongDelete {
		return
	}
	if err := s.client.Delete(ctx(t), made.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if _, err := s.client.Get(ctx(t), made.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete = %v, want NotFound", err)
	}
}

func (s *suite[T]) update(t *testing.T, current *unstructured.Unstructured) {
	t.Helper()
	obj := s.typed(t, current)
	s.c.Update(obj)
	changed, err := s.client.Update(ctx(t), s.unstructured(t, obj), metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	if changed.GetResourceVersion() == current.GetResourceVersion() {
		t.Errorf("an update with a change kept revision %s", changed.GetResourceVersion())
	}
	if s.r.Spec != nil {
		old, updated := s.typed(t, current), s.typed(t, changed)
		want := current.GetGeneration()
		if !reflect.DeepEqual(s.r.Spec(old), s.r.Spec(updated)) {
			want++
		}
		if changed.GetGeneration() != want && !s.r.GenerationOnAnnotations {
			t.Errorf("generation is %d, want %d", changed.GetGeneration(), want)
		}
	}
}

func (s *suite[T]) dryRun(t *testing.T) {
	obj := s.object(t)
	if _, err := s.client.Create(ctx(t), obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatalf("dry-run create: %v", err)
	}
	if _, err := s.client.Get(ctx(t), obj.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after dry run = %v, want NotFound", err)
	}
}

func (s *suite[T]) apply(t *testing.T) {
	obj := s.object(t)
	made, err := s.client.Apply(ctx(t), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "suite"})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	defer s.remove(t, made.GetName())
	if len(made.GetManagedFields()) == 0 {
		t.Error("no managed fields after apply")
	}
	// The times in managed fields have seconds: within the same one, what was written looks as if it were not.
	if written := made.GetManagedFields(); len(written) > 0 {
		select {
		case <-time.After(time.Until(written[0].Time.Add(time.Second))):
		case <-ctx(t).Done():
		}
	}
	again, err := s.client.Apply(ctx(t), obj.GetName(), s.object(t), metav1.ApplyOptions{FieldManager: "suite"})
	if err != nil {
		t.Fatalf("second apply: %v", err)
	}
	if again.GetResourceVersion() != made.GetResourceVersion() {
		t.Error("applying the same again wrote")
	}
}

func (s *suite[T]) patch(t *testing.T) {
	made := s.create(t)
	for patchType, body := range map[types.PatchType]string{
		types.MergePatchType:          `{"metadata":{"annotations":{"p":"merge"}}}`,
		types.StrategicMergePatchType: `{"metadata":{"annotations":{"p":"strategic"}}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/labels","value":{"p":"json"}}]`,
	} {
		if _, err := s.client.Patch(ctx(t), made.GetName(), patchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Errorf("patch %s: %v", patchType, err)
		}
	}
}

func (s *suite[T]) conflict(t *testing.T) {
	made := s.create(t)
	_, err := s.client.Patch(ctx(t), made.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.SetLabels(map[string]string{"a": "c"})
	if _, err := s.client.Update(ctx(t), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of an old revision = %v, want Conflict", err)
	}
}

func (s *suite[T]) finalizers(t *testing.T) {
	made := s.create(t, func(obj T) { obj.SetFinalizers([]string{"minik8s.io/suite"}) })
	if err := s.client.Delete(ctx(t), made.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	got, err := s.client.Get(ctx(t), made.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("an object with a finalizer is gone after delete: %v", err)
	}
	if got.GetDeletionTimestamp() == nil {
		t.Error("no deletion timestamp")
	}
}

func (s *suite[T]) generateName(t *testing.T) {
	if s.c.NoGenerateName {
		return
	}
	obj := s.object(t)
	obj.SetName("")
	obj.SetGenerateName("gen-")
	made, err := s.client.Create(ctx(t), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	defer s.remove(t, made.GetName())
	if n := made.GetName(); !strings.HasPrefix(n, "gen-") || len(n) <= len("gen-") {
		t.Errorf("generated name is %q", n)
	}
}

func (s *suite[T]) status(t *testing.T) {
	if s.r.Status == nil {
		if s.c.StatusUpdate != nil {
			t.Error("StatusUpdate given, but the resource has no status")
		}
		return
	}
	if s.c.StatusUpdate == nil {
		t.Fatal("the resource has a status: give StatusUpdate")
	}
	made := s.create(t)
	obj := s.typed(t, made)
	s.c.StatusUpdate(obj)
	changed, err := s.client.UpdateStatus(ctx(t), s.unstructured(t, obj), metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update of status: %v", err)
	}
	if changed.GetResourceVersion() == made.GetResourceVersion() {
		t.Error("an update of status wrote nothing")
	}
	if changed.GetGeneration() != made.GetGeneration() {
		t.Error("an update of status changed the generation")
	}
	// The main resource must not touch the status.
	reset := changed.DeepCopy()
	delete(reset.Object, "status")
	reset.SetLabels(map[string]string{"x": "y"})
	after, err := s.client.Update(ctx(t), reset, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update without status: %v", err)
	}
	if diff := cmp.Diff(changed.Object["status"], after.Object["status"]); diff != "" {
		t.Errorf("an update of the main resource changed the status:\n%s", diff)
	}
}

func (s *suite[T]) invalid(t *testing.T) {
	for _, tc := range s.c.Invalid {
		t.Run(tc.Name, func(t *testing.T) {
			obj := s.object(t, tc.Mutate)
			_, err := s.client.Create(ctx(t), obj, metav1.CreateOptions{})
			if err == nil {
				s.remove(t, obj.GetName())
			}
			wantCause(t, err, tc.Field)
		})
	}
}

func (s *suite[T]) invalidUpdate(t *testing.T) {
	for _, tc := range s.c.InvalidUpdates {
		t.Run(tc.Name, func(t *testing.T) {
			made := s.create(t, tc.From)
			obj := s.typed(t, made)
			tc.Mutate(obj)
			_, err := s.client.Update(ctx(t), s.unstructured(t, obj), metav1.UpdateOptions{})
			wantCause(t, err, tc.Field)
		})
	}
}

func wantCause(t *testing.T, err error, field string) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want Invalid", err)
		return
	}
	status := err.(apierrors.APIStatus).Status()
	if !slices.ContainsFunc(status.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field }) {
		t.Errorf("no cause names %s: %v", field, status.Details.Causes)
	}
}

func (s *suite[T]) unknownField(t *testing.T) {
	obj := s.object(t)
	obj.Object["noSuchField"] = "x"
	_, err := s.client.Create(ctx(t), obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("strict create with an unknown field = %v, want BadRequest", err)
	}
}
