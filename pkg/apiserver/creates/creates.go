// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package creates makes new objects of built-in kinds without the detours of the machinery's handler: what that has found out of managed
// fields for one object is true of all with the same fields, and most of what is made is made by controllers, hundreds alike. What is unusual
// about a request it leaves to the machinery, and answers as that does. Touch it when creates take long, or when the handler of
// k8s.io/apiserver (endpoints/handlers/create.go) changes.
package creates

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/dryrun"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/tracing"
)

const (
	// timeout is how long a request may take, as in the machinery's handler.
	timeout = 34 * time.Second
	// slow is how long one has taken that is logged, with its parts.
	slow = 500 * time.Millisecond
	// maxBody is how large an object may be, in bytes, that has nothing unusual: far from what the store refuses.
	maxBody = 256 << 10
)

// quick says how many objects were made here, and so whether it pays.
var quick = componentmetrics.NewCounterVec(&componentmetrics.CounterOpts{
	Name: "minik8s_apiserver_quick_creates_total", Help: "Objects that were made without the machinery's handler, since one like them was made before.",
	StabilityLevel: componentmetrics.ALPHA,
}, []string{"group", "resource"})

// Creates makes objects. It knows no kinds until it is told of them, and then leaves everything to the machinery.
type Creates struct {
	kinds map[schema.GroupVersionResource]*kind
	known known
}

// kind is how objects of one are made.
type kind struct {
	resource   schema.GroupVersionResource
	kind       schema.GroupVersionKind
	creater    rest.Creater
	namespaced bool
	codecs     runtime.NegotiatedSerializer
	admission  admission.Interface
	objects    admission.ObjectInterfaces
	convertor  runtime.ObjectConvertor // that may keep memory of what it converts
}

// deprecated is implemented by types of which clients are warned.
type deprecated interface {
	APILifecycleDeprecated() (major, minor int)
}

// Install tells of the resources of a server, before it serves.
func (c *Creates) Install(s *genericapiserver.GenericAPIServer, groups []*genericapiserver.APIGroupInfo, admit admission.Interface) {
	_ = legacyregistry.Register(quick) // it fails if another server of this process has registered it
	c.kinds = map[schema.GroupVersionResource]*kind{}
	for _, group := range groups {
		objects := &admission.RuntimeObjectInterfaces{
			ObjectCreater: group.Scheme, ObjectTyper: group.Scheme, ObjectDefaulter: group.Scheme, ObjectConvertor: group.Scheme,
			EquivalentResourceMapper: s.EquivalentResourceRegistry,
		}
		for _, version := range group.PrioritizedVersions {
			for path, storage := range group.VersionedResourcesStorageMap[version.Version] {
				if k := newKind(version.WithResource(path), storage, group); k != nil {
					k.admission, k.objects = admit, objects
					c.kinds[k.resource] = k
				}
			}
		}
	}
}

// newKind returns nil for what is no resource that clients create, or has its own way of being created.
func newKind(resource schema.GroupVersionResource, storage rest.Storage, group *genericapiserver.APIGroupInfo) *kind {
	creater, ok := storage.(rest.Creater)
	scope, scoped := storage.(rest.Scoper)
	_, named := storage.(rest.NamedCreater)
	_, other := storage.(rest.GroupVersionKindProvider)
	if !ok || !scoped || named || other || strings.Contains(resource.Resource, "/") || resource.GroupResource() == (schema.GroupResource{Resource: "namespaces"}) {
		return nil
	}
	kinds, _, err := group.Scheme.ObjectKinds(storage.New())
	if err != nil {
		return nil
	}
	k := &kind{
		resource: resource, kind: resource.GroupVersion().WithKind(kinds[0].Kind), creater: creater, namespaced: scope.NamespaceScoped(),
		codecs: group.NegotiatedSerializer, convertor: runtime.UnsafeObjectConvertor(group.Scheme),
	}
	obj, err := group.Scheme.New(k.kind)
	if err != nil {
		return nil
	}
	if _, warned := obj.(deprecated); warned {
		return nil
	}
	return k
}

// Handler makes what it can, and has next do all else.
func (c *Creates) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k := c.kindOf(r)
		if k == nil {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		r.Body = again{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		if err != nil || len(body) == maxBody {
			next.ServeHTTP(w, r)
			return
		}
		o := k.read(r, body)
		if o == nil {
			next.ServeHTTP(w, r)
			return
		}
		entry, found := c.known.entry(o.question)
		if !found {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), asked{}, o.question)))
			return
		}
		o.entry = entry
		quick.WithLabelValues(k.resource.Group, k.resource.Resource).Inc()
		metrics.InstrumentHandlerFunc(http.MethodPost, k.resource.Group, k.resource.Version, k.resource.Resource, "", "resource", metrics.APIServerComponent, false, "",
			func(w http.ResponseWriter, r *http.Request) { k.create(w, r, o) })(w, r)
	})
}

// again is a body of which some was read.
type again struct {
	io.Reader
	io.Closer
}

// kindOf returns nil for requests that are not for the creation of an object, or have anything about them that few have.
func (c *Creates) kindOf(r *http.Request) *kind {
	if r.Method != http.MethodPost || r.Body == nil || r.Header.Get("Content-Encoding") != "" ||
		strings.Contains(r.Header.Get("Accept"), ";") || len(r.UserAgent()) > maxAgent {
		return nil
	}
	info, ok := apirequest.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || info.Verb != "create" || info.Subresource != "" || info.Name != "" ||
		strings.Contains(r.URL.Path, "//") || strings.HasSuffix(r.URL.Path, "/") {
		return nil
	}
	k := c.kinds[schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}]
	if k == nil || k.namespaced != (info.Namespace != "") {
		return nil
	}
	return k
}

