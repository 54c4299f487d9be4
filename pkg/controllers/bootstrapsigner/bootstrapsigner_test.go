// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapsigner

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cluster-bootstrap/token/jws"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// token is a valid one; changes replace values, an empty one removes its key.
func token(id string, changes map[string]string) corev1.Secret {
	data := map[string]string{
		"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", "expiration": "2026-06-01T13:00:00Z",
	}
	s := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token", Data: map[string][]byte{}}
	maps.Copy(data, changes)
	for k, v := range data {
		if v != "" {
			s.Data[k] = []byte(v)
		}
	}
	return s
}

func TestTokens(t *testing.T) {
	elsewhere, opaque, misnamed := token("abcdef", nil), token("abcdef", nil), token("abcdef", nil)
	elsewhere.Namespace, opaque.Type, misnamed.Name = "ns", corev1.SecretTypeOpaque, "token"
	for name, tt := range map[string]struct {
		secret corev1.Secret
		want   bool
	}{
		"valid":                {token("abcdef", nil), true},
		"for ever":             {token("abcdef", map[string]string{"expiration": ""}), true},
		"expired":              {token("abcdef", map[string]string{"expiration": "2026-06-01T11:00:00Z"}), false},
		"not for signing":      {token("abcdef", map[string]string{"usage-bootstrap-signing": ""}), false},
		"without secret":       {token("abcdef", map[string]string{"token-secret": ""}), false},
		"with another's id":    {token("abcdef", map[string]string{"token-id": "xxxxxx"}), false},
		"without id":           {token("abcdef", map[string]string{"token-id": ""}), false},
		"of another namespace": {elsewhere, false},
		"of another type":      {opaque, false},
		"of another name":      {misnamed, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tokens([]corev1.Secret{tt.secret}, now); (len(got) == 1 && got["abcdef"] == "0123456789abcdef") != tt.want || len(got) > 1 {
				t.Errorf("tokens are %v, want it: %t", got, tt.want)
			}
		})
	}
}

func TestSign_NoKubeconfig(t *testing.T) {
	data := map[string]string{"jws-kubeconfig-abcdef": "x"}
	got, err := sign(data, map[string]string{"fedcba": "s"})
	if diff := cmp.Diff(data, got); err != nil || diff != "" {
		t.Errorf("error %v, data (-want +got):\n%s", err, diff)
	}
}

func TestReconcile(t *testing.T) {
	info := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": "K", "other": "o", "jws-kubeconfig-fedcba": "of a token that is gone", "jws-kubeconfig-abcdef": "old"},
	}
	secret := token("abcdef", nil)
	signature, err := jws.ComputeDetachedSignature("K", "abcdef", "0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{info, &secret},
		Request: reconcile.Request{NamespacedName: clusterInfo},
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(now)}
		},
		Want: func(ctx context.Context, c client.Client) error {
			var got corev1.ConfigMap
			if err := c.Get(ctx, clusterInfo, &got); err != nil {
				return err
			}
			if diff := cmp.Diff(map[string]string{"kubeconfig": "K", "other": "o", "jws-kubeconfig-abcdef": signature}, got.Data); diff != "" {
				return fmt.Errorf("data (-want +got):\n%s", diff)
			}
			return nil
		},
	})
}
