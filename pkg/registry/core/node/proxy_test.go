// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

// atAddress are kubelets on nodes that are named as their hosts. All connections to 10.0.0.1 end at the server.
type atAddress struct{ server *httptest.Server }

func (k atAddress) Location(_ context.Context, name string) (*url.URL, error) {
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(map[string]string{"own": "10.0.0.1", "loopback": "127.0.0.1", "name": "localhost", "metadata": "169.254.169.254"}[name], "10250")}, nil
}

func (k atAddress) Transport() http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, hostport string) (net.Conn, error) {
		if hostport != "10.0.0.1:10250" {
			return nil, fmt.Errorf("connected to %s", hostport)
		}
		return (&net.Dialer{}).DialContext(ctx, network, k.server.Listener.Addr().String())
	}}
}

func TestProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s?%s", r.Method, r.URL.Path, r.URL.RawQuery)
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{Kubelet: atAddress{server}}, registry.Group{
		AddToScheme: func(scheme *runtime.Scheme) error {
			if err := AddConversions(scheme); err != nil {
				return err
			}
			return corev1.AddToScheme(scheme)
		},
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{Resource}}},
	})).CoreV1().RESTClient()
	for _, tc := range []struct{ name, node, want, failure string }{
		{"kubelet", "own", "GET /stats/summary?x=y", ""},
		{"kubelet by its port", "own:10250", "GET /stats/summary?x=y", ""},
		{"loopback", "loopback", "", "address not allowed"},
		{"loopback, another port", "loopback:" + port, "", "address not allowed"},
		{"loopback, another scheme", "https:loopback:" + port, "", "address not allowed"},
		{"a name of loopback", "name", "", "address not allowed"},
		{"a name of loopback, another port", "name:" + port, "", "address not allowed"},
		{"metadata service", "metadata:80", "", "address not allowed"},
		{"bad name", "a:b:c:d", "", `invalid node request "a:b:c:d"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := client.Get().MaxRetries(0).RequestURI("/api/v1/nodes/" + tc.node + "/proxy/stats/summary?x=y").DoRaw(t.Context())
			if (err == nil) != (tc.failure == "") || err == nil && string(got) != tc.want {
				t.Fatalf("got %q, %v, want %q", got, err, tc.want)
			}
			if err != nil && (!apierrors.IsBadRequest(err) || !strings.Contains(string(got), tc.failure)) {
				t.Errorf("error is %v: %s, want the bad request %q", err, got, tc.failure)
			}
		})
	}
}

// renewing is a kubelet that is shown another transport after each renewal of the API server's certificate.
type renewing struct {
	registry.Kubelet
	transport http.RoundTripper
}

func (k *renewing) Transport() http.RoundTripper { return k.transport }

func TestProxy_RenewedCertificate(t *testing.T) {
	first := &http.Transport{MaxIdleConnsPerHost: 1}
	k := &renewing{transport: first}
	r := newProxyREST(k)
	defer r.Destroy()
	made := map[*http.Transport]int{}
	for range 2 {
		got, err := r.fenced()
		if err != nil {
			t.Fatal(err)
		}
		made[got]++
	}
	if len(made) != 1 {
		t.Errorf("%d transports for one certificate, connections are not kept", len(made))
	}
	k.transport = &http.Transport{MaxIdleConnsPerHost: 2}
	if got, err := r.fenced(); err != nil || got.MaxIdleConnsPerHost != 2 {
		t.Errorf("after a renewal: %v, %v, want the transport of the new certificate", got, err)
	}
	k.transport = http.NewFileTransport(http.Dir(t.TempDir()))
	if _, err := r.fenced(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("without a certificate = %v, want ServiceUnavailable", err)
	}
}
