// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package registry turns the description of a REST resource into storage behind the API server; touch it when all
// resources need something new. A resource itself lives in <group>/<resource>/ and is one Resource value made of pure
// functions, listed in <group>/<group>.go; registrytest is the suite that every resource passes.
package registry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Object is an API object: a pointer to a struct of k8s.io/api.
type Object interface {
	runtime.Object
	metav1.Object
}

// Resource describes one resource whose objects are kept in etcd. Functions are pure, may be nil where the comment gives
// a default, and receive objects that they own (obj) or may only read (old). The store takes care of metadata, of spec
// and status being written apart, of metadata.generation, and of everything that all resources share.
type Resource[T Object] struct {
	// Kind is the version and kind that is stored; Name the plural in the path ("configmaps"); Singular defaults to the
	// kind in lower case.
	Kind       schema.GroupVersionKind
	Name       string
	Singular   string
	ShortNames []string
	Categories []string
	// ClusterScoped objects live outside namespaces.
	ClusterScoped bool
	// OtherVersions are those that show the same objects by conversion; each is listed by a Descriptor of its own.
	OtherVersions []schema.GroupVersion
	New           func() T
	NewList       func() runtime.Object

	// Default fills in upstream's defaults. It runs on everything that is decoded, from clients and from etcd, so it
	// must be idempotent.
	Default func(obj T)
	// PrepareForCreate normalises an object before validation: drops what a client may not set. Status is already cleared.
	PrepareForCreate func(ctx context.Context, obj T)
	// PrepareForUpdate does so for updates. Status is already restored from old.
	PrepareForUpdate func(ctx context.Context, obj, old T)
	// Metadata says how far the metadata is checked; the zero value is what most kinds do.
	Metadata MetadataChecks
	// WholeUpdate makes updates check all of the metadata, too, where others check only what may not change.
	WholeUpdate bool
	// ValidateName checks metadata.name (prefix tells that it is a generateName); default: a DNS-1123 subdomain.
	ValidateName func(name string, prefix bool) []string
	// Validate checks a new object apart from its metadata.
	Validate func(ctx context.Context, obj T) field.ErrorList
	// ValidateUpdate checks an update apart from its metadata; nil means Validate of the new object.
	ValidateUpdate func(ctx context.Context, obj, old T) field.ErrorList
	// Authorize refuses what the user of the request may not refer to; old is the zero T on create. It runs last, is
	// given what validation has found, and what it returns is added to that.
	Authorize func(ctx context.Context, c Config, obj, old T, found field.ErrorList) field.ErrorList
	// Warnings are returned to the client in Warning headers; old is the zero T on create.
	Warnings func(ctx context.Context, obj, old T) []string
	// Canonicalize runs after validation, before the object is stored.
	Canonicalize func(obj T)

	// Spec returns the part whose changes count in metadata.generation; nil: the object has no generation.
	Spec func(obj T) any
	// GenerationOnAnnotations makes changed annotations count too (Deployment).
	GenerationOnAnnotations bool
	// Status, if set, adds the /status subresource; T must have a field Status.
	Status *Status[T]

	// ResetFields are the fields (dotted paths) that server-side apply does not own through the main resource, because the
	// server drops what is sent there; nil: the status, if /status is served.
	ResetFields []string
	// AllowCreateOnUpdate lets PUT create. RequireResourceVersion refuses updates without a resourceVersion.
	AllowCreateOnUpdate    bool
	RequireResourceVersion bool
	// WarnOnDelete returns what to tell a client that deletes with the given options; may be nil.
	WarnOnDelete func(options *metav1.DeleteOptions) []string
	// ReturnDeleted makes DELETE answer with the deleted object instead of a Status.
	ReturnDeleted bool
	// CheckGracefulDelete decides about graceful deletion as rest.RESTGracefulDeleteStrategy does; nil: at once.
	CheckGracefulDelete func(ctx context.Context, obj T, options *metav1.DeleteOptions) bool
	// DefaultGarbageCollection is what happens to dependents if the client does not say; "" means background.
	DefaultGarbageCollection rest.GarbageCollectionPolicy

	// Fields are the selectable fields besides metadata.name and metadata.namespace.
	Fields Fields[T]
	// UnknownField is what is said of a field that cannot be selected by, with a verb for it, where upstream has words of its own
	// for the kind.
	UnknownField string
	// Indexed names those of Fields that the watch cache indexes.
	Indexed []string

	// Columns and Row make the table that kubectl prints. Row returns one cell per column; nil means NAME and AGE only.
	Columns []metav1.TableColumnDefinition
	Row     func(obj T) []any
	// RowConditions mark the row of an object, for instance as completed; nil: none has any.
	RowConditions func(obj T) []metav1.TableRowCondition

	// Configure may adjust the finished store (begin/after hooks, allocation) before anything is served.
	Configure func(s *Store[T], c Config) error
	// Subresources adds REST handlers at <name>/<key>.
	Subresources func(s *Store[T], c Config) (map[string]rest.Storage, error)
}

