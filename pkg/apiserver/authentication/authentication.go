// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package authentication finds out who makes a request: a front proxy's headers, client certificates, tokens of many
// kinds, nobody. Touch it to add another way (a folder, and a line in New).
package authentication

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/apiserver/authentication/bootstraptoken"
	"minik8s.io/minik8s/pkg/apiserver/authentication/clientcertificate"
	"minik8s.io/minik8s/pkg/apiserver/authentication/oidc"
	"minik8s.io/minik8s/pkg/apiserver/authentication/removednode"
	"minik8s.io/minik8s/pkg/apiserver/authentication/serviceaccount"
	"minik8s.io/minik8s/pkg/apiserver/inprocess"
)

// Config says what is accepted. The zero value accepts nobody but anonymous probes.
type Config struct {
	// ClientCA signs client certificates: the common name is the user, organizations are groups. Nil: none are accepted.
	ClientCA dynamiccertificates.CAContentProvider
	// RequestHeader names the proxies in front of this server that may say in headers who the user is; may be nil.
	RequestHeader *authenticatorfactory.RequestHeaderConfig
	// TokenFile is a CSV file of token, user, UID, groups; it is read once.
	TokenFile string
	// BootstrapTokens accepts those in Secrets of kube-system. Without Anonymous the ConfigMap by which their holders get to know
	// the cluster is then open, as far as authorization permits.
	BootstrapTokens bool
	// OIDC are the providers of JWTs; nil: none. Audiences, reserved issuers and the server's id are filled in.
	OIDC *oidc.Config
	// Webhook is asked about tokens that nobody here knows; may be nil.
	Webhook *Webhook
	// RemovedNodes makes certificates of nodes end when their Node is deleted. Upstream's last until they end. Nodes of this process
	// have none: they register themselves.
	RemovedNodes bool
	// Anonymous says whether and where requests without credentials are let in. Nil: to the health endpoints.
	Anonymous *apiserver.AnonymousAuthConfig
}

// Webhook is a remote authenticator of tokens.
type Webhook struct {
	// Kubeconfig says how to reach it.
	Kubeconfig string
	// Version of authentication.k8s.io that it speaks: v1 or v1beta1.
	Version string
	// CacheTTL is how long its answers are trusted.
	CacheTTL time.Duration
	// Backoff between attempts.
	Backoff wait.Backoff
}

// Server is what authenticators use of the server that they are part of.
type Server struct {
	// ServiceAccounts checks tokens; may be nil.
	ServiceAccounts *serviceaccount.Tokens
	// Informers feed authenticators; the caller starts them.
	Informers informers.SharedInformerFactory
	// Audiences of the API.
	Audiences authenticator.Audiences
	// Issuers are the names under which the server issues tokens itself.
	Issuers []string
	// ID is a label of metrics.
	ID string
}

// open is what is open to everybody by default: probes have no identity, and who would join cannot trust the server yet. Upstream's
// hardening guides close all else.
func (c Config) open() *apiserver.AnonymousAuthConfig {
	paths := []string{"/livez", "/readyz", "/healthz"}
	if c.BootstrapTokens {
		paths = append(paths, "/api/v1/namespaces/"+metav1.NamespacePublic+"/configmaps/"+api.ConfigMapClusterInfo)
	}
	all := &apiserver.AnonymousAuthConfig{Enabled: true}
	for _, p := range paths {
		all.Conditions = append(all.Conditions, apiserver.AnonymousAuthCondition{Path: p})
	}
	return all
}

// tokenCacheTTL is how long a checked token is trusted without another look, upstream's value.
const tokenCacheTTL = 10 * time.Second

// New returns an authenticator that tries all ways in turn, the local ones first, after those of this process. What they keep up to date ends with ctx.
func New(ctx context.Context, c Config, s Server) (authenticator.Request, error) {
	all := []authenticator.Request{authenticator.RequestFunc(inprocess.Authenticate)}
	if h := c.RequestHeader; h != nil {
		proxy := headerrequest.NewDynamicVerifyOptionsSecure(h.CAContentProvider.VerifyOptions, h.AllowedClientNames, h.UsernameHeaders, h.UIDHeaders, h.GroupHeaders, h.ExtraHeaderPrefixes)
		all = append(all, authenticator.WrapAudienceAgnosticRequest(s.Audiences, proxy))
	}
	if c.ClientCA != nil {
		var certificates authenticator.Request = clientcertificate.New(c.ClientCA.VerifyOptions, clock.RealClock{})
		if c.RemovedNodes {
			nodes := s.Informers.Core().V1().Nodes()
			certificates = &removednode.Authenticator{Certificates: certificates, Nodes: nodes.Lister(), Synced: nodes.Informer().HasSynced}
		}
		all = append(all, certificates)
	}
	tokens, err := tokenAuthenticators(ctx, c, s)
	if err != nil {
		return nil, err
	}
	if len(tokens) > 0 {
		token := cache.New(tokenunion.New(tokens...), true, tokenCacheTTL, 0)
		all = append(all, bearertoken.New(token), websocket.NewProtocolAuthenticator(token))
	}
	authenticated := group.NewAuthenticatedGroupAdder(union.New(all...))
	open := c.Anonymous
	if open == nil {
		open = c.open()
	}
	if !open.Enabled {
		return authenticated, nil
	}
	return union.NewFailOnError(authenticated, anonymous.NewAuthenticator(open.Conditions)), nil
}

func tokenAuthenticators(ctx context.Context, c Config, s Server) ([]authenticator.Token, error) {
	var all []authenticator.Token
	if c.TokenFile != "" {
		file, err := tokenfile.NewCSV(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token file: %w", err)
		}
		all = append(all, authenticator.WrapAudienceAgnosticToken(s.Audiences, file))
	}
	if s.ServiceAccounts != nil {
		all = append(all, s.ServiceAccounts)
	}
	if c.BootstrapTokens {
		bootstrap := &bootstraptoken.Authenticator{Secrets: bootstraptoken.Secrets(s.Informers), Clock: clock.RealClock{}}
		all = append(all, authenticator.WrapAudienceAgnosticToken(s.Audiences, bootstrap))
	}
	if c.OIDC != nil {
		providers := *c.OIDC
		providers.Audiences, providers.ReservedIssuers, providers.ServerID = s.Audiences, s.Issuers, s.ID
		jwt, err := oidc.New(ctx, providers)
		if err != nil {
			return nil, err
		}
		all = append(all, jwt)
	}
	if w := c.Webhook; w != nil {
		client, err := webhookutil.LoadKubeconfig(w.Kubeconfig, nil)
		if err != nil {
			return nil, fmt.Errorf("reading how to reach the authentication webhook: %w", err)
		}
		remote, err := webhook.New(client, w.Version, s.Audiences, w.Backoff)
		if err != nil {
			return nil, fmt.Errorf("preparing the authentication webhook: %w", err)
		}
		all = append(all, cache.New(remote, false, w.CacheTTL, w.CacheTTL))
	}
	return all, nil
}
