// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What a hook cannot do is told, and not passed over.
func TestRun_Invalid(t *testing.T) {
	for name, h := range map[string]*corev1.LifecycleHandler{"tcpSocket": {TCPSocket: &corev1.TCPSocketAction{Host: "h"}}, "nothing": {}} {
		err := (&Runner{}).Run(t.Context(), h, &corev1.Container{Name: "c"}, "id", "192.0.2.1")
		if err == nil || !strings.Contains(err.Error(), `lifecycle hook of container "c": invalid handler`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
