// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/test/integration/framework"
)

// extension is an aggregated server, as small as can be. It serves whom the certificate of the API server vouches for.
func extension(t *testing.T, serving pki.Pair, proxies []byte) *httptest.Server {
	t.Helper()
	const group = `"apiVersion":"v1","kind":"APIResourceList","groupVersion":"wardle.example.com/v1","resources":[{"name":"flunders","singularName":"flunder","namespaced":true,"kind":"Flunder","verbs":["get","list"]}]`
	answers := map[string]string{
		"/apis/wardle.example.com/v1":            "{" + group + "}",
		"/openapi/v2":                            `{"swagger":"2.0","info":{"title":"w","version":"v1"},"paths":{"/apis/wardle.example.com/v1/flunders":{}},"definitions":{}}`,
		"/openapi/v3":                            `{"paths":{"apis/wardle.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/wardle.example.com/v1?hash=W"}}}`,
		"/openapi/v3/apis/wardle.example.com/v1": `{"openapi":"3.0.0","info":{"title":"wardle","version":"v1"},"paths":{}}`,
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		if who := r.TLS.PeerCertificates; len(who) == 0 || who[0].Subject.CommonName != "front-proxy-client" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		if answer, ok := answers[r.URL.Path]; ok {
			io.WriteString(w, answer)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/apis/wardle.example.com/v1/") {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "wardle.example.com/v1", "kind": "Flunder",
			"metadata": map[string]any{"name": r.Header.Get("X-Remote-User"), "labels": map[string]any{"groups": strings.Join(r.Header.Values("X-Remote-Group"), "_")}},
		})
	}))
	cert, err := tls.X509KeyPair(serving.Cert, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(proxies)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientCAs: trusted, ClientAuth: tls.VerifyClientCertIfGiven}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// issue makes a certificate of a CA of its own.
func issue(t *testing.T, r pki.Request) (ca []byte, pair pki.Pair) {
	t.Helper()
	issuer, err := pki.NewCA("test of " + r.CommonName)
	if err != nil {
		t.Fatal(err)
	}
	if pair, err = issuer.Issue(r); err != nil {
		t.Fatal(err)
	}
	return issuer.Cert, pair
}

func TestAggregation(t *testing.T) {
	proxies, proxy := issue(t, pki.Request{CommonName: "front-proxy-client"})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "proxy.crt"), filepath.Join(dir, "proxy.key")
	for path, data := range map[string][]byte{certFile: proxy.Cert, keyFile: proxy.Key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusted, err := dynamiccertificates.NewStaticCAContent("proxies", proxies)
	if err != nil {
		t.Fatal(err)
	}
	aggregating := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) {
		c.ProxyClientCertFile, c.ProxyClientKeyFile = certFile, keyFile
		c.Authentication.RequestHeader = &authenticatorfactory.RequestHeaderConfig{
			CAContentProvider: trusted, AllowedClientNames: headerrequest.StaticStringSlice{"front-proxy-client"},
			UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User"}, GroupHeaders: headerrequest.StaticStringSlice{"X-Remote-Group"},
			ExtraHeaderPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
		}
	}})
	ctx := t.Context()
	core := aggregating.Client.CoreV1()
	get := func(path string) (string, error) {
		data, err := aggregating.Client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", jsonType).DoRaw(ctx)
		return string(data), err
	}

	t.Run("whom to trust", func(t *testing.T) {
		framework.Eventually(t, "the ConfigMap", func() error {
			m, err := core.ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if m.Data["requestheader-client-ca-file"] != string(proxies) || m.Data["requestheader-allowed-names"] != `["front-proxy-client"]` || m.Data["client-ca-file"] == "" {
				return fmt.Errorf("data is %v", m.Data)
			}
			return nil
		})
	})

	ca, serving := issue(t, pki.Request{CommonName: "wardle", Hosts: []string{"wardle.default.svc"}})
	server := extension(t, serving, proxies)
	port := int32(server.Listener.Addr().(*net.TCPAddr).Port)
	if _, err := core.Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "wardle"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := aggregatorclient.NewForConfig(aggregating.Admin())
	if err != nil {
		t.Fatal(err)
	}
	services := client.ApiregistrationV1().APIServices()
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.wardle.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "wardle.example.com", Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 10, CABundle: ca,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "wardle", Port: &port},
		},
	}
	if _, err := services.Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the APIService is available", func() error {
		s, err := services.Get(ctx, service.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range s.Status.Conditions {
			if c.Type == apiregistrationv1.Available && c.Status == apiregistrationv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", s.Status.Conditions)
	})

	t.Run("requests", func(t *testing.T) {
		framework.Eventually(t, "a flunder", func() error {
			body, err := get("/apis/wardle.example.com/v1/namespaces/default/flunders/x")
			if err != nil || !strings.Contains(body, `"name":"kubernetes-admin"`) || !strings.Contains(body, "system:masters") {
				return fmt.Errorf("the answer is %s, %w", body, err)
			}
			return nil
		})
	})
	t.Run("rights", func(t *testing.T) {
		_, err := framework.ClientFor(t, aggregating.User("nobody")).Discovery().RESTClient().Get().AbsPath("/apis/wardle.example.com/v1/namespaces/default/flunders/x").DoRaw(ctx)
		if !apierrors.IsForbidden(err) {
			t.Errorf("nobody reads a flunder: %v", err)
		}
	})
	t.Run("discovery", func(t *testing.T) {
		framework.Eventually(t, "the group and its resources", func() error {
			groups, lists, err := aggregating.Client.Discovery().ServerGroupsAndResources()
			if err != nil {
				return err
			}
			last := groups[len(groups)-1].Name
			for _, l := range lists {
				if l.GroupVersion == "wardle.example.com/v1" && len(l.APIResources) == 1 && last == "wardle.example.com" {
					return nil
				}
			}
			return fmt.Errorf("%d lists, the last group is %s", len(lists), last)
		})
	})
	t.Run("OpenAPI", func(t *testing.T) {
		for path, want := range map[string]string{
			"/openapi/v2":                            `"/apis/wardle.example.com/v1/flunders"`,
			"/openapi/v3":                            `"/openapi/v3/apis/wardle.example.com/v1?hash=W"`,
			"/openapi/v3/apis/wardle.example.com/v1": `"title":"wardle"`,
		} {
			if body, err := get(path); err != nil || !strings.Contains(body, want) {
				t.Errorf("%s lacks %s: %v", path, want, err)
			}
		}
	})
	t.Run("removal", func(t *testing.T) {
		if err := services.Delete(context.Background(), service.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "the group is gone", func() error {
			if body, err := get("/apis/wardle.example.com/v1/namespaces/default/flunders/x"); err == nil {
				return fmt.Errorf("the answer is still %s", body)
			}
			if body, err := get("/openapi/v2"); err != nil || strings.Contains(body, "wardle") {
				return fmt.Errorf("OpenAPI still has it, %w", err)
			}
			return nil
		})
	})
}

// TestDiscovery_Order is upstream's.
func TestDiscovery_Order(t *testing.T) {
	t.Parallel()
	var list metav1.APIGroupList
	if err := json.Unmarshal([]byte(send(t, "GET", "/apis", "", jsonType, "").body), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range list.Groups {
		names = append(names, g.Name)
	}
	got := strings.Join(names, " ")
	for _, want := range []string{"apiregistration.k8s.io apps events.k8s.io authentication.k8s.io authorization.k8s.io", "apiextensions.k8s.io", "policy rbac.authorization.k8s.io"} {
		if !strings.Contains(got, want) {
			t.Errorf("groups are %s, want %s among them", got, want)
		}
	}
}
