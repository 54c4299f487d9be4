// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestRecursiveReadOnly(t *testing.T) {
	tests := []struct {
		name                      string
		mount                     corev1.VolumeMount
		supported, notSupported   bool
		err, errWhereNotSupported string
	}{
		{name: "not asked for", mount: corev1.VolumeMount{ReadOnly: true}},
		{name: "disabled", mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyDisabled)}},
		{name: "if possible", mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyIfPossible)}, supported: true},
		{name: "enabled", mount: corev1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyEnabled)}, supported: true,
			errWhereNotSupported: `volume "v" requested recursive read-only mode, but it is not supported by the runtime`},
		{name: "writable", mount: corev1.VolumeMount{Name: "v", RecursiveReadOnly: new(corev1.RecursiveReadOnlyIfPossible)},
			err: `volume "v" requested recursive read-only mode, but it is not read-only`},
		{name: "propagation", mount: corev1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyIfPossible),
			MountPropagation: new(corev1.MountPropagationHostToContainer)},
			err: `volume "v" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"`},
		{name: "unknown", mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyMode("x"))}, err: `unknown recursive read-only mode "x"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			text := func(err error) string {
				if err == nil {
					return ""
				}
				return err.Error()
			}
			if got, err := RecursiveReadOnly(&tc.mount, true); got != tc.supported || text(err) != tc.err {
				t.Errorf("supported: %v, %v", got, err)
			}
			if got, err := RecursiveReadOnly(&tc.mount, false); got != tc.notSupported || text(err) != tc.err+tc.errWhereNotSupported {
				t.Errorf("not supported: %v, %v", got, err)
			}
		})
	}
}
