// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/activator"
)

// TestCall has a function that answers in each way, and one that wants this process to ask somebody else.
func TestCall(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Ce-Type") {
		case "redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "broken":
			http.Error(w, "KeyError", http.StatusInternalServerError)
		case "refused":
			http.Error(w, "no", http.StatusBadRequest)
		}
	}))
	t.Cleanup(pod.Close)
	name := types.NamespacedName{Namespace: "default", Name: "f"}
	r := &Reconciler{config: Config{Address: netip.MustParseAddr("127.0.0.1")}}
	r.activator = activator.New(activator.Config{
		Address: r.config.Address, Wanted: func(types.NamespacedName) {}, Failed: func(types.NamespacedName, string) {},
		Webhook: func(context.Context, types.NamespacedName, string, http.Header, []byte) error { return nil },
	})
	t.Cleanup(r.activator.Close)
	fn := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Spec: v1alpha1.FunctionSpec{TimeoutSeconds: 5}}
	call := func(kind string) string {
		err := r.call(t.Context(), fn, http.Header{"Ce-Type": {kind}}, []byte("{}"))
		if err != nil {
			return err.Error()
		}
		return ""
	}
	if got := call("early"); got != "the function is not served" {
		t.Errorf("before it is served: %q", got)
	}
	if _, err := r.activator.Serve(name, 0); err != nil {
		t.Fatal(err)
	}
	r.activator.Route(name, activator.Routes{Concurrency: 1, Timeout: 5 * time.Second, Revisions: []activator.Revision{
		{Name: "a", Percent: 100, Pods: []activator.Pod{{Name: "p", Epoch: 1, Address: strings.TrimPrefix(pod.URL, "http://")}}},
	}})
	for kind, want := range map[string]string{"": "", "redirect": "", "broken": "500 Internal Server Error: KeyError", "refused": "400 Bad Request: no"} {
		if got := call(kind); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", kind, got, want)
		}
	}
}
