// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/provisioner"
)

// TestPublishStorageClass: the class is made once, and what its users change in it is theirs.
func TestPublishStorageClass(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	classes := client.StorageV1().StorageClasses()
	if err := publishStorageClass(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	class, err := classes.Get(t.Context(), provisioner.ClassName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	class.Annotations = nil
	if _, err := classes.Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := publishStorageClass(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if class, err = classes.Get(t.Context(), provisioner.ClassName, metav1.GetOptions{}); err != nil || len(class.Annotations) > 0 {
		t.Errorf("annotations are %v (%v)", class.Annotations, err)
	}
}