// Status describes the /status subresource, by which controllers report. Writes to it change nothing but status and
// metadata; writes to the main resource never change status.
type Status[T Object] struct {
	// KeepMetadata makes a write of status change labels, annotations, finalizers and owners no more than spec.
	KeepMetadata bool
	// PrepareForUpdate normalises after everything but status (and metadata, see KeepMetadata) has been restored from old.
	PrepareForUpdate func(ctx context.Context, obj, old T)
	// Metadata says how far the metadata are checked, if less than the resource's are.
	Metadata MetadataChecks
	// Validate checks the new status.
	Validate func(ctx context.Context, obj, old T) field.ErrorList
	// Authorize is for writes of status what Resource.Authorize is for others.
	Authorize func(ctx context.Context, c Config, obj, old T, found field.ErrorList) field.ErrorList
	// Warnings are returned to the client in Warning headers.
	Warnings func(ctx context.Context, obj, old T) []string
	// ResetFields are those that server-side apply does not own through /status; nil: all but status, and metadata unless
	// it is kept.
	ResetFields []string
	// OnCreate lets a create through the main resource set status too; upstream does so for few kinds, nodes among them.
	OnCreate bool
	// BeginUpdate learns of writes of status, to count them, and whether they succeed; nil: nobody does.
	BeginUpdate genericregistry.BeginUpdateFunc
}

// Descriptor is a Resource without its type parameter, as lists of resources hold it, or a Virtual.
type Descriptor interface {
	// Info tells what is served.
	Info() Info
	// AddToScheme registers defaults and selectable fields.
	AddToScheme(scheme *runtime.Scheme) error
	// Storage builds the REST storage of the resource and its subresources, keyed by path ("pods", "pods/status").
	Storage(c Config) (map[string]rest.Storage, error)
}

// Info identifies a resource in discovery.
type Info struct {
	Kind       schema.GroupVersionKind
	Name       string
	Namespaced bool
	// Stored is false for resources that only answer (reviews).
	Stored bool
}

// Virtual is a resource that is answered without being stored, such as SubjectAccessReview.
type Virtual struct {
	Kind       schema.GroupVersionKind
	Name       string
	Namespaced bool
	// Build makes its REST storage.
	Build func(c Config) (rest.Storage, error)
	// Defaults registers defaulting functions; may be nil.
	Defaults func(scheme *runtime.Scheme) error
}

var _ Descriptor = Virtual{}

// Info implements Descriptor.
func (v Virtual) Info() Info { return Info{Kind: v.Kind, Name: v.Name, Namespaced: v.Namespaced} }

// AddToScheme implements Descriptor.
func (v Virtual) AddToScheme(scheme *runtime.Scheme) error {
	if v.Defaults == nil {
		return nil
	}
	return v.Defaults(scheme)
}

// Storage implements Descriptor.
func (v Virtual) Storage(c Config) (map[string]rest.Storage, error) {
	s, err := v.Build(c)
	if err != nil {
		return nil, err
	}
	return map[string]rest.Storage{v.Name: s}, nil
}

// Group is one API group and what it serves, in order.
type Group struct {
	// Name is the group ("" for core).
	Name string
	// Versions are served, the preferred first. Resources are stored in the version of their Kind.
	Versions []Version
	// AddToScheme registers the group's types and hand-written conversions.
	AddToScheme func(scheme *runtime.Scheme) error
}

// Version is one version of a group.
type Version struct {
	Name      string
	Resources []Descriptor
	// OffByDefault versions, beta ones, are served by the program kube-apiserver if --runtime-config asks for them; elsewhere as
	// others.
	OffByDefault bool
}
