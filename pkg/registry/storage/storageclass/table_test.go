// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageclass

import (
	"context"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rows is a table of the names of classes.
type rows struct{}

func (rows) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if list, ok := object.(*storagev1.StorageClassList); ok {
		for _, c := range list.Items {
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{c.Name}})
		}
	}
	return table, nil
}

func TestMarkDefault(t *testing.T) {
	chosen := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "b", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}}
	table, err := markDefault{rows{}}.ConvertToTable(t.Context(), &storagev1.StorageClassList{Items: []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, chosen}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := table.Rows[0].Cells[0], table.Rows[1].Cells[0]; a != "a" || b != "b (default)" {
		t.Errorf("names are %v and %v", a, b)
	}
	if one, err := (markDefault{rows{}}).ConvertToTable(t.Context(), &chosen, nil); err != nil || len(one.Rows) != 0 {
		t.Errorf("a class alone was changed: %v, %v", one, err)
	}
}
