// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// failing is a Life whose first Sync fails.
type failing struct {
	podworker.Life
	errs []error
}

func (f *failing) Sync(context.Context, *corev1.Pod) (podworker.Result, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return podworker.Result{Terminate: err == nil}, err
}

func TestLife(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("mounting: %w", errors.Join(plugin.Event(errors.New("other")), plugin.Event(fmt.Errorf("first: %w", &plugin.AttachLimitError{Volumes: "data"}))))
	for _, tc := range []struct {
		name   string
		err    error
		reason string
	}{
		{"as many as it takes", full, "VolumeAttachmentLimitExceeded"},
		{"another error", errors.New("no"), ""},
		{"none", nil, ""},
	} {
		var got string
		life := Life(&failing{errs: []error{tc.err, nil}}, func(_ context.Context, _ *corev1.Pod, f status.Failure) { got = f.Reason })
		result, err := life.Sync(t.Context(), &corev1.Pod{})
		if got != tc.reason {
			t.Errorf("%s: ended by %q", tc.name, got)
		}
		if ends := tc.reason != "" || tc.err == nil; result.Terminate != ends || (err == nil) != ends {
			t.Errorf("%s: %+v, %v", tc.name, result, err)
		}
	}
}
