// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flowschema_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/flowcontrol/flowschema"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func valid() *flowcontrolv1.FlowSchema {
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "workload-low"},
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "ann"}}},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"*"}}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"/", "/healthz/*"}}},
			}},
		},
	}
}

func TestResource(t *testing.T) {
	type schema = flowcontrolv1.FlowSchema
	invalid := func(name, field string, mutate func(*schema)) registrytest.Invalid[*schema] {
		return registrytest.Invalid[*schema]{Name: name, Field: field, Mutate: mutate}
	}
	subject := func(s flowcontrolv1.Subject) func(*schema) {
		return func(f *schema) { f.Spec.Rules[0].Subjects[0] = s }
	}
	resources := func(mutate func(*flowcontrolv1.ResourcePolicyRule)) func(*schema) {
		return func(f *schema) { mutate(&f.Spec.Rules[0].ResourceRules[0]) }
	}
	url := func(u string) func(*schema) {
		return func(f *schema) { f.Spec.Rules[0].NonResourceRules[0].NonResourceURLs[1] = u }
	}
	const rule, subjects, resource, urls = "spec.rules[0]", "spec.rules[0].subjects[0]", "spec.rules[0].resourceRules[0]", "spec.rules[0].nonResourceRules[0].nonResourceURLs"
	registrytest.Run(t, flowschema.Resource, registrytest.Case[*schema]{
		AddToScheme: flowcontrolv1.AddToScheme,
		Valid:       valid,
		Update:      func(f *schema) { f.Spec.MatchingPrecedence = 7 },
		StatusUpdate: func(f *schema) {
			f.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "Dangling", Status: "True"}}
		},
		Invalid: []registrytest.Invalid[*schema]{
			invalid("negative precedence", "spec.matchingPrecedence", func(f *schema) { f.Spec.MatchingPrecedence = -1 }),
			invalid("great precedence", "spec.matchingPrecedence", func(f *schema) { f.Spec.MatchingPrecedence = 10001 }),
			invalid("first precedence", "spec.matchingPrecedence", func(f *schema) { f.Spec.MatchingPrecedence = 1 }),
			invalid("method", "spec.distinguisherMethod.type", func(f *schema) { f.Spec.DistinguisherMethod.Type = "ByMoon" }),
			invalid("no level", "spec.priorityLevelConfiguration.name", func(f *schema) { f.Spec.PriorityLevelConfiguration.Name = "" }),
			invalid("bad level", "spec.priorityLevelConfiguration.name", func(f *schema) { f.Spec.PriorityLevelConfiguration.Name = "A" }),
			invalid("mandatory name", "spec", func(f *schema) { f.Name = "catch-all" }),
			invalid("no subjects", rule+".subjects", func(f *schema) { f.Spec.Rules[0].Subjects = nil }),
			invalid("no rules", rule, func(f *schema) { f.Spec.Rules[0].ResourceRules, f.Spec.Rules[0].NonResourceRules = nil, nil }),
			invalid("subject kind", subjects+".kind", subject(flowcontrolv1.Subject{Kind: "Moon"})),
			invalid("subject without member", subjects+".group", subject(flowcontrolv1.Subject{Kind: "Group"})),
			invalid("subject with the wrong member", subjects+".user", subject(flowcontrolv1.Subject{
				Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "g"}, User: &flowcontrolv1.UserSubject{Name: "u"},
			})),
			invalid("user without name", subjects+".user.name", subject(flowcontrolv1.Subject{Kind: "User", User: &flowcontrolv1.UserSubject{}})),
			invalid("account without namespace", subjects+".serviceAccount.namespace", subject(flowcontrolv1.Subject{
				Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Name: "*"},
			})),
			invalid("account name", subjects+".serviceAccount.name", subject(flowcontrolv1.Subject{
				Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "n", Name: "A"},
			})),
			invalid("unknown verb", resource+".verbs", resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Verbs = []string{"fetch"} })),
			invalid("verbs beside all", resource+".verbs", resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Verbs = []string{"*", "get"} })),
			invalid("no group", resource+".apiGroups", resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.APIGroups = nil })),
			invalid("resources beside all", resource+".resources", resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Resources = []string{"*", "pods"} })),
			invalid("no namespace", resource+".namespaces", resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Namespaces = nil })),
			invalid("namespace", resource+".namespaces[0]", resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Namespaces = []string{"a.b"} })),
			invalid("relative URL", urls+"[1]", url("healthz")),
			invalid("double slash", urls+"[1]", url("/a//b")),
			invalid("inner wildcard", urls+"[1]", url("/a/*/b")),
			invalid("half wildcard", urls+"[1]", url("/a*")),
			invalid("URLs beside all", urls, url("*")),
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*schema]{{
			Name: "mandatory", Field: "spec",
			From:   func(f *schema) { *f = *bootstrap.MandatoryFlowSchemaCatchAll.DeepCopy() },
			Mutate: func(f *schema) { f.Spec.MatchingPrecedence = 9999 },
		}},
		Row: []any{"s", "workload-low", 1000, "ByUser"},
	})
}

// TestTableIsInOrder checks that a list is printed in the order of matching, not of names.
func TestTableIsInOrder(t *testing.T) {
	config := registrytest.Serve(t, registry.Config{}, registry.Group{
		Name: flowcontrolv1.GroupName, AddToScheme: flowcontrolv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{flowschema.Resource}}},
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, precedence := range map[string]int32{"a": 30, "b": 10, "c": 20, "d": 10} {
		f := valid()
		f.Name, f.Spec.MatchingPrecedence = name, precedence
		if _, err := client.FlowcontrolV1().FlowSchemas().Create(context.Background(), f, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodGet, config.Host+"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var table metav1.Table
	if err := json.NewDecoder(resp.Body).Decode(&table); err != nil {
		t.Fatal(err)
	}
	var names string
	for _, r := range table.Rows {
		names += r.Cells[0].(string)
	}
	if names != "bdca" {
		t.Errorf("rows are in the order %q, want %q", names, "bdca")
	}
}
