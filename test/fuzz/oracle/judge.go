// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"minik8s.io/minik8s/test/fuzz/identity"
)

// Entry is a request that may have changed what is stored.
type Entry struct {
	Who  identity.Subject
	What Attributes
}

// Change is an object that is not what it was; there is none before, or none after.
type Change struct {
	Key           Key
	Before, After *Stored
}

func (c Change) String() string {
	k := strings.TrimPrefix(strings.Join([]string{c.Key.Group, c.Key.Resource, c.Key.Namespace, c.Key.Name}, "/"), "/")
	switch {
	case c.Before == nil:
		return k + " was created"
	case c.After == nil:
		return k + " was deleted"
	}
	return k + " was changed"
}

// Forbidden returns the changes that none of the requests explains, each of which was allowed and not refused.
func Forbidden(before, after Store, requests []Entry) []Change {
	var all []Change
	for _, c := range changes(before, after) {
		if !ofServer(c.Key) && !slices.ContainsFunc(requests, func(e Entry) bool { return explains(e, c) }) {
			all = append(all, c)
		}
	}
	return all
}

func changes(before, after Store) []Change {
	var all []Change
	for k, b := range before {
		if a, ok := after[k]; !ok {
			all = append(all, Change{Key: k, Before: &b})
		} else if a != b {
			all = append(all, Change{Key: k, Before: &b, After: &a})
		}
	}
	for k, a := range after {
		if _, ok := before[k]; !ok {
			all = append(all, Change{Key: k, After: &a})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// ofServer tells whether the server writes an object for itself.
func ofServer(k Key) bool {
	switch k.Resource {
	case "leases":
		return k.Namespace == "kube-system" && strings.HasPrefix(k.Name, "apiserver-")
	case "events":
		return k.Namespace == "default" // of the repair of ClusterIPs; none of the users may write there
	}
	return false
}

// explains tells whether a request can have made the change.
func explains(e Entry, c Change) bool {
	a := e.What
	if !a.writes() || strings.HasPrefix(e.Who.User, "system:node:") && !ofNode(c) {
		return false
	}
	if a.Resource == "namespaces" && a.Group == "" {
		a.Namespace = ""
	}
	k := c.Key
	switch {
	case a.Group == "" && a.Resource == "services" && k.Resource == "ipaddresses":
		return true // an address belongs to a Service, wherever that is
	case a.Group == "" && a.Resource == "services" && k.Group == "" && k.Resource == "endpoints" && c.After == nil: // it takes them with it
	case a.Group == "" && a.Resource == "pods" && a.Subresource == "eviction" && k.Resource == "poddisruptionbudgets":
		return k.Namespace == a.Namespace
	case a.Group == "" && a.Resource == "bindings" && k.Group == "" && k.Resource == "pods":
		return k.Namespace == a.Namespace
	case sameEvents(a, k):
	case a.Group != k.Group || a.Resource != k.Resource || a.Namespace != k.Namespace:
		return false
	}
	if a.Namespace != k.Namespace {
		return false
	}
	switch {
	case a.Verb == "deletecollection":
		return c.Before != nil
	case a.Verb == "create" && a.Name == "":
		return c.Before == nil || c.After != nil && uidOf(*c.Before) != uidOf(*c.After)
	}
	return a.Name == k.Name
}

// sameEvents tells whether both are events, which two groups have.
func sameEvents(a Attributes, k Key) bool {
	return a.Resource == "events" && k.Resource == "events" && (a.Group == "" || a.Group == "events.k8s.io") && (k.Group == "" || k.Group == "events.k8s.io")
}

func uidOf(s Stored) string {
	uid, _, _ := strings.Cut(s.Version, "/")
	return uid
}

// ofNode tells whether an object is one of those to which NodeRestriction confines the kubelet that is one of the users.
func ofNode(c Change) bool {
	k := c.Key
	switch k.Resource {
	case "nodes", "csinodes":
		return k.Name == identity.Node
	case "leases":
		return k.Namespace == "kube-node-lease" && k.Name == identity.Node
	case "pods":
		return (c.Before == nil || c.Before.Node == identity.Node) && (c.After == nil || c.After.Node == identity.Node)
	}
	return k.Resource == "events" || k.Resource == "certificatesigningrequests" && c.Before == nil || k.Group == "resource.k8s.io"
}

// refused tells whether an answer says that nothing was done.
func refused(code int) bool { return 300 <= code && code < 500 }

// unlawful says what is wrong with an answer to somebody who is not allowed what was asked for; "": nothing.
func unlawful(allowed bool, e Entry, code int) string {
	if allowed || refused(code) || code >= 500 || code == 0 {
		return ""
	}
	return fmt.Sprintf("forbidden, and yet: %d to %s, who may not %s", code, e.Who.User, e.What)
}

// String is what was asked.
func (a Attributes) String() string {
	if a.Resource == "" {
		return a.Verb + " " + a.Path
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s.%s/%s %s/%s %s%s", a.Verb, a.Resource, a.Group, a.Subresource, a.Namespace, a.Name, a.FieldSelector, a.LabelSelector))
}
