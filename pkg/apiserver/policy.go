// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/apiserver/admission"
	"minik8s.io/minik8s/pkg/apiserver/authentication"
	"minik8s.io/minik8s/pkg/apiserver/authentication/serviceaccount"
	"minik8s.io/minik8s/pkg/apiserver/authorization"
	"minik8s.io/minik8s/pkg/apiserver/generic"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/node"
)

// policy assembles who may do what from the configuration.
type policy struct {
	config   Config
	clientCA dynamiccertificates.CAContentProvider
	tokens   *serviceaccount.Tokens
	kubelet  registry.Kubelet
}

// newPolicy reads keys and certificates.
func newPolicy(c Config, stores *registry.Stores) (*policy, error) {
	p := &policy{config: c}
	var err error
	if c.ClientCA != nil {
		if p.clientCA, err = dynamiccertificates.NewStaticCAContent("client-ca", c.ClientCA); err != nil {
			return nil, fmt.Errorf("reading client CA: %w", err)
		}
	}
	if c.TokenKey != nil || len(c.TokenKeys) > 0 {
		p.tokens, err = serviceaccount.New(serviceaccount.Config{Issuer: c.TokenIssuer, Key: c.TokenKey, Keys: c.TokenKeys, Audiences: c.APIAudiences, Stores: stores})
		if err != nil {
			return nil, err
		}
	}
	if c.KubeletClient.Cert != nil {
		transport, err := kubeletTransport(c)
		if err != nil {
			return nil, err
		}
		p.kubelet = node.NewKubelet(stores, transport, []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeHostName, corev1.NodeExternalIP})
	}
	return p, nil
}

// kubeletTransport authenticates the server to kubelets and them to it. HTTP/1.1 only: upgrades need it.
func kubeletTransport(c Config) (http.RoundTripper, error) {
	cert, err := tls.X509KeyPair(c.KubeletClient.Cert, c.KubeletClient.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate for kubelets: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.KubeletCA) {
		return nil, errors.New("reading the CA of kubelets: no certificate found")
	}
	return &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, RootCAs: roots},
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 8,
	}, nil
}

// build makes the policy of the server that b prepares.
func (p *policy) build(client kubernetes.Interface, shared informers.SharedInformerFactory, drained <-chan struct{}) (generic.Policy, error) {
	authorizer, resolver, err := authorization.New(authorization.Config{Modes: p.config.AuthorizationModes, Informers: shared})
	if err != nil {
		return generic.Policy{}, err
	}
	plugins, err := admission.New(admission.Config{
		Enable: p.config.EnableAdmission, Disable: p.config.DisableAdmission, Client: client, Informers: shared, Authorizer: authorizer, Drained: drained,
	})
	if err != nil {
		return generic.Policy{}, err
	}
	return generic.Policy{
		Authenticator: authentication.New(authentication.Config{ClientCA: p.clientCA, ServiceAccounts: p.tokens}),
		APIAudiences:  authenticator.Audiences(p.config.APIAudiences),
		Authorizer:    authorizer,
		RuleResolver:  resolver,
		Admission:     plugins,
	}, nil
}

// issuer is nil, and not an interface that holds nil, without keys.
func (p *policy) issuer() registry.TokenIssuer {
	if p.tokens == nil || p.config.TokenKey == nil {
		return nil
	}
	return p.tokens
}
