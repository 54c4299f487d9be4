// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const ingressManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: minik8s.io/guestbook-frontend:1
        args: [static, /]
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: 8080}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  tls: [{hosts: [web.example.com], secretName: web}]
  rules:
  - host: web.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}
`

// An Ingress brings requests from outside to pods, also by HTTPS with the certificate of its host, while the pods change.
func TestIngress(t *testing.T) {
	c := newCluster(t, "ingress")
	ports := [2]int{freePort(t), freePort(t)}
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nrouter: {httpPort: %d, httpsPort: %d}\n", ports[0], ports[1])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := up(t, c, "--config", config)
	ns := k.namespace(t, "ingress")
	contains(t, k.kubectl(t, "get", "ingressclass"), "minik8s.io/router")

	certificate, key := selfSignedPEM(t, "web.example.com")
	dir := t.TempDir()
	for name, data := range map[string][]byte{"crt": certificate, "key": key, "web.yaml": []byte(ingressManifest)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.kubectl(t, "-n", ns, "create", "secret", "tls", "web", "--cert", filepath.Join(dir, "crt"), "--key", filepath.Join(dir, "key"))
	k.kubectl(t, "-n", ns, "apply", "-f", filepath.Join(dir, "web.yaml"))
	k.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=60s")

	var address string
	eventually(t, 20*time.Second, "the status of the Ingress", func(ctx context.Context) error {
		i, err := k.client.NetworkingV1().Ingresses(ns).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(i.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("it is %v", i.Status)
		}
		address = i.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "web.example.com"}}}
	defer client.CloseIdleConnections()
	get := func(ctx context.Context, scheme string, port int, host string) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://%s/", scheme, net.JoinHostPort(address, fmt.Sprint(port))), nil)
		if err != nil {
			return 0, err
		}
		r.Host = host
		answer, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, err
	}
	for _, want := range []struct {
		scheme, host string
		port, code   int
	}{
		{"http", "web.example.com", ports[0], http.StatusOK}, {"https", "web.example.com", ports[1], http.StatusOK}, {"http", "other.example.com", ports[0], http.StatusNotFound},
	} {
		eventually(t, 20*time.Second, want.scheme+" of "+want.host, func(ctx context.Context) error {
			code, err := get(ctx, want.scheme, want.port, want.host)
			if err == nil && code != want.code {
				err = fmt.Errorf("it answers %d, want %d", code, want.code)
			}
			return err
		})
	}

	// While the pods are replaced, no request is lost.
	ctx, cancel := context.WithCancel(t.Context())
	lost, asked := make(chan error, 1), make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if code, err := get(t.Context(), "http", ports[0], "web.example.com"); err != nil || code != http.StatusOK {
				select {
				case lost <- fmt.Errorf("request %d: %d, %w", n, code, err):
				default:
				}
			}
		}
		asked <- n
	}()
	k.kubectl(t, "-n", ns, "rollout", "restart", "deployment/web")
	k.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=90s")
	cancel()
	if n := <-asked; n < 10 {
		t.Errorf("only %d requests were made", n)
	}
	select {
	case err := <-lost:
		t.Error(err)
	default:
	}
}

func selfSignedPEM(t *testing.T, host string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}
