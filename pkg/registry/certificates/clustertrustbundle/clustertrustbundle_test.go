// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clustertrustbundle_test

import (
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry/certificates/clustertrustbundle"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	type bundle = certificatesv1.ClusterTrustBundle
	ca, err := pki.NewCA("anchor")
	if err != nil {
		t.Fatal(err)
	}
	second, err := pki.NewCA("second")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(pki.Request{CommonName: "leaf"})
	if err != nil {
		t.Fatal(err)
	}
	anchor := string(ca.Cert)
	contents := func(s string) func(*bundle) { return func(b *bundle) { b.Spec.TrustBundle = s } }
	invalid := func(name, field string, mutate func(*bundle)) registrytest.Invalid[*bundle] {
		return registrytest.Invalid[*bundle]{Name: name, Field: field, Mutate: mutate}
	}
	block := func(kind string, headers map[string]string, data string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Headers: headers, Bytes: []byte(data)}))
	}
	valid := func() *bundle {
		return &bundle{
			ObjectMeta: metav1.ObjectMeta{Name: "b"},
			Spec:       certificatesv1.ClusterTrustBundleSpec{TrustBundle: anchor},
		}
	}
	registrytest.Run(t, clustertrustbundle.Resource, registrytest.Case[*bundle]{
		AddToScheme: certificatesv1.AddToScheme,
		Valid:       valid,
		Update:      contents("a comment\n" + anchor + string(second.Cert)),
		Invalid: []registrytest.Invalid[*bundle]{
			invalid("nothing", "spec.trustBundle", contents("")),
			invalid("no certificate", "spec.trustBundle", contents(anchor+block("CERTIFICATE REQUEST", nil, "x"))),
			invalid("headers", "spec.trustBundle", contents(block("CERTIFICATE", map[string]string{"a": "b"}, "x"))),
			invalid("rubbish", "spec.trustBundle", contents(block("CERTIFICATE", nil, "x"))),
			invalid("no CA", "spec.trustBundle", contents(string(leaf.Cert))),
			invalid("twice", "spec.trustBundle", contents(anchor+anchor)),
			invalid("too long", "spec.trustBundle", contents(anchor+strings.Repeat("\n", 1<<20))),
			invalid("signer", "spec.signerName", func(b *bundle) { b.Name, b.Spec.SignerName = "s:b", "s" }),
			invalid("name without the signer", "metadata.name", func(b *bundle) { b.Spec.SignerName = "example.com/s" }),
			invalid("name with a signer", "metadata.name", func(b *bundle) { b.Name = "example.com:s:b" }),
			invalid("generated name without the signer", "metadata.generateName", func(b *bundle) {
				b.Name, b.GenerateName, b.Spec.SignerName = "", "b-", "example.com/s"
			}),
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*bundle]{
			{Name: "signer", Field: "spec.signerName", Mutate: func(b *bundle) { b.Spec.SignerName = "example.com/s" }},
			{Name: "contents", Field: "spec.trustBundle", Mutate: contents("x")},
		},
		Row: []any{"b", "<none>"},
	})
	registrytest.Run(t, clustertrustbundle.Resource, registrytest.Case[*bundle]{
		AddToScheme: certificatesv1.AddToScheme,
		Valid: func() *bundle {
			b := valid()
			b.Name, b.Spec.SignerName = "example.com:s:b", "example.com/s"
			return b
		},
		NoGenerateName: true, // the prefix must be that of the signer
		Row:            []any{"example.com:s:b", "example.com/s"},
	})
}
