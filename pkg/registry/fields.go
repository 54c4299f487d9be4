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

// Fields are what an object can be selected by, by their labels.
type Fields[T Object] map[string]func(obj T) string

// selectableFields returns the field set of an object, metadata included. A field without a value is left out, which is the same to a
// selector: the watch cache has such a set of each object and version.
func (r *Resource[T]) selectableFields(obj T) fields.Set {
	set := make(fields.Set, 2)
	set["metadata.name"] = obj.GetName()
	if !r.ClusterScoped {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	for label, value := range r.Fields {
		if v := value(obj); v != "" {
			set[label] = v
		}
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
	if len(r.Fields) == 0 {
		return nil // the scheme knows name and namespace, the latter for cluster-scoped kinds too, as upstream's
	}
	return scheme.AddFieldLabelConversionFunc(r.Kind, func(label, value string) (string, string, error) {
		if _, ok := r.Fields[label]; !ok && label != "metadata.name" && (label != "metadata.namespace" || r.ClusterScoped) {
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
	value := r.Fields[name]
	return storage.IndexerFuncs{name: func(obj runtime.Object) string { return value(obj.(T)) }}
}

func (r *Resource[T]) indexers() *cache.Indexers {
	if len(r.Indexed) == 0 {
		return nil
	}
	ix := cache.Indexers{}
	for _, name := range r.Indexed {
		value := r.Fields[name]
		ix[storage.FieldIndex(name)] = func(obj any) ([]string, error) {
			o, ok := obj.(T)
			if !ok {
				return nil, fmt.Errorf("not a %s: %T", r.Kind.Kind, obj)
			}
			return []string{value(o)}, nil
		}
	}
	return &ix
}
