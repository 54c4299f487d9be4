// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"minik8s.io/minik8s/test/integration/framework"
)

// hook serves admission reviews.
func hook(t *testing.T, decide func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = decide(review.Request)
		review.Response.UID, review.Request = review.Request.UID, nil
		w.Header().Set("Content-Type", jsonType)
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return admissionregistrationv1.WebhookClientConfig{
		URL: &s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}
}

// inNamespace restricts admission to one namespace, so that tests do not meet.
func inNamespace(ns string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}}
}

func creations(group, version, resource string) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
	}}
}

func TestAdmission_Webhooks(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	registrations := cluster.Client.AdmissionregistrationV1()
	patch := admissionv1.PatchTypeJSONPatch
	mutate := hook(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, PatchType: &patch, Patch: []byte(`[{"op":"add","path":"/data/mutated","value":"yes"}]`)}
	})
	validate := hook(t, func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if strings.Contains(string(r.Object.Raw), `"forbidden"`) {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not this", Code: 403}, Warnings: []string{"do not ask again"}}
		}
		return &admissionv1.AdmissionResponse{Allowed: true}
	})
	name := ns + ".example.com"
	none := new(admissionregistrationv1.SideEffectClassNone)
	if _, err := registrations.MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "m." + name, ClientConfig: mutate, Rules: creations("", "v1", "configmaps"), NamespaceSelector: inNamespace(ns), SideEffects: none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := registrations.ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "v." + name, ClientConfig: validate, Rules: creations("", "v1", "configmaps"), NamespaceSelector: inNamespace(ns), SideEffects: none, AdmissionReviewVersions: []string{"v1"},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "not-exempt", Expression: "!object.metadata.name.startsWith('exempt')"}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	framework.Eventually(t, "both hooks are asked", func() error {
		m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"a": "b"}}, dry)
		if err != nil || m.Data["mutated"] != "yes" {
			return fmt.Errorf("data is %v, %w", m.Data, err)
		}
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Data: map[string]string{"forbidden": ""}}, dry)
		if !apierrors.IsForbidden(err) || err.Error() != `admission webhook "v.`+name+`" denied the request: not this` {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "exempt"}, Data: map[string]string{"forbidden": ""}}, dry); err != nil {
		t.Errorf("the match condition does not hold: %v", err)
	}
}

// TestAdmission_Policies judges a built-in resource and changes a custom one.
func TestAdmission_Policies(t *testing.T) {
	t.Parallel()
	const group = "policies.example.com"
	define(t, widgets(group, version("v1", true)))
	ns := cluster.Namespace(t)
	name := ns + ".example.com"
	registrations := cluster.Client.AdmissionregistrationV1()
	named := func(g, v, r string) []admissionregistrationv1.NamedRuleWithOperations {
		return []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: creations(g, v, r)[0]}}
	}
	if _, err := registrations.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			ParamKind:        &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: named("", "v1", "secrets"), NamespaceSelector: inNamespace(ns)},
			Validations:      []admissionregistrationv1.Validation{{Expression: "object.metadata.name.startsWith(params.data.prefix)", MessageExpression: "'name must start with ' + params.data.prefix"}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	configMap(t, ns, "params", map[string]string{"prefix": "good-"})
	if _, err := registrations.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			ParamRef: &admissionregistrationv1.ParamRef{Name: "params", Namespace: ns, ParameterNotFoundAction: new(admissionregistrationv1.DenyAction)},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := registrations.MutatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints:   &admissionregistrationv1.MatchResources{ResourceRules: named(group, "v1", "widgets"), NamespaceSelector: inNamespace(ns)},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{spec: Object.spec{color: "blue"}}`},
			}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := registrations.MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secrets := cluster.Client.CoreV1().Secrets(ns)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	framework.Eventually(t, "the policy judges", func() error {
		_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}, dry)
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "name must start with good-") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "good-one"}}, dry); err != nil {
		t.Error(err)
	}
	client := dynamicClient(t).Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(ns)
	framework.Eventually(t, "the policy changes a custom resource", func() error {
		w, err := client.Create(t.Context(), widget(group, "v1", "one", map[string]any{"replicas": int64(1)}), dry)
		if err != nil {
			return err
		}
		if spec := w.Object["spec"].(map[string]any); spec["color"] != "blue" {
			return fmt.Errorf("spec is %v", spec)
		}
		return nil
	})
}
