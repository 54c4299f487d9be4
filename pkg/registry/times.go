// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateTimes refuses times whose year has not four digits. Protobuf can hold them, and in JSON a time zone can make them;
// written as JSON they could never be read again, and every list that the object is in would fail for the clients.
func ValidateTimes(o any) field.ErrorList {
	if !holdsFarTime(reflect.ValueOf(o)) {
		return nil
	}
	var errs field.ErrorList
	findTimes(reflect.ValueOf(o), nil, func(t time.Time, path *field.Path) {
		if far(t) {
			errs = append(errs, field.Invalid(path, t.UTC().Format(time.RFC3339), "must be of a year with four digits"))
		}
	})
	return errs
}

func far(t time.Time) bool {
	year := t.UTC().Year()
	return year < 0 || year > 9999
}

// holdsFarTime is the answer for all objects but a few, without a path for each field.
func holdsFarTime(v reflect.Value) bool {
	switch v.Type() {
	case timeType:
		return far(v.Interface().(metav1.Time).Time)
	case microTimeType:
		return far(v.Interface().(metav1.MicroTime).Time)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && holdsFarTime(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if holdsFarTime(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if holdsFarTime(entries.Value()) {
				return true
			}
		}
	case reflect.Struct:
		for _, f := range timeFields(v.Type()) {
			if holdsFarTime(v.Field(f.index)) {
				return true
			}
		}
	}
	return false
}

var (
	timeType      = reflect.TypeFor[metav1.Time]()
	microTimeType = reflect.TypeFor[metav1.MicroTime]()
)

// findTimes calls found with each time in a value.
func findTimes(v reflect.Value, path *field.Path, found func(time.Time, *field.Path)) {
	switch v.Type() {
	case timeType:
		found(v.Interface().(metav1.Time).Time, path)
		return
	case microTimeType:
		found(v.Interface().(metav1.MicroTime).Time, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			findTimes(v.Elem(), path, found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			findTimes(v.Index(i), path.Index(i), found)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			findTimes(entries.Value(), path.Key(fmt.Sprint(entries.Key())), found)
		}
	case reflect.Struct:
		for _, f := range timeFields(v.Type()) {
			below := path
			if f.name != "" {
				below = path.Child(f.name)
			}
			findTimes(v.Field(f.index), below, found)
		}
	}
}

// timeField is a field that has times in it; its name in JSON is empty if it is inlined.
type timeField struct {
	index int
	name  string
}

// fieldsWithTimes remembers them: reflect.Type to []timeField.
var fieldsWithTimes sync.Map

// timeFields are those of a struct.
func timeFields(t reflect.Type) []timeField {
	if known, ok := fieldsWithTimes.Load(t); ok {
		return known.([]timeField)
	}
	var fields []timeField
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && holdsTimes(f.Type, map[reflect.Type]bool{}) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, timeField{i, name})
		}
	}
	known, _ := fieldsWithTimes.LoadOrStore(t, fields)
	return known.([]timeField)
}

// holdsTimes says whether there may be a time in a value of a type. seen are the types that it is part of.
func holdsTimes(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch {
	case t == timeType || t == microTimeType:
		return true
	case seen[t]:
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return holdsTimes(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() && holdsTimes(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
