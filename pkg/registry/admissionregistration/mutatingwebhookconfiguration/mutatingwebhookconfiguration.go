// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package mutatingwebhookconfiguration serves MutatingWebhookConfigurations: programs that are asked before an object is stored. Touch
// it when their rules change; see webhook for those of both configurations.
package mutatingwebhookconfiguration

import (
	"context"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/manifestname"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/webhook"
)

// Resource describes mutatingwebhookconfigurations.
var Resource = &registry.Resource[*admissionv1.MutatingWebhookConfiguration]{
	Kind:                   admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
	Name:                   "mutatingwebhookconfigurations",
	Categories:             []string{"api-extensions"},
	ClusterScoped:          true,
	Metadata:               registry.GenericMetadata,
	New:                    func() *admissionv1.MutatingWebhookConfiguration { return &admissionv1.MutatingWebhookConfiguration{} },
	NewList:                func() runtime.Object { return &admissionv1.MutatingWebhookConfigurationList{} },
	RequireResourceVersion: true,
	Default:                setDefaults,
	Spec:                   func(c *admissionv1.MutatingWebhookConfiguration) any { return c.Webhooks },
	PrepareForUpdate: func(_ context.Context, c, old *admissionv1.MutatingWebhookConfiguration) {
		if !reflect.DeepEqual(c.Webhooks, old.Webhooks) { // an empty list is not a missing one
			c.Generation = old.Generation + 1
		}
	},
	Validate: func(_ context.Context, c *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
		return append(validate(c, nil), manifestname.Validate(c.Name)...)
	},
	ValidateUpdate: func(_ context.Context, c, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
		return append(validate(c, old), validation.ValidateObjectMeta(&c.ObjectMeta, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	},
	Warnings: func(_ context.Context, c, old *admissionv1.MutatingWebhookConfiguration) []string {
		warnings := webhook.Warnings(webhooks(c))
		if old != nil {
			warnings = append(manifestname.Warnings(c.Name), warnings...)
		}
		return warnings
	},
	Columns: webhook.Columns,
	Row: func(c *admissionv1.MutatingWebhookConfiguration) []any {
		return webhook.Row(&c.ObjectMeta, len(c.Webhooks))
	},
}

func setDefaults(c *admissionv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		v := webhook.Validating(*w)
		webhook.SetDefaults(&v)
		w.FailurePolicy, w.MatchPolicy, w.TimeoutSeconds = v.FailurePolicy, v.MatchPolicy, v.TimeoutSeconds
		w.NamespaceSelector, w.ObjectSelector = v.NamespaceSelector, v.ObjectSelector
		if w.ReinvocationPolicy == nil {
			w.ReinvocationPolicy = new(admissionv1.NeverReinvocationPolicy)
		}
	}
}

func webhooks(c *admissionv1.MutatingWebhookConfiguration) []admissionv1.ValidatingWebhook {
	if c == nil {
		return nil
	}
	out := make([]admissionv1.ValidatingWebhook, len(c.Webhooks))
	for i, w := range c.Webhooks {
		out[i] = webhook.Validating(w)
	}
	return out
}

func validate(c, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	errs := webhook.Validate(webhooks(c), webhooks(old))
	for i, w := range c.Webhooks {
		errs = append(errs, webhook.ValidateReinvocation(w.ReinvocationPolicy, webhook.Path.Index(i).Child("reinvocationPolicy"))...)
	}
	return errs
}
