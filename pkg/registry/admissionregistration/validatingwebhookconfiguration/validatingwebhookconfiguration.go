// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package validatingwebhookconfiguration serves ValidatingWebhookConfigurations: programs that are asked before an object is stored. Touch
// it when their rules change; see webhook for those of both configurations.
package validatingwebhookconfiguration

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

// Resource describes validatingwebhookconfigurations.
var Resource = &registry.Resource[*admissionv1.ValidatingWebhookConfiguration]{
	Kind:          admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
	Name:          "validatingwebhookconfigurations",
	Categories:    []string{"api-extensions"},
	ClusterScoped: true,
	Metadata:      registry.GenericMetadata,
	New: func() *admissionv1.ValidatingWebhookConfiguration {
		return &admissionv1.ValidatingWebhookConfiguration{}
	},
	NewList:                func() runtime.Object { return &admissionv1.ValidatingWebhookConfigurationList{} },
	RequireResourceVersion: true,
	Default:                setDefaults,
	Spec:                   func(c *admissionv1.ValidatingWebhookConfiguration) any { return c.Webhooks },
	PrepareForUpdate: func(_ context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) {
		if !reflect.DeepEqual(c.Webhooks, old.Webhooks) { // an empty list is not a missing one
			c.Generation = old.Generation + 1
		}
	},
	Validate: func(_ context.Context, c *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
		return append(validate(c, nil), manifestname.Validate(c.Name)...)
	},
	ValidateUpdate: func(_ context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
		return append(validate(c, old), validation.ValidateObjectMeta(&c.ObjectMeta, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	},
	Warnings: func(_ context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) []string {
		warnings := webhook.Warnings(webhooks(c))
		if old != nil {
			warnings = append(manifestname.Warnings(c.Name), warnings...)
		}
		return warnings
	},
	Columns: webhook.Columns,
	Row: func(c *admissionv1.ValidatingWebhookConfiguration) []any {
		return webhook.Row(&c.ObjectMeta, len(c.Webhooks))
	},
}

func setDefaults(c *admissionv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		webhook.SetDefaults(&c.Webhooks[i])
	}
}

func webhooks(c *admissionv1.ValidatingWebhookConfiguration) []admissionv1.ValidatingWebhook {
	if c == nil {
		return nil
	}
	return c.Webhooks
}

func validate(c, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	return webhook.Validate(webhooks(c), webhooks(old))
}
