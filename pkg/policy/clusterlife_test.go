// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"
)

// define installs the definition of ClusterNetworkPolicies, which is not served at once.
func (w *world) define(t *testing.T) {
	t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definitionName}}
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha2", Served: true}}
	definitions := w.definitions.ApiextensionsV1().CustomResourceDefinitions()
	_, err := definitions.Create(t.Context(), d, metav1.CreateOptions{})
	must(t, err)
	d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	_, err = definitions.Update(t.Context(), d, metav1.UpdateOptions{})
	must(t, err)
}

func (w *world) createClusterPolicy(t *testing.T, name, spec string) {
	t.Helper()
	p := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	must(t, yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	_, err := w.cluster.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
}

func (w *world) condition(t *testing.T, name string) *metav1.Condition {
	t.Helper()
	p, err := w.cluster.PolicyV1alpha2().ClusterNetworkPolicies().Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return meta.FindStatusCondition(p.Status.Conditions, "Accepted")
}

func TestRealClusterPolicies(t *testing.T) {
	onNode(t, func(t *testing.T) {
		t.Helper()
		w := newWorld(t)
		w.enforce(t, nil)
		w.createPolicy(t, "x/deny", denyIngress)
		eventually(t, "NetworkPolicies need no definition of others", func() bool { return !w.reaches(t, "x/b", "x/a") })
		for _, a := range w.cluster.Actions() {
			t.Errorf("without a definition: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
		w.define(t)
		const ofX = `subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: x}}}`
		w.createClusterPolicy(t, "base", `{tier: Baseline, priority: 1, `+ofX+`, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`)
		eventually(t, "the baseline is for pods that no NetworkPolicy selects", func() bool { return !w.reaches(t, "y/a", "x/b") && w.reaches(t, "y/a", "y/b") })
		w.createClusterPolicy(t, "friends", `{tier: Admin, priority: 5, `+ofX+`, ingress: [{action: Accept, from: [{pods: {podSelector: {matchLabels: {pod: b}}}}]}]}`)
		eventually(t, "an administrator accepts what others refuse", func() bool { return w.reaches(t, "x/b", "x/a") && w.reaches(t, "y/b", "x/b") })
		if w.reaches(t, "y/a", "x/a") || w.reaches(t, "y/a", "x/b") {
			t.Error("what he says nothing of is open")
		}
		w.createClusterPolicy(t, "first", `{tier: Admin, priority: 4, `+ofX+`, ingress: [{action: Pass, from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: "y"}}}]}]}`)
		eventually(t, "what is passed on is refused by whom it comes to", func() bool { return !w.reaches(t, "y/b", "x/a") && !w.reaches(t, "y/b", "x/b") })
		if !w.reaches(t, "x/b", "x/a") {
			t.Error("what is not passed on is refused")
		}
		w.createClusterPolicy(t, "out", `{tier: Admin, priority: 0, subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: z}}}, egress: [
			{action: Accept, to: [{domainNames: [example.com]}]}, {action: Deny, name: node, to: [{networks: [192.0.2.1/32]}]}]}`)
		eventually(t, "the pod's own node is refused, and no other peer", func() bool { return !w.reaches(t, "z/a", "node") && w.reaches(t, "z/a", "outside") })
		if !w.reaches(t, "y/a", "node") || !w.reaches(t, "node", "z/a") {
			t.Error("others do not reach the node, or the node not the pod")
		}
		eventually(t, "all policies have a condition", func() bool {
			return w.condition(t, "base") != nil && w.condition(t, "friends") != nil && w.condition(t, "first") != nil && w.condition(t, "out") != nil
		})
		if c := w.condition(t, "base"); c.Status != metav1.ConditionTrue || c.ObservedGeneration != 1 {
			t.Errorf("of a policy that is supported: %+v", c)
		}
		if c := w.condition(t, "out"); c.Status != metav1.ConditionFalse || c.Reason != "Unsupported" || !strings.Contains(c.Message, "egress[0]: domainNames is not supported, the rule matches nothing") {
			t.Errorf("of one that is not: %+v", c)
		}
		must(t, w.definitions.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), definitionName, metav1.DeleteOptions{}))
		eventually(t, "without the definition only NetworkPolicies count", func() bool {
			return w.reaches(t, "z/a", "node") && w.reaches(t, "y/a", "x/b") && !w.reaches(t, "x/b", "x/a")
		})
	})
}
