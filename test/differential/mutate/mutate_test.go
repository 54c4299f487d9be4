// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mutate

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/test/differential/schema"
)

const document = `{"components":{"schemas":{"Thing":{"type":"object",
"x-kubernetes-group-version-kind":[{"group":"","kind":"Thing","version":"v1"}],
"properties":{
  "kind":{"type":"string"},
  "spec":{"allOf":[{"$ref":"#/components/schemas/Spec"}]}}},
"Spec":{"type":"object","properties":{
  "count":{"type":"integer","format":"int32"},
  "color":{"type":"string","enum":["red","blue"]},
  "size":{"allOf":[{"$ref":"#/components/schemas/io.Quantity"}]},
  "labels":{"type":"object","additionalProperties":{"type":"string"}},
  "parts":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}},
  "deep":{"type":"object","properties":{"on":{"type":"boolean"}}}}},
"io.Quantity":{"type":"string"}}}}`

func things(t *testing.T) (*schema.Set, *schema.Type) {
	t.Helper()
	set := schema.NewSet()
	if err := set.Add([]byte(document)); err != nil {
		t.Fatal(err)
	}
	thing := set.Kind(schema.Kind{Version: "v1", Kind: "Thing"})
	if thing == nil {
		t.Fatal("no type for Thing")
	}
	return set, thing
}

func object(t *testing.T, s string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(s), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAll(t *testing.T) {
	set, thing := things(t)
	const text = `{"kind":"Thing","spec":{"count":1,"parts":[{"name":"a"}]}}`
	seed := object(t, text)
	all := All(seed, thing, set, nil)
	results := map[string]string{}
	for _, m := range all {
		changed, err := json.Marshal(m.Apply(seed))
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := results[m.String()]; twice {
			t.Errorf("%s is there twice", m)
		}
		results[m.String()] = string(changed)
	}
	for change, want := range map[string]string{
		"remove spec.count":                        `{"kind":"Thing","spec":{"parts":[{"name":"a"}]}}`,
		"set null spec.parts":                      `{"kind":"Thing","spec":{"count":1,"parts":null}}`,
		"set -1 spec.count":                        `{"kind":"Thing","spec":{"count":-1,"parts":[{"name":"a"}]}}`,
		"set 2147483648 spec.count":                `{"kind":"Thing","spec":{"count":2147483648,"parts":[{"name":"a"}]}}`,
		`set "x" spec.count`:                       `{"kind":"Thing","spec":{"count":"x","parts":[{"name":"a"}]}}`,
		"duplicate the first item spec.parts":      `{"kind":"Thing","spec":{"count":1,"parts":[{"name":"a"},{"name":"a"}]}}`,
		"remove spec.parts[0]":                     `{"kind":"Thing","spec":{"count":1,"parts":[]}}`,
		"remove spec.parts[0].name":                `{"kind":"Thing","spec":{"count":1,"parts":[{}]}}`,
		"unknown field spec.parts[0].unknownField": `{"kind":"Thing","spec":{"count":1,"parts":[{"name":"a","unknownField":"x"}]}}`,
		`set "NotInTheEnum" spec.color`:            `{"kind":"Thing","spec":{"color":"NotInTheEnum","count":1,"parts":[{"name":"a"}]}}`,
		`set "blue" spec.color`:                    `{"kind":"Thing","spec":{"color":"blue","count":1,"parts":[{"name":"a"}]}}`,
		`set "1500m" spec.size`:                    `{"kind":"Thing","spec":{"count":1,"parts":[{"name":"a"}],"size":"1500m"}}`,
		`add key "bad key!" spec.labels.bad key!`:  `{"kind":"Thing","spec":{"count":1,"labels":{"bad key!":"value"},"parts":[{"name":"a"}]}}`,
		"add full spec.deep":                       `{"kind":"Thing","spec":{"count":1,"deep":{"on":true},"parts":[{"name":"a"}]}}`,
		"set false spec.deep.on":                   `{"kind":"Thing","spec":{"count":1,"deep":{"on":false},"parts":[{"name":"a"}]}}`,
	} {
		if got, ok := results[change]; !ok {
			t.Errorf("there is no mutation %q", change)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", change, diff)
		}
	}
	if diff := cmp.Diff(object(t, text), seed); diff != "" {
		t.Errorf("the seed was changed: %s", diff)
	}
	for _, m := range All(seed, thing, set, Path{"spec", "deep"}) {
		if m.Path[0] != "spec" || m.Path[1] != "deep" {
			t.Errorf("%s is not within spec.deep", m)
		}
	}
}

func TestSample(t *testing.T) {
	set, thing := things(t)
	all := All(object(t, `{"spec":{}}`), thing, set, nil)
	one := Sample(all, 20, "1")
	if len(one) != 20 {
		t.Fatalf("%d mutations, not 20", len(one))
	}
	if diff := cmp.Diff(one, Sample(all, 20, "1")); diff != "" {
		t.Errorf("the same seed chooses differently: %s", diff)
	}
	if cmp.Equal(one, Sample(all, 20, "2")) {
		t.Error("another seed chooses the same")
	}
	if got := Sample(one, 100, "1"); len(got) != 20 {
		t.Errorf("%d of 20 mutations are left", len(got))
	}
	if slices.ContainsFunc(one, func(m Mutation) bool { return len(m.Path) == 0 }) {
		t.Error("a mutation of the whole object")
	}
}

func TestPath(t *testing.T) {
	p := Path{"spec", "a/b~c", 3, "name"}
	if got := p.String(); got != "spec.a/b~c[3].name" {
		t.Error(got)
	}
	if got := p.Pointer(); got != "/spec/a~1b~0c/3/name" {
		t.Error(got)
	}
	if got := Pattern("spec.containers[12].env[key].name"); got != "spec.containers[*].env[*].name" {
		t.Error(got)
	}
}
