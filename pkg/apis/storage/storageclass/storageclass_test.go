// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageclass

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDefault(t *testing.T) {
	class := func(name, annotation string, age int64) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{annotation: "true"}, CreationTimestamp: metav1.NewTime(time.Unix(1000-age, 0)),
		}}
	}
	const ga, beta = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	for name, tc := range map[string]struct {
		classes []*storagev1.StorageClass
		want    string
	}{
		"none":             {[]*storagev1.StorageClass{class("a", "other", 0)}, ""},
		"one":              {[]*storagev1.StorageClass{class("a", "other", 0), class("b", ga, 1)}, "b"},
		"beta":             {[]*storagev1.StorageClass{class("b", beta, 1)}, "b"},
		"the youngest":     {[]*storagev1.StorageClass{class("a", ga, 2), class("b", ga, 1), class("c", ga, 3)}, "b"},
		"the first of two": {[]*storagev1.StorageClass{class("c", ga, 1), class("b", ga, 1)}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if c := Default(tc.classes); c != nil {
				got = c.Name
			}
			if got != tc.want {
				t.Errorf("default is %q, want %q", got, tc.want)
			}
		})
	}
}
