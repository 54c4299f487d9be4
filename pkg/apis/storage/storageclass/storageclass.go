// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package storageclass tells which StorageClass claims get that ask for none. Touch it when the default is chosen otherwise.
package storageclass

import (
	storagev1 "k8s.io/api/storage/v1"
)

// defaultAnnotations mark a class as the default one; the second is the beta form.
var defaultAnnotations = []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}

// Default is the youngest class that is marked as the default, of those the first by name; nil if none is marked.
func Default(all []*storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for _, c := range all {
		if marked(c) && (found == nil || before(c, found)) {
			found = c
		}
	}
	return found
}

func marked(c *storagev1.StorageClass) bool {
	for _, a := range defaultAnnotations {
		if c.Annotations[a] == "true" {
			return true
		}
	}
	return false
}

func before(a, b *storagev1.StorageClass) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.After(b.CreationTimestamp.Time)
	}
	return a.Name < b.Name
}
