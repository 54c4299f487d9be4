// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

// oneKubelet is the kubelet of node "n".
type oneKubelet struct{ url *url.URL }

func (k oneKubelet) Location(_ context.Context, name string) (*url.URL, error) {
	if name != "n" {
		return nil, fmt.Errorf("no node %s", name)
	}
	u := *k.url
	return &u, nil
}

func (k oneKubelet) Transport() http.RoundTripper { return http.DefaultTransport }

func TestProxy(t *testing.T) {
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s?%s", r.Method, r.URL.Path, r.URL.RawQuery)
	}))
	defer kubelet.Close()
	location, err := url.Parse(kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{Kubelet: oneKubelet{location}}, registry.Group{
		AddToScheme: func(scheme *runtime.Scheme) error {
			if err := AddConversions(scheme); err != nil {
				return err
			}
			return corev1.AddToScheme(scheme)
		},
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{Resource}}},
	})).CoreV1().RESTClient()
	for path, want := range map[string]string{
		"/api/v1/nodes/n/proxy/stats/summary":                   "GET /stats/summary?x=y",
		"/api/v1/nodes/n:" + location.Port() + "/proxy/healthz": "GET /healthz?x=y",
	} {
		got, err := client.Get().RequestURI(path + "?x=y").DoRaw(t.Context())
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
}

func TestProxyable(t *testing.T) {
	for host, want := range map[string]bool{"10.0.0.1": true, "127.0.0.1": true, "node-a": true, "169.254.169.254": false, "0.0.0.0": false} {
		if err := proxyable(host); (err == nil) != want {
			t.Errorf("%s: %v, want allowed %v", host, err, want)
		}
	}
}
