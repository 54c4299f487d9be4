// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequest

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"minik8s.io/minik8s/pkg/registry"
)

// ApprovalREST is the approval subresource: the only way to approve or deny. Whether the user may is decided by the
// CertificateApproval admission plugin.
type ApprovalREST struct {
	updater *genericregistry.Store
}

var (
	_ rest.Patcher             = (*ApprovalREST)(nil)
	_ rest.ResetFieldsStrategy = (*ApprovalREST)(nil)
)

func newApprovalREST(s *registry.Store[*certificatesv1.CertificateSigningRequest]) *ApprovalREST {
	updater := *s.Store
	strategy := approvalStrategy{registry.Subresource(s.UpdateStrategy)}
	updater.UpdateStrategy, updater.ResetFieldsStrategy = strategy, strategy
	return &ApprovalREST{updater: &updater}
}

// New implements rest.Storage.
func (r *ApprovalREST) New() runtime.Object { return &certificatesv1.CertificateSigningRequest{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *ApprovalREST) Destroy() {}

// Get implements rest.Getter.
func (r *ApprovalREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.updater.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates.
func (r *ApprovalREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.updater.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (r *ApprovalREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.updater.GetResetFields()
}

// approvalStrategy lets conditions and metadata through, nothing else.
type approvalStrategy struct{ registry.SubresourceStrategy }

func (approvalStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	r, o := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	registry.KeepKind(r, o)
	setTimes(r, o)
	r.Spec = o.Spec
	r.Status.Certificate = o.Status.Certificate
}

func (approvalStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	r, o := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	errs := registry.ValidateMetadataUpdate(r, o)
	return append(errs, validateApproval(r, o)...)
}

func (approvalStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(certificatesv1.SchemeGroupVersion.String()): fieldpath.NewSet(
			fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "certificate")),
	}
}
