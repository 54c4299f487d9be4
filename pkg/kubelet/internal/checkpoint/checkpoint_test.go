// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if err := s.Save(pod); err != nil {
		t.Fatal(err)
	}
	// A write that was cut off and a damaged file do not hide the others.
	for name, data := range map[string]string{".tmp-1": "{", "broken.json": "{", "other.json": `{"metadata":{"uid":"x"}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Load()
	if err == nil {
		t.Error("damaged checkpoints were not reported")
	}
	if diff := cmp.Diff([]*corev1.Pod{pod}, got); diff != "" {
		t.Errorf("loaded pods (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, ".tmp-1")); !os.IsNotExist(err) {
		t.Errorf("left-over temporary file is still there: %v", err)
	}
	if err := s.Remove("u1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("u1"); err != nil {
		t.Errorf("removing twice: %v", err)
	}
	if got, _ = s.Load(); len(got) != 0 {
		t.Errorf("pods after removal: %v", got)
	}
}
