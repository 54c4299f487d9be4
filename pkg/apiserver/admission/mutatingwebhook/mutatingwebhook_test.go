// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mutatingwebhook

import (
	"io"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestPlugin_Admit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		config  io.Reader
		objects []runtime.Object
		asked   bool // whether the published plugin is
	}{
		{"no webhook", nil, nil, false},
		{"one for something else", nil, []runtime.Object{&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}},
		}}, true},
		{"a configuration", strings.NewReader(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration"}`), nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := New(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			client := fake.NewClientset(tt.objects...)
			shared := informers.NewSharedInformerFactory(client, 0)
			p.SetExternalKubeClientSet(client)
			p.SetExternalKubeInformerFactory(shared)
			if err := p.ValidateInitialization(); err != nil {
				t.Fatal(err)
			}
			shared.Start(t.Context().Done())
			for kind, ok := range shared.WaitForCacheSync(t.Context().Done()) {
				if !ok {
					t.Fatalf("informer of %v did not sync", kind)
				}
			}
			attrs := admissiontest.Request{Resource: "pods", Object: &corev1.Pod{}}.Attributes()
			if err := p.Admit(t.Context(), attrs, nil); err != nil {
				t.Fatal(err)
			}
			// There it notes what it has seen.
			if asked := attrs.GetReinvocationContext().Value(Name) != nil; asked != tt.asked {
				t.Errorf("the published plugin was asked: %t, want %t", asked, tt.asked)
			}
		})
	}
}
