// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"iter"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
)

type topField struct {
	index int
	json  string
}

// topFields are the fields of an API struct under its TypeMeta, with their JSON names.
func topFields[T Object](obj T) iter.Seq[topField] {
	t := reflect.TypeOf(obj).Elem()
	return func(yield func(topField) bool) {
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name == "" { // TypeMeta is inlined
				continue
			}
			if !yield(topField{i, name}) {
				return
			}
		}
	}
}

// selectableFields returns the field set of an object, metadata included.
func (r *Resource[T]) selectableFields(obj T) fields.Set {
	set := fields.Set{}
	if r.Fields != nil {
		set = r.Fields(obj)
	}
	set["metadata.name"] = obj.GetName()
	if !r.ClusterScoped {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	return set
}

func (r *Resource[T]) attrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	o, ok := obj.(T)
	if !ok {
		return nil, nil, fmt.Errorf("given object is a %T, not a %s", obj, r.Kind.Kind)
	}
	return o.GetLabels(), r.selectableFields(o), nil
}

// addFieldLabels lets clients select by the resource's fields.
func (r *Resource[T]) addFieldLabels(scheme *runtime.Scheme) error {
	if r.Fields == nil {
		return nil // the scheme knows name and namespace, the latter for cluster-scoped kinds too, as upstream's
	}
	known := r.selectableFields(r.New())
	return scheme.AddFieldLabelConversionFunc(r.Kind, func(label, value string) (string, string, error) {
		if _, ok := known[label]; !ok {
			if r.UnknownField != "" {
				return "", "", fmt.Errorf(r.UnknownField, label)
			}
			return "", "", fmt.Errorf("field label not supported: %s", label)
		}
		return label, value, nil
	})
}

func (r *Resource[T]) triggers() storage.IndexerFuncs {
	if len(r.Indexed) == 0 {
		return nil
	}
	// The watch cache supports a single trigger per resource.
	name := r.Indexed[0]
	return storage.IndexerFuncs{name: func(obj runtime.Object) string { return r.Fields(obj.(T))[name] }}
}

func (r *Resource[T]) indexers() *cache.Indexers {
	if len(r.Indexed) == 0 {
		return nil
	}
	ix := cache.Indexers{}
	for _, name := range r.Indexed {
		ix[storage.FieldIndex(name)] = func(obj any) ([]string, error) {
			o, ok := obj.(T)
			if !ok {
				return nil, fmt.Errorf("not a %s: %T", r.Kind.Kind, obj)
			}
			return []string{r.Fields(o)[name]}, nil
		}
	}
	return &ix
}
