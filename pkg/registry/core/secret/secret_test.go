// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package secret_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/core/secret"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	yes := true
	ofType := func(typ corev1.SecretType) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Type = typ; s.Data = nil }
	}
	registrytest.Run(t, secret.Resource, registrytest.Case[*corev1.Secret]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("v")}}
		},
		Update: func(s *corev1.Secret) { s.Data["k"] = []byte("w") },
		Invalid: []registrytest.Invalid[*corev1.Secret]{
			{Name: "bad key", Mutate: func(s *corev1.Secret) { s.Data["a b"] = nil }, Field: "data[a b]"},
			{Name: "token without account", Mutate: ofType(corev1.SecretTypeServiceAccountToken), Field: "metadata.annotations[kubernetes.io/service-account.name]"},
			{Name: "dockercfg", Mutate: ofType(corev1.SecretTypeDockercfg), Field: "data[.dockercfg]"},
			{Name: "dockerconfigjson", Mutate: ofType(corev1.SecretTypeDockerConfigJson), Field: "data[.dockerconfigjson]"},
			{Name: "basic auth", Mutate: ofType(corev1.SecretTypeBasicAuth), Field: "data[username]"},
			{Name: "ssh auth", Mutate: ofType(corev1.SecretTypeSSHAuth), Field: "data[ssh-privatekey]"},
			{Name: "tls", Mutate: ofType(corev1.SecretTypeTLS), Field: "data[tls.key]"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*corev1.Secret]{
			{Name: "type", Mutate: func(s *corev1.Secret) { s.Type = "x" }, Field: "type"},
			{
				Name:   "immutable data",
				From:   func(s *corev1.Secret) { s.Immutable = &yes },
				Mutate: func(s *corev1.Secret) { s.Data["k"] = []byte("w") },
				Field:  "data",
			},
		},
		Row: []any{"s", "Opaque", int64(1)},
	})
}
