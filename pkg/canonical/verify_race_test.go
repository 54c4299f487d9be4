// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package canonical

import (
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestVerify: a copy that somebody has changed is found out.
func TestVerify(t *testing.T) {
	t.Parallel()
	var a Objects
	shared := transform(t, &a, &corev1.Pod{ObjectMeta: meta("u", "1")})
	shared.Spec.NodeName = "changed"
	defer func() {
		if recover() == nil {
			t.Error("nobody has noticed")
		}
		runtime.KeepAlive(shared)
	}()
	transform(t, &a, &corev1.Pod{ObjectMeta: meta("u", "1")})
}
