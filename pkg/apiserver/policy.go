// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	chain "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/apiserver/admission"
	"minik8s.io/minik8s/pkg/apiserver/authentication"
	"minik8s.io/minik8s/pkg/apiserver/authentication/serviceaccount"
	"minik8s.io/minik8s/pkg/apiserver/authorization"
	"minik8s.io/minik8s/pkg/apiserver/authorization/rbac"
	"minik8s.io/minik8s/pkg/apiserver/fairness"
	"minik8s.io/minik8s/pkg/apiserver/generic"
	"minik8s.io/minik8s/pkg/apiserver/privileged"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/node"
	"minik8s.io/minik8s/pkg/registry/destination"
)

// policy assembles who may do what from the configuration.
type policy struct {
	config   Config
	stores   *registry.Stores
	clientCA dynamiccertificates.CAContentProvider
	tokens   *serviceaccount.Tokens
	kubelet  registry.Kubelet
}

// newPolicy reads keys and certificates.
func newPolicy(c Config, stores *registry.Stores) (*policy, error) {
	p := &policy{config: c, stores: stores, clientCA: c.Authentication.ClientCA}
	var err error
	if c.ClientCA != nil {
		if p.clientCA, err = dynamiccertificates.NewStaticCAContent("client-ca", c.ClientCA); err != nil {
			return nil, fmt.Errorf("reading client CA: %w", err)
		}
	}
	if c.KubeletClient != nil {
		transport, err := kubeletTransport(c)
		if err != nil {
			return nil, err
		}
		p.kubelet = kubelet{node.NewKubelet(stores, transport, c.KubeletAddressTypes), transport}
	}
	return p, nil
}

// kubelet connects to nodes by the transport of the certificate at the time: those who upgrade connections need it itself.
type kubelet struct {
	registry.Kubelet
	transport *pki.Transport
}

// Transport implements registry.Kubelet.
func (k kubelet) Transport() http.RoundTripper {
	current, err := k.transport.Current()
	if err != nil {
		return k.transport // which says why
	}
	return current
}

// kubeletTransport authenticates the server to kubelets and them to it. HTTP/1.1 only: upgrades need it.
func kubeletTransport(c Config) (*pki.Transport, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.KubeletCA == nil {
		trust.InsecureSkipVerify = true
	} else if trust.RootCAs = x509.NewCertPool(); !trust.RootCAs.AppendCertsFromPEM(c.KubeletCA) {
		return nil, errors.New("reading the CA of kubelets: no certificate found")
	}
	return pki.NewTransport(c.KubeletClient, func(cert *tls.Certificate) *http.Transport {
		t := &http.Transport{
			TLSClientConfig:     trust.Clone(),
			DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout:     90 * time.Second,
			MaxIdleConnsPerHost: 8,
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{*cert}
		if trust.InsecureSkipVerify {
			return destination.Fenced(t) // nothing proves that it is a kubelet which answers
		}
		return t
	}), nil
}

// trusted are the CAs whose certificates clients may show, in TLS: those of users and of proxies in front of this server.
func (p *policy) trusted() dynamiccertificates.CAContentProvider {
	header := p.config.Authentication.RequestHeader
	switch {
	case header == nil || header.CAContentProvider == nil:
		return p.clientCA
	case p.clientCA == nil:
		return header.CAContentProvider
	}
	return dynamiccertificates.NewUnionCAContentProvider(p.clientCA, header.CAContentProvider)
}

// build makes the policy of the server that b prepares; what follows files ends when the server has drained its requests.
func (p *policy) build(b *generic.Builder, a *access) (generic.Policy, error) {
	c, ctx := p.config, wait.ContextForChannel(b.DrainedSignal())
	if err := p.makeTokens(a.client); err != nil {
		return generic.Policy{}, err
	}
	served := sets.New[string]()
	for _, g := range c.Groups {
		served.Insert(g.Name)
	}
	decide := generic.Policy{APIAudiences: authenticator.Audiences(c.APIAudiences)}
	around := authorization.Server{Informers: a.shared, ID: b.ServerID()}
	var err error
	if served.Has(rbacv1.GroupName) { // whatever the mode is: nobody grants more by roles than they hold by roles
		if around.RBAC, err = rbac.New(a.shared.Rbac().V1()); err != nil {
			return generic.Policy{}, err
		}
		decide.RoleRules = around.RBAC
	}
	authorizer, err := authorization.New(ctx, c.Authorization, around)
	if err != nil {
		return generic.Policy{}, err
	}
	decide.Authorizer, decide.RuleResolver = authorizer, authorizer
	accepted := c.Authentication
	accepted.ClientCA = p.clientCA
	decide.Authenticator, err = authentication.New(ctx, accepted, authentication.Server{
		ServiceAccounts: p.tokens, Informers: a.shared, Audiences: c.APIAudiences, Issuers: append([]string{c.TokenIssuer}, c.OtherTokenIssuers...), ID: b.ServerID(),
	})
	if err != nil {
		return generic.Policy{}, err
	}
	plugins, err := admission.New(admission.Config{
		Enable: c.EnableAdmission, Disable: c.DisableAdmission, File: c.AdmissionConfigFile, Groups: served, TolerationSeconds: c.TolerationSeconds,
		Client: a.client, Dynamic: a.dynamic, RESTMapper: a.mapper, Informers: a.shared, Authorizer: authorizer,
		Services: a.services, WebhookAuthentication: a.webhooks,
		ServerID: b.ServerID(), EffectiveVersion: b.EffectiveVersion(), Drained: b.DrainedSignal(),
	})
	if err != nil {
		return generic.Policy{}, err
	}
	if c.ForbidPrivileged {
		plugins = chain.NewChainHandler(privileged.New(), plugins) // before a quota is charged for what is refused
	}
	decide.Admission = plugins
	if served.Has(flowcontrolv1.GroupName) {
		b.AddPostStartHook("priority-and-fairness-config-producer", func(hook genericapiserver.PostStartHookContext) error {
			return fairness.Start(hook, a.client.FlowcontrolV1())
		})
		if !c.WithoutFairness {
			decide.FlowControl = utilflowcontrol.New(a.shared, a.client.FlowcontrolV1(), b.Concurrency())
		}
	}
	return decide, nil
}

// makeTokens makes the issuer and checker of ServiceAccount tokens, if there are keys.
func (p *policy) makeTokens(client kubernetes.Interface) error {
	c := p.config
	if c.TokenKey == nil && len(c.TokenKeys) == 0 {
		return nil
	}
	var err error
	p.tokens, err = serviceaccount.New(serviceaccount.Config{
		Issuer: c.TokenIssuer, OtherIssuers: c.OtherTokenIssuers, Key: c.TokenKey, Keys: c.TokenKeys, Audiences: c.APIAudiences,
		ExactLifetime: c.ExactTokenLifetime, SkipLookup: c.SkipTokenLookup, Stores: p.stores, Secrets: client.CoreV1(),
	})
	return err
}

// issuer is nil, and not an interface that holds nil, without keys.
func (p *policy) issuer() registry.TokenIssuer {
	if p.tokens == nil || p.config.TokenKey == nil {
		return nil
	}
	return p.tokens
}
