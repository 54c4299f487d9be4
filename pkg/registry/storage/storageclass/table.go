// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageclass

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/apis/storage/storageclass"
)

// markDefault is the table of storage classes. A list shows which one is the default, and one cannot tell that from a class
// alone.
type markDefault struct{ rest.TableConvertor }

// ConvertToTable implements rest.TableConvertor.
func (m markDefault) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table, err := m.TableConvertor.ConvertToTable(ctx, object, options)
	list, ok := object.(*storagev1.StorageClassList)
	if err != nil || !ok {
		return table, err
	}
	var classes []*storagev1.StorageClass
	for i := range list.Items {
		classes = append(classes, &list.Items[i])
	}
	chosen := storageclass.Default(classes)
	for i, c := range classes {
		if c == chosen {
			table.Rows[i].Cells[0] = c.Name + " (default)"
		}
	}
	return table, nil
}
