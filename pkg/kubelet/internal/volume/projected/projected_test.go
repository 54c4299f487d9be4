// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// A container for debugging counts like any other: it is to read the token too.
func TestOnlyUser(t *testing.T) {
	t.Parallel()
	as := func(user *int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: user} }
	for _, tc := range []struct {
		name                         string
		pod, init, regular, debugged *int64
		want                         *int64
	}{
		{name: "nobody says"},
		{name: "some say", init: new(int64(1000)), regular: new(int64(1000))},
		{name: "by default", pod: new(int64(1000)), want: new(int64(1000))},
		{name: "all say the same", init: new(int64(0)), regular: new(int64(0)), debugged: new(int64(0)), want: new(int64(0))},
		{name: "another one in the beginning", pod: new(int64(1000)), init: new(int64(999))},
		{name: "another one for debugging", pod: new(int64(1000)), debugged: new(int64(1001))},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: tc.pod},
			InitContainers:  []corev1.Container{{SecurityContext: as(tc.init)}},
			Containers:      []corev1.Container{{SecurityContext: as(tc.regular)}, {SecurityContext: as(tc.regular)}},
			EphemeralContainers: []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{SecurityContext: as(tc.debugged)}},
			},
		}}
		if diff := cmp.Diff(tc.want, onlyUser(pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