// object is one that is to be made.
type object struct {
	runtime.Object
	meta      metav1.Object
	namespace string
	options   *metav1.CreateOptions
	size      int // of the body, in bytes
	question  question
	entry     metav1.ManagedFieldsEntry // of managed fields
}

// read returns nil for what the machinery must answer: malformed requests, and objects that come with what a new one seldom has.
func (k *kind) read(r *http.Request, body []byte) *object {
	options := optionsOf(r)
	if options == nil {
		return nil
	}
	input, err := negotiation.NegotiateInputSerializer(r, false, k.codecs)
	if err != nil {
		return nil
	}
	if _, _, err := negotiation.NegotiateOutputMediaType(r, k.codecs, negotiation.DefaultEndpointRestrictions); err != nil {
		return nil
	}
	hub := schema.GroupVersion{Group: k.kind.Group, Version: runtime.APIVersionInternal}
	defaults := k.kind
	serializer := input.StrictSerializer // the machinery warns of what this refuses, or refuses it too
	if options.FieldValidation == metav1.FieldValidationIgnore {
		serializer = input.Serializer
	}
	obj, actual, err := k.codecs.DecoderToVersion(serializer, hub).Decode(body, &defaults, k.creater.New())
	if err != nil || actual.GroupVersion() != k.kind.GroupVersion() {
		return nil
	}
	// As it was sent. The machinery says the same if it is left to that.
	audit.LogRequestObject(r.Context(), obj, k.kind.GroupVersion(), k.resource, "", k.codecs)
	m, err := meta.Accessor(obj)
	if err != nil || m.GetManagedFields() != nil || len(m.GetOwnerReferences()) > 1 {
		return nil
	}
	o := &object{Object: obj, meta: m, options: options, size: len(body)}
	info, _ := apirequest.RequestInfoFrom(r.Context())
	o.namespace = info.Namespace
	rest.WipeObjectMetaSystemFields(m)
	if rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(o.namespace, k.resource), m) != nil {
		return nil
	}
	// Fields are those of the version that was sent, which need not be the one that is kept.
	versioned, err := k.convertor.ConvertToVersion(obj, k.kind.GroupVersion())
	if err != nil {
		return nil
	}
	shape, ok := appendShape(make([]byte, 0, 1<<10), reflect.ValueOf(versioned), false)
	if !ok || len(shape) > maxShape {
		return nil
	}
	o.question = question{kind: k.kind, manager: options.FieldManager, shape: string(shape)}
	if o.question.manager == "" {
		o.question.agent = r.UserAgent()
	}
	return o
}

// optionsOf returns nil if they are invalid.
func optionsOf(r *http.Request) *metav1.CreateOptions {
	options := &metav1.CreateOptions{}
	if r.URL.RawQuery != "" {
		if err := metainternalversionscheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, options); err != nil || len(validation.ValidateCreateOptions(options)) > 0 {
			return nil
		}
	}
	options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	return options
}

// create makes an object whose entry of managed fields is known.
func (k *kind) create(w http.ResponseWriter, r *http.Request, o *object) {
	ctx, span := tracing.Start(r.Context(), "Create", attribute.String("audit-id", audit.GetAuditIDTruncated(r.Context())),
		attribute.String("url", r.URL.Path), attribute.String("user-agent", r.UserAgent()))
	defer span.End(slow)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx = apirequest.WithNamespace(ctx, o.namespace)
	r = r.WithContext(ctx)
	requestmetrics.RecordRequestBodySize(ctx, k.resource.GroupResource(), requestmetrics.Create, o.size)
	o.meta.SetManagedFields([]metav1.ManagedFieldsEntry{o.entry})

	result, err := k.store(ctx, o)
	if err != nil && ctx.Err() != nil {
		err = apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %s", ctx.Err()), 0)
	}
	if err != nil {
		responsewriters.ErrorNegotiated(err, k.codecs, k.kind.GroupVersion(), w, r)
		return
	}
	if status, ok := result.(*metav1.Status); ok && status.Code == 0 {
		status.Code = http.StatusCreated
	}
	responsewriters.WriteObjectNegotiated(k.codecs, negotiation.DefaultEndpointRestrictions, k.kind.GroupVersion(), w, r, http.StatusCreated, result, false)
}

func (k *kind) store(ctx context.Context, o *object) (runtime.Object, error) {
	user, _ := apirequest.UserFrom(ctx)
	attributes := admission.NewAttributesRecord(o.Object, nil, k.kind, o.namespace, o.meta.GetName(), k.resource, "", admission.Create, o.options, dryrun.IsDryRun(o.options.DryRun), user)
	admit := admission.WithAudit(k.admission)
	if mutating, ok := admit.(admission.MutationInterface); ok && mutating.Handles(admission.Create) {
		if err := mutating.Admit(ctx, attributes, k.objects); err != nil {
			return nil, err
		}
	}
	o.mend(ctx)
	return k.creater.Create(ctx, o.Object, rest.AdmissionToValidateObjectFunc(admit, attributes, k.objects), o.options)
}
