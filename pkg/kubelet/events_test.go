// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// sink counts what it takes.
type sink struct{ taken int }

func (s *sink) Create(e *corev1.Event) (*corev1.Event, error)          { s.taken++; return e, nil }
func (s *sink) Update(e *corev1.Event) (*corev1.Event, error)          { s.taken++; return e, nil }
func (s *sink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) { s.taken++; return e, nil }

func TestLimitEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &sink{}
		l := limitEvents(ctx, s, 2, 3)
		began := time.Now()
		for i := range 7 {
			var err error
			switch i % 3 {
			case 0:
				_, err = l.Create(&corev1.Event{})
			case 1:
				_, err = l.Update(&corev1.Event{})
			default:
				_, err = l.Patch(&corev1.Event{}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second || s.taken != 7 {
			t.Errorf("three at once and then two a second: %d took %v", s.taken, took)
		}
		cancel()
		if _, err := l.Create(&corev1.Event{}); !errors.Is(err, context.Canceled) || s.taken != 7 {
			t.Errorf("the kubelet has ended: %v", err)
		}
	})
	if s := (&sink{}); limitEvents(t.Context(), s, 0, 0) != s {
		t.Error("no rate is a limit")
	}
}

// What of the node's resolver configuration does not fit into that of pods is told once, unless pods are to have none.
func TestCheckResolver(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "resolv.conf")
	for path, want := range map[string]string{
		missing: "Warning CheckLimitsForResolvConf open " + missing + ": no such file or directory", os.DevNull: "", "": "",
	} {
		recorder := record.NewFakeRecorder(1)
		k := &Kubelet{recorder: recorder, cfg: Config{NodeName: "n", Configuration: &kubeletconfigv1beta1.KubeletConfiguration{ResolverConfig: &path}}}
		k.checkResolver()
		close(recorder.Events)
		if got := <-recorder.Events; got != want {
			t.Errorf("%q: told %q, want %q", path, got, want)
		}
	}
}
