// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"
)

// NameColumn and AgeColumn are the first and usual last columns of kubectl's tables.
var (
	NameColumn = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
	AgeColumn  = metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}
)

// Column is a column that is always shown.
func Column(name, kind, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Description: description}
}

// WideColumn is a column that only -o wide shows.
func WideColumn(name, kind, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Description: description, Priority: 1}
}

// Age is the time since t as kubectl prints it.
func Age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// table converts objects and lists of T to what kubectl get prints.
type table[T Object] struct {
	columns []metav1.TableColumnDefinition
	row     func(obj T) []any
	// conditions may be nil.
	conditions func(obj T) []metav1.TableRowCondition
}

var _ rest.TableConvertor = table[Object]{}

// NewTable is the table of a resource that is no Resource. Row returns one cell per column.
func NewTable[T Object](columns []metav1.TableColumnDefinition, row func(obj T) []any) rest.TableConvertor {
	return table[T]{columns: columns, row: row}
}

func (r *Resource[T]) table() rest.TableConvertor {
	if r.Row == nil {
		return table[T]{
			columns: []metav1.TableColumnDefinition{NameColumn, AgeColumn},
			row:     func(obj T) []any { return []any{obj.GetName(), Age(obj.GetCreationTimestamp())} },
		}
	}
	return table[T]{columns: r.Columns, row: r.Row, conditions: r.RowConditions}
}

func (t table[T]) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	add := func(obj runtime.Object) error {
		o, ok := obj.(T)
		if !ok {
			return fmt.Errorf("cannot print a %T", obj)
		}
		row := metav1.TableRow{Cells: t.row(o), Object: runtime.RawExtension{Object: obj}}
		if t.conditions != nil {
			row.Conditions = t.conditions(o)
		}
		out.Rows = append(out.Rows, row)
		return nil
	}
	if meta.IsListType(object) {
		if err := meta.EachListItem(object, add); err != nil {
			return nil, err
		}
		list, err := meta.ListAccessor(object)
		if err != nil {
			return nil, err
		}
		out.ResourceVersion, out.Continue, out.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else {
		if err := add(object); err != nil {
			return nil, err
		}
		if m, err := meta.CommonAccessor(object); err == nil {
			out.ResourceVersion = m.GetResourceVersion()
		}
	}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = t.columns
	}
	return out, nil
}
