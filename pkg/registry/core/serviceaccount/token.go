// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
)

const (
	defaultExpirationSeconds = 60 * 60
	minExpirationSeconds     = 10 * 60
	maxExpirationSeconds     = 1 << 32
)

var tokenRequestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// TokenREST is the token subresource: POST of a TokenRequest answers with it and a token in its status.
type TokenREST struct {
	accounts *registry.Store[*corev1.ServiceAccount]
	config   registry.Config
}

var (
	_ rest.NamedCreater             = (*TokenREST)(nil)
	_ rest.GroupVersionKindProvider = (*TokenREST)(nil)

	_ rest.SubresourceObjectMetaPreserver = (*TokenREST)(nil)
)

// New implements rest.Storage.
func (r *TokenREST) New() runtime.Object { return &authenticationv1.TokenRequest{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *TokenREST) Destroy() {}

// GroupVersionKind implements rest.GroupVersionKindProvider.
func (r *TokenREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return tokenRequestKind
}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate implements rest.SubresourceObjectMetaPreserver: the UID in the
// request is compared with the account's.
func (r *TokenREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// SetTokenRequestDefaults is part of the scheme: managed fields tell of what it fills in.
func SetTokenRequestDefaults(r *authenticationv1.TokenRequest) {
	if r.Spec.ExpirationSeconds == nil {
		r.Spec.ExpirationSeconds = ptr.To[int64](defaultExpirationSeconds)
	}
}

// Create implements rest.NamedCreater.
func (r *TokenREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	request, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected a TokenRequest, got %T", obj))
	}
	namespace, ok := genericapirequest.NamespaceFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("namespace is required")
	}
	out := request.DeepCopy()
	if errs := complete(out, types.NamespacedName{Namespace: namespace, Name: name}, r.config.APIAudiences); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequestKind.GroupKind(), name, errs)
	}
	account, err := r.accounts.Object(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if out.UID != "" && out.UID != account.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: tokenRequestKind.Group, Resource: tokenRequestKind.Kind}, name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", out.UID, account.UID))
	}
	out.UID, out.CreationTimestamp = account.UID, metav1.Now()
	if errs := validateRequest(out); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequestKind.GroupKind(), "", errs)
	}
	if validate != nil {
		if err := validate(ctx, out.DeepCopy()); err != nil {
			return nil, err
		}
	}
	bound, err := r.bound(ctx, name, out.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	if limit := int64(r.config.MaxTokenExpiration.Seconds()); limit > 0 && *out.Spec.ExpirationSeconds > limit {
		warning.AddWarning(ctx, "", fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *out.Spec.ExpirationSeconds, limit))
		out.Spec.ExpirationSeconds = &limit
	}
	token, expires, err := r.config.Tokens.Issue(ctx, types.NamespacedName{Namespace: namespace, Name: name}, account.UID, bound, out.Spec)
	if err != nil {
		return nil, err
	}
	out.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: expires}
	return out, nil
}

// complete fills in what the client left out and checks that the rest agrees with the URL.
func complete(r *authenticationv1.TokenRequest, account types.NamespacedName, audiences []string) field.ErrorList {
	meta := field.NewPath("metadata")
	if r.Name != "" && r.Name != account.Name {
		return field.ErrorList{field.Invalid(meta.Child("name"), r.Name, "must match the service account name if specified")}
	}
	if r.Namespace != "" && r.Namespace != account.Namespace {
		return field.ErrorList{field.Invalid(meta.Child("namespace"), r.Namespace, "must match the service account namespace if specified")}
	}
	r.Name, r.Namespace = account.Name, account.Namespace
	r.Status = authenticationv1.TokenRequestStatus{}
	SetTokenRequestDefaults(r) // for calls within the process
	if len(r.Spec.Audiences) == 0 {
		r.Spec.Audiences = audiences
	}
	return nil
}

func validateRequest(r *authenticationv1.TokenRequest) field.ErrorList {
	// Only a webhook may attest to something. That is alpha: bound says so.
	if len(r.Spec.Attestations) > 0 && !ofWebhooks(r.Spec.BoundObjectRef) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "attestations"), r.Spec.Attestations, "attestations may only be specified with a webhook bound object reference")}
	}
	path := field.NewPath("spec", "expirationSeconds")
	switch seconds := *r.Spec.ExpirationSeconds; {
	case seconds < minExpirationSeconds:
		return field.ErrorList{field.Invalid(path, seconds, "may not specify a duration less than 10 minutes")}
	case seconds > maxExpirationSeconds:
		return field.ErrorList{field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

// ofWebhooks reports whether a token would be for webhooks (KEP-6060).
func ofWebhooks(ref *authenticationv1.BoundObjectReference) bool {
	return ref != nil && ref.APIVersion == admissionregistrationv1.SchemeGroupVersion.String() &&
		(ref.Kind == "ValidatingWebhookConfiguration" || ref.Kind == "MutatingWebhookConfiguration")
}

// bound looks up the object that the token shall die with; nil if none is asked for.
func (r *TokenREST) bound(ctx context.Context, account string, ref *authenticationv1.BoundObjectReference) (*registry.BoundObject, error) {
	if ref == nil {
		return nil, nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	b := &registry.BoundObject{Kind: gvk.Kind, Name: ref.Name}
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		pod, err := lookup[*corev1.Pod](ctx, r.config.Stores, "pods", ref.Name)
		if err != nil {
			return nil, err
		}
		if pod.Spec.ServiceAccountName != account {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account))
		}
		b.UID, b.NodeName = pod.UID, pod.Spec.NodeName
		if b.NodeName != "" {
			node, err := lookup[*corev1.Node](ctx, r.config.Stores, "nodes", b.NodeName)
			switch {
			case err == nil:
				b.NodeUID = node.UID
			case !apierrors.IsNotFound(err):
				return nil, err
			}
		}
	case schema.GroupKind{Kind: "Node"}:
		node, err := lookup[*corev1.Node](ctx, r.config.Stores, "nodes", ref.Name)
		if err != nil {
			return nil, err
		}
		b.UID = node.UID
	case schema.GroupKind{Kind: "Secret"}:
		secret, err := lookup[*corev1.Secret](ctx, r.config.Stores, "secrets", ref.Name)
		if err != nil {
			return nil, err
		}
		b.UID = secret.UID
	default:
		message := fmt.Sprintf("cannot bind token to object of type %s", gvk.String())
		if ofWebhooks(ref) {
			message += " (feature gate APIServerWebhookAuthenticationToken is disabled)"
		}
		return nil, apierrors.NewBadRequest(message)
	}
	if ref.UID != "" && ref.UID != b.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return b, nil
}

func lookup[T runtime.Object](ctx context.Context, stores *registry.Stores, resource, name string) (T, error) {
	var none T
	store, err := stores.Get(schema.GroupResource{Resource: resource})
	if err != nil {
		return none, apierrors.NewInternalError(err)
	}
	// Errors name what the request is about.
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		about := *info
		about.Resource, about.Subresource, about.Name = resource, "", name
		ctx = genericapirequest.WithRequestInfo(ctx, &about)
	}
	obj, err := store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return none, err
	}
	return obj.(T), nil
}
