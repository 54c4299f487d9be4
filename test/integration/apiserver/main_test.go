// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver tests the API server over the wire, as clients see it. Behaviour of single resources is tested beside
// them; here is what holds for all, and what needs the whole server.
package apiserver

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/test/integration/framework"
)

var cluster *framework.Cluster

func TestMain(m *testing.M) {
	os.Exit(framework.Main(m, framework.Options{}, func(c *framework.Cluster) error {
		cluster = c
		return nil
	}))
}

// answer is what the server said to a plain request.
type answer struct {
	code     int
	header   http.Header
	body     string
	warnings []string
}

// send makes a plain request as an administrator.
func send(t *testing.T, method, path, contentType, accept, body string) answer {
	t.Helper()
	transport, err := rest.TransportFor(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, cluster.Admin().Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Accept", accept)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{code: resp.StatusCode, header: resp.Header, body: string(data), warnings: resp.Header.Values("Warning")}
}

const (
	jsonType  = "application/json"
	yamlType  = "application/yaml"
	applyType = "application/apply-patch+yaml"
)

// configMap makes a ConfigMap.
func configMap(t *testing.T, ns, name string, data map[string]string) *corev1.ConfigMap {
	t.Helper()
	m, err := cluster.Client.CoreV1().ConfigMaps(ns).Create(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}, Data: data,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
