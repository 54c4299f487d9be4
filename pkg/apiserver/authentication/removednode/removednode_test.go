// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package removednode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/pki"
)

// broken is a lister that fails.
type broken struct{ corelisters.NodeLister }

func (broken) Get(string) (*corev1.Node, error)             { return nil, errors.New("no cache") }
func (broken) List(labels.Selector) ([]*corev1.Node, error) { return nil, errors.New("no cache") }
func withGroup(r pki.Request, group string) pki.Request     { r.Organizations = []string{group}; return r }
func nodeLister(t *testing.T, created ...time.Time) cache.Indexer {
	t.Helper()
	i := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, at := range created {
		if err := i.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.NewTime(at)}}); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func TestAuthenticateRequest(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	certificates := requestx509.New(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, requestx509.CommonNameUserConversion)
	kubelet := pki.Request{CommonName: "system:node:n", Organizations: []string{"system:nodes"}}
	now := time.Now()
	for _, tc := range []struct {
		name    string
		request pki.Request
		nodes   corelisters.NodeLister
		want    string // in the error; "" if it is accepted
	}{
		{"of a node", kubelet, corelisters.NewNodeLister(nodeLister(t, now.Add(-time.Hour))), ""},
		{"of a node that was registered in this second", kubelet, corelisters.NewNodeLister(nodeLister(t, now)), ""},
		{"of a node that was removed", kubelet, corelisters.NewNodeLister(nodeLister(t)), "not registered any more"},
		{"of a node that was removed and registered again", kubelet, corelisters.NewNodeLister(nodeLister(t, now.Add(10*time.Second))), "from before the node was registered"},
		{"of a node, but who knows", kubelet, broken{}, "no cache"},
		{"of a user", pki.Request{CommonName: "ann"}, broken{}, ""},
		{"of a user who is called like a node", withGroup(kubelet, "people"), broken{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cert, err := ca.Leaf(tc.request).Certificate()
			if err != nil {
				t.Fatal(err)
			}
			a := &Authenticator{Certificates: certificates, Nodes: tc.nodes, Synced: func() bool { return true }}
			response, ok, err := a.AuthenticateRequest(&http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}}})
			switch {
			case tc.want != "" && (ok || response != nil || err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("accepted = %t, error %v, want %q", ok, err, tc.want)
			case tc.want == "" && (!ok || err != nil || response.User.GetName() != tc.request.CommonName):
				t.Errorf("accepted = %t, %v, %v", ok, response, err)
			}
		})
	}
	none := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil })
	if _, ok, err := (&Authenticator{Certificates: none, Nodes: broken{}}).AuthenticateRequest(&http.Request{}); ok || err != nil {
		t.Errorf("without a certificate: %t, %v", ok, err)
	}
}

// TestAuthenticateRequest_AtTheStart: a node is not taken for removed because the nodes are not known yet.
func TestAuthenticateRequest_AtTheStart(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Leaf(pki.Request{CommonName: "system:node:n", Organizations: []string{"system:nodes"}}).Certificate()
	if err != nil {
		t.Fatal(err)
	}
	kubelet := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "system:node:n", Groups: []string{"system:nodes"}}}, true, nil
	})
	request := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}}}
	nodes, calls := nodeLister(t), 0
	a := &Authenticator{Certificates: kubelet, Nodes: corelisters.NewNodeLister(nodes), Synced: func() bool {
		if calls++; calls == 3 {
			if err := nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
				t.Error(err)
			}
		}
		return calls >= 3
	}}
	if _, ok, err := a.AuthenticateRequest(request.WithContext(t.Context())); !ok || err != nil {
		t.Errorf("accepted = %t, %v", ok, err)
	}
	a.Synced = func() bool { return false }
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok, err := a.AuthenticateRequest(request.WithContext(gone)); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("of a client that has gone: accepted = %t, %v", ok, err)
	}
}
