// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"strings"
	"testing"

	"minik8s.io/minik8s/test/fuzz/identity"
)

// TestForbidden proves of every sort of change that it is found, and that it is not if somebody may have made it.
func TestForbidden(t *testing.T) {
	t.Parallel()
	secret := Key{Resource: "secrets", Namespace: "kept", Name: "secret"}
	endpoints := Key{Resource: "endpoints", Namespace: "fuzz-0", Name: "a"}
	pod := Key{Resource: "pods", Namespace: "fuzz-0", Name: "a"}
	one, two, three := Stored{Version: "u/1"}, Stored{Version: "u/2"}, Stored{Version: "v/3"}
	entry := func(user, verb, resource, namespace, name string) []Entry {
		resource, sub, _ := strings.Cut(resource, "/")
		return []Entry{{Who: identity.Subject{User: user}, What: Attributes{Verb: verb, Resource: resource, Subresource: sub, Namespace: namespace, Name: name}}}
	}
	const kubelet = "system:node:" + identity.Node
	at := func(node string) Stored { return Stored{Version: "u/9", Node: node} }
	for _, test := range []struct {
		name          string
		before, after Store
		requests      []Entry
		want          string
	}{
		{"nothing", Store{secret: one}, Store{secret: one}, nil, ""},
		{"changed by nobody", Store{secret: one}, Store{secret: two}, nil, "secrets/kept/secret was changed"},
		{"deleted by nobody", Store{secret: one}, Store{}, nil, "secrets/kept/secret was deleted"},
		{"created by nobody", Store{}, Store{secret: one}, nil, "secrets/kept/secret was created"},
		{"by who may", Store{secret: one}, Store{secret: two}, entry("u", "patch", "secrets", "kept", "secret"), ""},
		{"another name", Store{secret: one}, Store{secret: two}, entry("u", "patch", "secrets", "kept", "other"), "secrets/kept/secret was changed"},
		{"another namespace", Store{secret: one}, Store{secret: two}, entry("u", "update", "secrets", "fuzz-0", "secret"), "secrets/kept/secret was changed"},
		{"only read", Store{secret: one}, Store{secret: two}, entry("u", "get", "secrets", "kept", "secret"), "secrets/kept/secret was changed"},
		{"creating does not change", Store{secret: one}, Store{secret: two}, entry("u", "create", "secrets", "kept", ""), "secrets/kept/secret was changed"},
		{"created", Store{}, Store{secret: one}, entry("u", "create", "secrets", "kept", ""), ""},
		{"created after it was deleted", Store{secret: one}, Store{secret: three}, entry("u", "create", "secrets", "kept", ""), ""},
		{"collection", Store{secret: one}, Store{}, entry("u", "deletecollection", "secrets", "kept", ""), ""},
		{"a collection is not created", Store{}, Store{secret: one}, entry("u", "deletecollection", "secrets", "kept", ""), "secrets/kept/secret was created"},
		{"bound", Store{pod: one}, Store{pod: two}, entry("u", "create", "bindings", "fuzz-0", ""), ""},
		{"evicted", Store{pod: one}, Store{}, entry("u", "create", "pods/eviction", "fuzz-0", "a"), ""},
		{"budget", Store{{Group: "policy", Resource: "poddisruptionbudgets", Namespace: "fuzz-0", Name: "b"}: one}, Store{}, entry("u", "create", "pods/eviction", "fuzz-0", "a"), ""},
		{"address", Store{}, Store{{Group: "networking.k8s.io", Resource: "ipaddresses", Name: "10.0.0.9"}: one}, entry("u", "create", "services", "fuzz-0", ""), ""},
		{"of a service", Store{endpoints: one}, Store{}, entry("u", "delete", "services", "fuzz-0", "a"), ""},
		{"of services", Store{endpoints: one}, Store{}, entry("u", "deletecollection", "services", "fuzz-0", ""), ""},
		{"of another service", Store{endpoints: one}, Store{}, entry("u", "delete", "services", "fuzz-0", "b"), "endpoints/fuzz-0/a was deleted"},
		{"made by a service", Store{}, Store{endpoints: one}, entry("u", "update", "services", "fuzz-0", "a"), "endpoints/fuzz-0/a was created"},
		{"namespace", Store{{Resource: "namespaces", Name: "kept"}: one}, Store{}, entry("u", "delete", "namespaces", "kept", "kept"), ""},
		{"own node", Store{{Resource: "nodes", Name: identity.Node}: one}, Store{{Resource: "nodes", Name: identity.Node}: two}, entry(kubelet, "patch", "nodes", "", identity.Node), ""},
		{"another's node", Store{{Resource: "nodes", Name: identity.OtherNode}: one}, Store{{Resource: "nodes", Name: identity.OtherNode}: two}, entry(kubelet, "patch", "nodes", "", identity.OtherNode), "nodes//node-y was changed"},
		{"own pod", Store{pod: at(identity.Node)}, Store{}, entry(kubelet, "delete", "pods", "fuzz-0", "a"), ""},
		{"another's pod", Store{pod: at(identity.OtherNode)}, Store{}, entry(kubelet, "delete", "pods", "fuzz-0", "a"), "pods/fuzz-0/a was deleted"},
		{"taken over", Store{pod: at("")}, Store{pod: Stored{Version: "u/10", Node: identity.Node}}, entry(kubelet, "patch", "pods", "fuzz-0", "a"), "pods/fuzz-0/a was changed"},
		{"the server's lease", Store{}, Store{{Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Name: "apiserver-x"}: one}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range Forbidden(test.before, test.after, test.requests) {
				got = append(got, c.String())
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("forbidden is %q, want %q", got, test.want)
			}
		})
	}
}
