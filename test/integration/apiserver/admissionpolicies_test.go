// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/integration/framework"
)

// userWith is a client of a user who may do just what the rules say, in all namespaces.
func userWith(t *testing.T, name string, rules ...rbacv1.PolicyRule) kubernetes.Interface {
	t.Helper()
	rbac := cluster.Client.RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return framework.ClientFor(t, cluster.User(name))
}

// refusedAt returns an error unless err is a refusal that names the field.
func refusedAt(err error, field string) error {
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("the answer is %w, want Invalid", err)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	if !slices.ContainsFunc(causes, func(c metav1.StatusCause) bool { return c.Field == field }) {
		return fmt.Errorf("no cause names %s: %v", field, causes)
	}
	return nil
}

// TestAdmissionPolicy_Parameters lets nobody use parameters in a policy whom they are hidden from.
func TestAdmissionPolicy_Parameters(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	write := rbacv1.PolicyRule{APIGroups: []string{admissionregistrationv1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}}
	blind := userWith(t, ns+"-blind", write).AdmissionregistrationV1()
	reader := userWith(t, ns+"-reader", write, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}).AdmissionregistrationV1()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "Secret"},
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: inNamespace(ns),
				ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: creations("", "v1", "configmaps")[0]}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", MessageExpression: "string(params.data.password)"}},
		},
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	// The authorizer learns of the new roles from its informers.
	framework.Eventually(t, "a policy needs the right to read its parameters", func() error {
		_, err := blind.ValidatingAdmissionPolicies().Create(t.Context(), policy, dry)
		return refusedAt(err, "spec.paramKind")
	})
	framework.Eventually(t, "who has the right may write the policy", func() error {
		_, err := reader.ValidatingAdmissionPolicies().Create(t.Context(), policy, dry)
		return err
	})
	if _, err := cluster.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			ParamRef: &admissionregistrationv1.ParamRef{Name: "s", Namespace: ns, ParameterNotFoundAction: new(admissionregistrationv1.DenyAction)},
		},
	}
	_, err := blind.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, dry)
	if err := refusedAt(err, "spec.paramRef"); err != nil {
		t.Error(err)
	}
	if _, err := reader.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, dry); err != nil {
		t.Errorf("who may get the parameter may not bind it: %v", err)
	}
	binding.Spec.ParamRef.Name, binding.Spec.ParamRef.Selector = "", &metav1.LabelSelector{}
	_, err = reader.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, dry)
	if err := refusedAt(err, "spec.paramRef"); err != nil {
		t.Errorf("who may not list the parameters may select from them: %v", err)
	}
}

// TestAdmissionPolicy_MutatingThenValidating has a policy judge what another one has changed.
func TestAdmissionPolicy_MutatingThenValidating(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	registrations := cluster.Client.AdmissionregistrationV1()
	match := &admissionregistrationv1.MatchResources{
		NamespaceSelector: inNamespace(ns),
		ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: creations("", "v1", "configmaps")[0]}},
	}
	if _, err := registrations.MutatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: match, ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "marked", Expression: "has(object.metadata.labels) && 'fill' in object.metadata.labels"}},
			Variables:       []admissionregistrationv1.Variable{{Name: "value", Expression: "object.metadata.labels['fill'] + '!'"}},
			Mutations: []admissionregistrationv1.Mutation{
				{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/data", value: {"filled": variables.value}}]`}},
				{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{metadata: Object.metadata{annotations: {"by": "policy"}}}`}},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := registrations.MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: ns},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := registrations.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: match,
			Variables:        []admissionregistrationv1.Variable{{Name: "data", Expression: "has(object.data) ? object.data : {}"}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "!('filled' in variables.data) || variables.data['filled'] != 'bad!'", MessageExpression: "'filled with ' + variables.data['filled']", Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := registrations.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	create := func(fill string) (*corev1.ConfigMap, error) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"fill": fill}}}
		return maps.Create(t.Context(), m, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	framework.Eventually(t, "what was filled in is refused", func() error {
		if _, err := create("bad"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "filled with bad!") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	m, err := create("good")
	if err != nil {
		t.Fatal(err)
	}
	if m.Data["filled"] != "good!" || m.Annotations["by"] != "policy" {
		t.Errorf("data %v, annotations %v", m.Data, m.Annotations)
	}
}
