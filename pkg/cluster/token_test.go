// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/cluster-bootstrap/token/api"
)

// TestAwaitSignature: whoever waits for a signature that never comes is told why, and no longer than it can come.
func TestAwaitSignature(t *testing.T) {
	t.Parallel()
	unsigned := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: api.ConfigMapClusterInfo},
		Data:       map[string]string{api.KubeConfigKey: "{}"},
	}
	for _, tc := range []struct {
		name          string
		ttl, waits    time.Duration
		cause, remedy string
	}{
		{name: "for ever", waits: tokenPatience, cause: "no controller signs", remedy: "bootstrap-signer-controller"},
		{name: "an hour", ttl: time.Hour, waits: tokenPatience, cause: "no controller signs", remedy: "bootstrap-signer-controller"},
		{name: "two seconds", ttl: 2 * time.Second, waits: 2 * time.Second, cause: "the token ended before", remedy: "--ttl 1h"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tokenPatience)
				defer cancel()
				token := Token{Token: "abcdef.0123456789abcdef"}
				if tc.ttl > 0 {
					token.Expires = &metav1.Time{Time: time.Now().Add(tc.ttl)}
				}
				begun := time.Now()
				err := awaitSignature(ctx, fake.NewClientset(unsigned.DeepCopy()), token, "sha256:00")
				if p, ok := errors.AsType[*Problem](err); !ok || !strings.Contains(p.Cause, tc.cause) || !strings.Contains(p.Remedy, tc.remedy) {
					t.Errorf("%v, want %q, %q", err, tc.cause, tc.remedy)
				}
				if waited := time.Since(begun); waited != tc.waits {
					t.Errorf("it took %s, want %s", waited, tc.waits)
				}
			})
		})
	}
}
