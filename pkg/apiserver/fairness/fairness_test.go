// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"minik8s.io/minik8s/pkg/registry/flowcontrol/prioritylevelconfiguration"
)

func schema(name, annotation string, generation int64, precedence int32) *flowcontrolv1.FlowSchema {
	f := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}, Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: precedence}}
	if annotation != "" {
		f.Annotations = map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: annotation}
	}
	return f
}

func TestPlan(t *testing.T) {
	c := configuration[*flowcontrolv1.FlowSchema]{
		mandatory: []*flowcontrolv1.FlowSchema{schema("m", "true", 0, 1)},
		suggested: []*flowcontrolv1.FlowSchema{schema("s", "true", 0, 0)}, // the default precedence is 1000
		same:      schemas.same,
		adopt:     schemas.adopt,
	}
	type fs = flowcontrolv1.FlowSchema
	fine := []*fs{schema("m", "true", 1, 1), schema("s", "true", 1, 1000)}
	for _, tc := range []struct {
		name string
		have []*fs
		want changes[*fs]
	}{
		{"nothing", nil, changes[*fs]{create: []*fs{schema("m", "true", 0, 1), schema("s", "true", 0, 0)}}},
		{"everything", fine, changes[*fs]{}},
		{"mandatory changed", []*fs{schema("m", "true", 2, 9), fine[1]}, changes[*fs]{update: []*fs{schema("m", "true", 2, 1)}}},
		{"mandatory freed", []*fs{schema("m", "false", 2, 9), fine[1]}, changes[*fs]{update: []*fs{schema("m", "true", 2, 1)}}},
		{"suggested changed", []*fs{fine[0], schema("s", "true", 2, 9)}, changes[*fs]{update: []*fs{schema("s", "true", 2, 0)}}},
		{"suggested freed", []*fs{fine[0], schema("s", "false", 2, 9)}, changes[*fs]{}},
		{"suggested without annotation, unchanged", []*fs{fine[0], schema("s", "", 1, 9)}, changes[*fs]{update: []*fs{schema("s", "true", 1, 0)}}},
		{"suggested without annotation, changed", []*fs{fine[0], schema("s", "odd", 2, 9)}, changes[*fs]{update: []*fs{schema("s", "false", 2, 9)}}},
		{"one of an earlier version", append([]*fs{schema("old", "1", 1, 1)}, fine...), changes[*fs]{remove: []string{"old"}}},
		{"one of a user", append([]*fs{schema("a", "", 1, 1), schema("b", "false", 1, 1), schema("c", "odd", 1, 1)}, fine...), changes[*fs]{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, c.plan(tc.have), cmp.AllowUnexported(changes[*fs]{})); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func verbs(c *fake.Clientset) map[string]int {
	n := map[string]int{}
	for _, a := range c.Actions() {
		if a.GetVerb() != "list" {
			n[a.GetVerb()]++
		}
	}
	c.ClearActions()
	return n
}

func TestEnsure(t *testing.T) {
	ctx, client := context.Background(), fake.NewClientset()
	api := client.FlowcontrolV1()
	ensure := func() map[string]int {
		t.Helper()
		if err := Ensure(ctx, api); err != nil {
			t.Fatal(err)
		}
		return verbs(client)
	}
	total := len(levels.mandatory) + len(levels.suggested) + len(schemas.mandatory) + len(schemas.suggested)
	if w := ensure(); w["create"] != total || len(w) != 1 {
		t.Fatalf("writes on an empty cluster = %v, want %d creates", w, total)
	}
	// The server would have filled in defaults.
	list, err := api.PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		prioritylevelconfiguration.Resource.Default(&p)
		if p.Name == "exempt" {
			p.Spec.Exempt.LendablePercent = new(int32(50))
		}
		if _, err := api.PriorityLevelConfigurations().Update(ctx, &p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	verbs(client)
	if w := ensure(); len(w) > 0 {
		t.Fatalf("writes on a complete cluster = %v", w)
	}
	if err := api.FlowSchemas().Delete(ctx, "probes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.FlowSchemas().Create(ctx, schema("old", "true", 1, 5), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	verbs(client)
	if w := ensure(); w["create"] != 1 || w["delete"] != 1 || len(w) != 2 {
		t.Errorf("writes = %v, want one lost schema and one old one", w)
	}
	exempt, err := api.PriorityLevelConfigurations().Get(ctx, "exempt", metav1.GetOptions{})
	if err != nil || *exempt.Spec.Exempt.LendablePercent != 50 {
		t.Errorf("exempt lends %v (%v): the administrator's choice is gone", exempt.Spec.Exempt, err)
	}
}

func TestEnsureReportsErrors(t *testing.T) {
	client, broken := fake.NewClientset(), errors.New("broken")
	client.PrependReactor("create", "flowschemas", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, broken })
	if err := Ensure(context.Background(), client.FlowcontrolV1()); !errors.Is(err, broken) {
		t.Errorf("error = %v", err)
	}
}
