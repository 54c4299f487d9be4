// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/status"
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

func TestFailure(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		t.Helper()
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := status.Failure{Reason: "Evicted", Message: "m", Grace: time.Second, Disrupted: true, Clear: true}
	if err := open().Fail("u", want); err != nil {
		t.Fatal(err)
	}
	if got, err := open().Failure("u"); err != nil || got == nil || *got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if pods, err := open().Load(); len(pods) > 0 || err != nil {
		t.Errorf("it is taken for a pod: %v, %v", pods, err)
	}
	if got, err := open().Failure("v"); got != nil || err != nil {
		t.Errorf("of another: %+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "w.failure"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := open().Failure("w"); err != nil || got == nil || got.Message == "" {
		t.Errorf("of a damaged note: %+v, %v", got, err)
	}
	if err := open().Remove("u"); err != nil {
		t.Fatal(err)
	}
	if got, err := open().Failure("u"); got != nil || err != nil {
		t.Errorf("after its removal: %+v, %v", got, err)
	}
}
