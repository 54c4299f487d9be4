// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespaceexists refuses writes in namespaces that do not exist. NamespaceLifecycle does so for creates. Off by
// default. Touch it when other requests are to be refused too.
package namespaceexists

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/namespace"
)

// Name of the plugin.
const Name = "NamespaceExists"

type plugin struct{ namespace.Handler }

var _ admission.ValidationInterface = (*plugin)(nil)

// New returns the plugin.
func New() admission.Interface {
	return &plugin{namespace.NewHandler(admission.Create, admission.Update, admission.Delete)}
}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetResource().GroupResource() == corev1.Resource("namespaces") {
		return nil
	}
	_, err := p.Of(ctx, a)
	return err
}
