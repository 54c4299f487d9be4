// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package authentication finds out who makes a request: client certificates, ServiceAccount tokens, nobody. Touch it to
// add another way (a folder, and a line in New).
package authentication

import (
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"minik8s.io/minik8s/pkg/apiserver/authentication/serviceaccount"
)

// Config says what is accepted.
type Config struct {
	// ClientCA signs client certificates: the common name is the user, organizations are groups. Nil: none are accepted.
	ClientCA dynamiccertificates.CAContentProvider
	// ServiceAccounts checks tokens; may be nil.
	ServiceAccounts *serviceaccount.Tokens
}

// anonymousPaths are open to everybody, since probes have no identity; upstream's hardening guides close all others.
var anonymousPaths = []apiserver.AnonymousAuthCondition{{Path: "/livez"}, {Path: "/readyz"}, {Path: "/healthz"}}

// tokenCacheTTL is how long a checked token is trusted without another look, upstream's value.
const tokenCacheTTL = 10 * time.Second

// New returns an authenticator that tries all ways in turn.
func New(c Config) authenticator.Request {
	var all []authenticator.Request
	if c.ClientCA != nil {
		all = append(all, x509.NewDynamic(c.ClientCA.VerifyOptions, x509.CommonNameUserConversion))
	}
	if c.ServiceAccounts != nil {
		token := cache.New(c.ServiceAccounts, false, tokenCacheTTL, 0)
		all = append(all, bearertoken.New(token), websocket.NewProtocolAuthenticator(token))
	}
	authenticated := group.NewAuthenticatedGroupAdder(union.New(all...))
	return union.NewFailOnError(authenticated, anonymous.NewAuthenticator(anonymousPaths))
}
