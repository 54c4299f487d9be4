// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/webhook"
)

func hook(name string) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name:                    name,
		ClientConfig:            admissionv1.WebhookClientConfig{URL: new("https://example.com")},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// TestOldFaultsAreKept updates configurations that were stored when less was asked of them.
func TestOldFaultsAreKept(t *testing.T) {
	for name, spoil := range map[string]func([]admissionv1.ValidatingWebhook){
		"side effects":   func(w []admissionv1.ValidatingWebhook) { w[0].SideEffects = new(admissionv1.SideEffectClassSome) },
		"review version": func(w []admissionv1.ValidatingWebhook) { w[0].AdmissionReviewVersions = []string{"v9"} },
		"names":          func(w []admissionv1.ValidatingWebhook) { w[1].Name = w[0].Name },
		"condition": func(w []admissionv1.ValidatingWebhook) {
			w[0].MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: "no("}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := []admissionv1.ValidatingWebhook{hook("a.example.com"), hook("b.example.com")}
			spoil(old)
			if errs := webhook.Validate(old, nil); len(errs) == 0 {
				t.Error("create is accepted")
			}
			updated := slices.Clone(old)
			updated[1].TimeoutSeconds = new(int32(3))
			if errs := webhook.Validate(updated, old); len(errs) > 0 {
				t.Errorf("update is refused: %v", errs)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	w := hook("a.example.com")
	w.Rules = []admissionv1.RuleWithOperations{
		{Rule: admissionv1.Rule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}}},
		{Rule: admissionv1.Rule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"*"}}},
	}
	want := []string{"webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"}
	if got := webhook.Warnings([]admissionv1.ValidatingWebhook{w}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
