// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/request"
	"minik8s.io/minik8s/test/fuzz/surface"
)

// Canary is in a Secret that none of the users may read.
const Canary = "canary-of-the-kept-secret"

// canaries are how it may look; base64 of whatever stands around it contains one of the others.
var canaries = [][]byte{[]byte(Canary), []byte(base64.StdEncoding.EncodeToString([]byte(Canary)))}

// Oracle watches over requests. Safe for concurrent use between Begin and End.
type Oracle struct {
	Ask        identity.Asker
	Operations []surface.Operation
	Users      []*identity.Identity

	rights rights
	probes map[question]bool
	before Store

	mu       sync.Mutex
	requests []Entry
	last     []Entry
}

// Attempt is a request of which the oracle knows whether it is allowed.
type Attempt struct {
	entry   Entry
	known   bool
	allowed bool
	// converted tells that the answer is to be of another form than the object.
	converted bool
}

// Begin looks at everything before a round of requests.
func (o *Oracle) Begin(ctx context.Context) error {
	o.rights.ask = o.Ask
	o.rights.forget()
	var err error
	if o.probes, err = o.probe(ctx); err != nil {
		return err
	}
	o.before, err = ReadStore(ctx, o.Ask, o.Operations)
	return err
}

// Before asks whether a request is allowed that is about to be sent.
func (o *Oracle) Before(ctx context.Context, who *identity.Identity, q request.Request) (Attempt, error) {
	as, ok := acting(who, q.Header)
	what, readable := AttributesOf(q)
	a := Attempt{entry: Entry{Who: as, What: what}, known: readable, converted: strings.Contains(q.Header.Get("Accept"), "as=")}
	if !ok {
		a.entry.Who.User = fmt.Sprintf("%s as somebody else (%q)", who.User, q.Header)
	}
	if !ok || !readable || q.Raw != nil {
		a.known = readable && q.Raw == nil
		return a, nil
	}
	var err error
	a.allowed, err = o.rights.may(ctx, question{as, what})
	return a, err
}

// After says what is wrong with the answer; "": nothing. No answer has code 0.
func (o *Oracle) After(ctx context.Context, a Attempt, code int, body []byte) (string, error) {
	for _, c := range canaries {
		if bytes.Contains(body, c) {
			return fmt.Sprintf("a secret is told: %s by %s, answer %d", a.entry.What, a.entry.Who.User, code), nil
		}
	}
	if !a.known {
		return "", nil
	}
	what := unlawful(a.allowed, a.entry, code)
	if what != "" {
		// Who owns a namespace may have given somebody rights there in between.
		allowed, err := o.rights.mayNow(ctx, question{a.entry.Who, a.entry.What})
		if err != nil {
			return "", err
		}
		if a.allowed = allowed; allowed {
			what = ""
		}
	}
	if what == "" && code == 201 && (a.entry.What.Verb == "update" || a.entry.What.Verb == "patch") {
		create := a.entry.What
		create.Verb = "create"
		allowed, err := o.rights.may(ctx, question{a.entry.Who, create})
		if err != nil {
			return "", err
		}
		what = unlawful(allowed, Entry{a.entry.Who, create}, code)
	}
	if a.allowed && a.mayHaveWritten(code) {
		o.mu.Lock()
		o.requests = append(o.requests, a.entry)
		o.mu.Unlock()
	}
	return what, nil
}

// mayHaveWritten tells whether something may be stored differently after an answer with this code. A collection may be deleted
// in part. Whether the object has the form that was asked for (a table with includeObject=x, a list) is seen when it is written.
func (a Attempt) mayHaveWritten(code int) bool {
	if !a.entry.What.writes() {
		return false
	}
	unfit := a.converted && (code == http.StatusBadRequest || code == http.StatusNotAcceptable)
	return !refused(code) || unfit || a.entry.What.Verb == "deletecollection"
}

// End says what has changed since Begin although nobody was allowed to change it.
func (o *Oracle) End(ctx context.Context) ([]string, error) {
	after, err := ReadStore(ctx, o.Ask, o.Operations)
	if err != nil {
		return nil, err
	}
	var all []string
	// What was asked for in the round before, and not waited for, may have been done in this one.
	for _, c := range Forbidden(o.before, after, slices.Concat(o.last, o.requests)) {
		all = append(all, fmt.Sprintf("forbidden effect: %s, and nobody who asked for it may", c))
	}
	o.last, o.requests = o.requests, nil
	probes, err := o.probe(ctx)
	if err != nil {
		return nil, err
	}
	for q, now := range probes {
		if now != o.probes[q] {
			all = append(all, fmt.Sprintf("escalation: whether %s may %s was %v and is %v", q.who.User, q.what, o.probes[q], now))
		}
	}
	return all, nil
}

// probed are rights that nobody has gained at the end, as they are about what no user may give away.
var probed = []Attributes{
	{Verb: "*", Group: "*", Version: "*", Resource: "*"},
	{Verb: "get", Version: "v1", Resource: "secrets", Namespace: "kept", Name: "secret"},
	{Verb: "list", Version: "v1", Resource: "secrets"},
	{Verb: "watch", Version: "v1", Resource: "secrets", Namespace: "kube-system"},
	{Verb: "create", Version: "v1", Resource: "pods", Namespace: "kept"},
	{Verb: "create", Version: "v1", Resource: "pods", Subresource: "exec", Namespace: "kept", Name: "pod"},
	{Verb: "create", Version: "v1", Resource: "serviceaccounts", Subresource: "token", Namespace: "kube-system", Name: "default"},
	{Verb: "delete", Version: "v1", Resource: "namespaces", Namespace: "kept", Name: "kept"},
	{Verb: "delete", Version: "v1", Resource: "nodes", Name: identity.OtherNode},
	{Verb: "get", Version: "v1", Resource: "nodes", Subresource: "proxy", Name: identity.Node},
	{Verb: "impersonate", Version: "v1", Resource: "users", Name: "admin"},
	{Verb: "impersonate", Version: "v1", Resource: "groups", Name: "system:masters"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	{Verb: "bind", Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Name: "cluster-admin"},
	{Verb: "escalate", Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles", Namespace: "kept"},
	{Verb: "approve", Group: "certificates.k8s.io", Version: "v1", Resource: "signers", Name: "kubernetes.io/kube-apiserver-client"},
	{Verb: "update", Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests", Subresource: "approval", Name: "asked"},
	{Verb: "update", Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Name: "widgets.example.org"},
	{Verb: "create", Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	{Verb: "get", Path: "/metrics"},
}

func (o *Oracle) probe(ctx context.Context) (map[question]bool, error) {
	all := map[question]bool{}
	for _, u := range append(o.Users, &identity.Identity{Subject: identity.Authenticated(identity.Impersonated)}) {
		for _, what := range probed {
			q := question{u.Subject, what}
			var err error
			if all[q], err = o.rights.mayNow(ctx, q); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
