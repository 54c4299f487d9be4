// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package denyserviceexternalips

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	service := func(ips ...string) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{ExternalIPs: ips}}
	}
	for _, tc := range []struct {
		name    string
		r       admissiontest.Request
		refused bool
	}{
		{"none", admissiontest.Request{Object: service()}, false},
		{"new", admissiontest.Request{Object: service("192.0.2.1")}, true},
		{"kept", admissiontest.Request{Operation: admission.Update, Object: service("192.0.2.1"), Old: service("192.0.2.2", "192.0.2.1")}, false},
		{"added", admissiontest.Request{Operation: admission.Update, Object: service("192.0.2.1", "192.0.2.3"), Old: service("192.0.2.1")}, true},
		{"status", admissiontest.Request{Operation: admission.Update, Subresource: "status", Object: service("192.0.2.1"), Old: service()}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.r.Resource = "services"
			if err := admissiontest.Run(New(), tc.r.Attributes()); (err != nil) != tc.refused || err != nil && !strings.HasSuffix(err.Error(), "Use of external IPs is denied by admission control") {
				t.Errorf("error = %v, want refused = %v", err, tc.refused)
			}
		})
	}
}
