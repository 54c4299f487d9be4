// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flowschema

import (
	"cmp"
	"context"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

var docs = flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("PriorityLevel", "string", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
	registry.Column("MatchingPrecedence", "string", docs["matchingPrecedence"]),
	registry.Column("DistinguisherMethod", "string", docs["distinguisherMethod"]),
	registry.AgeColumn,
	registry.Column("MissingPL", "string", "references a broken or non-existent PriorityLevelConfiguration"),
}

func row(f *flowcontrolv1.FlowSchema) []any {
	method, dangling := "<none>", "?"
	if f.Spec.DistinguisherMethod != nil {
		method = string(f.Spec.DistinguisherMethod.Type)
	}
	for _, c := range f.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			dangling = string(c.Status)
			break
		}
	}
	return []any{f.Name, f.Spec.PriorityLevelConfiguration.Name, int64(f.Spec.MatchingPrecedence), method, registry.Age(f.CreationTimestamp), dangling}
}

// inOrder prints a list in the order in which schemas are tried on a request.
type inOrder struct{ rest.TableConvertor }

func (t inOrder) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	if list, ok := obj.(*flowcontrolv1.FlowSchemaList); ok {
		sorted := *list
		sorted.Items = slices.SortedStableFunc(slices.Values(list.Items), func(a, b flowcontrolv1.FlowSchema) int {
			return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
		})
		obj = &sorted
	}
	return t.TableConvertor.ConvertToTable(ctx, obj, options)
}
