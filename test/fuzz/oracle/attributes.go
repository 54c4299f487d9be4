// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package oracle says of requests by users with few rights what must not have happened. It asks the server who may do what,
// before; and looks at everything that is stored, after. Touch it when something else must not happen.
package oracle

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/request"
)

// Attributes are what an authorizer is asked about.
type Attributes struct {
	Verb                                                   string
	Group, Version, Resource, Subresource, Namespace, Name string
	FieldSelector, LabelSelector                           string
	// Path is that of what is no resource.
	Path string
}

// writes tells whether something may be stored differently afterwards.
func (a Attributes) writes() bool {
	switch a.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return a.Resource != ""
	}
	return false
}

var infos = &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// AttributesOf reads a request as the server does, unless it cannot be read.
func AttributesOf(q request.Request) (Attributes, bool) {
	u, err := url.ParseRequestURI(q.Target)
	if err != nil {
		return Attributes{}, false
	}
	info, err := infos.NewRequestInfo(&http.Request{Method: q.Method, URL: u, Header: q.Header})
	if err != nil {
		return Attributes{}, false
	}
	if !info.IsResourceRequest {
		return Attributes{Verb: info.Verb, Path: info.Path}, true
	}
	return Attributes{
		Verb: info.Verb, Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name, FieldSelector: info.FieldSelector, LabelSelector: info.LabelSelector,
	}, true
}

// acting is the user whom a request with these headers is from; not ok: it must not be answered as anybody's.
func acting(who *identity.Identity, header http.Header) (_ identity.Subject, ok bool) {
	as := who.Subject
	if len(who.TLS.Certificates) == 0 && header.Get("Authorization") != "" {
		as = identity.Anonymous // with another token than the user's, which no server gave
	}
	impersonates := map[string]string{}
	for k, values := range header {
		if k = http.CanonicalHeaderKey(k); strings.HasPrefix(k, "Impersonate-") && strings.TrimSpace(strings.Join(values, "")) != "" {
			impersonates[k] = strings.Join(values, ",")
		}
	}
	switch {
	case len(impersonates) == 0:
		return as, true
	case as.User == identity.Impersonator && len(impersonates) == 1 && impersonates["Impersonate-User"] == identity.Impersonated:
		return identity.Authenticated(identity.Impersonated), true
	}
	return identity.Subject{}, false
}
