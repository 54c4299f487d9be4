// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/pki"
)

// Admin is a client configuration with all rights.
func (c *Cluster) Admin() *rest.Config { return c.User("kubernetes-admin", "system:masters") }

// User is a client configuration of a user in groups, known by a certificate.
func (c *Cluster) User(name string, groups ...string) *rest.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := name + "\x00" + strings.Join(groups, "\x00")
	if c.clients[key] == nil {
		pair, err := c.ca.Issue(pki.Request{CommonName: name, Organizations: groups})
		if err != nil {
			panic(err) // crypto/rand never fails on supported systems
		}
		config := c.Anonymous()
		config.CertData, config.KeyData = pair.Cert, pair.Key
		c.clients[key] = config
	}
	return rest.CopyConfig(c.clients[key])
}

// Anonymous is a client configuration without an identity.
func (c *Cluster) Anonymous() *rest.Config {
	return &rest.Config{
		Host:            c.host,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.Cert},
		ContentConfig:   rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"},
		QPS:             -1,
		WarningHandler:  rest.NoWarnings{},
	}
}

// ServiceAccount is a client configuration with a token of a ServiceAccount, as a pod would have.
func (c *Cluster) ServiceAccount(tb testing.TB, namespace, name string) *rest.Config {
	tb.Helper()
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(context.Background(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("getting a token of service account %s/%s: %v", namespace, name, err)
	}
	config := c.Anonymous()
	config.BearerToken = token.Status.Token
	return config
}

// ClientFor makes a client of a configuration.
func ClientFor(tb testing.TB, config *rest.Config) kubernetes.Interface {
	tb.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}
