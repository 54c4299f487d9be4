// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Unlimited is no bound on the length of a list or map.
const Unlimited = -1

// ValidateSlice checks each item of a list. The items of a list that is too long are not looked at: that could take long.
func ValidateSlice[T any](items []T, limit int, validate func(item T, path *field.Path) field.ErrorList, path *field.Path) field.ErrorList {
	if limit >= 0 && len(items) > limit {
		return field.ErrorList{field.TooMany(path, len(items), limit)}
	}
	var errs field.ErrorList
	for i, item := range items {
		errs = append(errs, validate(item, path.Index(i))...)
	}
	return errs
}

// ValidateSet does so for a list in which no key may come twice.
func ValidateSet[T any, K comparable](items []T, limit int, validate func(item T, path *field.Path) field.ErrorList, key func(T) K, path *field.Path) field.ErrorList {
	errs := ValidateSlice(items, limit, validate, path)
	if limit >= 0 && len(items) > limit {
		return errs
	}
	seen := sets.New[K]()
	for i, item := range items {
		if k := key(item); seen.Has(k) {
			errs = append(errs, field.Duplicate(path.Index(i), k))
		} else {
			seen.Insert(k)
		}
	}
	return errs
}

// ValidateMap checks keys, reported at the map, and items, reported under their key, of which no more than keyLength is
// shown.
func ValidateMap[K ~string, T any](m map[K]T, limit, keyLength int, validateKey func(key K, path *field.Path) field.ErrorList, validate func(item T, path *field.Path) field.ErrorList, path *field.Path) field.ErrorList {
	if limit >= 0 && len(m) > limit {
		return field.ErrorList{field.TooMany(path, len(m), limit)}
	}
	var errs field.ErrorList
	for key, item := range m {
		errs = append(errs, validateKey(key, path)...)
		errs = append(errs, validate(item, path.Key(shorten(string(key), keyLength)))...)
	}
	return errs
}

// shorten leaves out the middle.
func shorten(s string, limit int) string {
	const gap = "..."
	if len(s) <= limit {
		return s
	}
	rest := limit - len(gap)
	return s[:(rest+1)/2] + gap + s[len(s)-rest/2:]
}
