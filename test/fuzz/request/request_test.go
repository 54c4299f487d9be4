// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"minik8s.io/minik8s/test/fuzz/surface"
)

// operations are some of each action.
var operations = []surface.Operation{
	{Method: "POST", Path: "/api/v1/namespaces/{namespace}/pods", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Action: "post"},
	{Method: "PATCH", Path: "/api/v1/namespaces/{namespace}/pods/{name}", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Action: "patch"},
	{Method: "GET", Path: "/api/v1/pods", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Action: "list"},
	{Method: "GET", Path: "/api/v1/namespaces/{namespace}/pods/{name}/exec", Action: "connect"},
	{Method: "DELETE", Path: "/api/v1/nodes", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Node"}, Action: "deletecollection"},
	{Method: "POST", Path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", Kind: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, Action: "post"},
}

func pods() []map[string]any {
	return []map[string]any{{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"containers": []any{map[string]any{"name": "main"}}}}}
}

// TestMake: the same number makes the same request, and among many there is every sort.
func TestMake(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]Scope{"wide": Wide, "narrow": Narrow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := NewMaker(scope, operations, pods(), 1)
			if err != nil {
				t.Fatal(err)
			}
			again, err := NewMaker(scope, operations, pods(), 1)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for n := range uint64(1500) {
				q := m.Make(n)
				if other := again.Make(n); !bytes.Equal(q.Body, other.Body) || !bytes.Equal(q.Raw, other.Raw) || q.Method+q.Target+q.Tactic != other.Method+other.Target+other.Tactic || !maps.EqualFunc(q.Header, other.Header, slices.Equal) {
					t.Fatalf("request %d is another one the second time:\n%s\n%s", n, q, other)
				}
				for _, part := range []string{"raw: ", "escalation", "combined", "parameters", "headers", "cbor", "protobuf", "yaml", "delete options", "type of a patch", "patch application/apply-patch+yaml"} {
					seen[part] = seen[part] || strings.Contains(q.Tactic, part)
				}
				seen["metadata"] = seen["metadata"] || bytes.Contains(q.Body, []byte("deletionTimestamp"))
			}
			for part, there := range seen {
				if want := scope.Narrow || part != "escalation"; there != want {
					t.Errorf("requests with %q: %v, want %v", part, there, want)
				}
			}
		})
	}
}

// TestMake_Dry: what administrators send does not change who may do what, nor removes what the others' objects are.
func TestMake_Dry(t *testing.T) {
	t.Parallel()
	m, err := NewMaker(Wide, operations, pods(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(3000) {
		q := m.Make(n)
		writes := q.Method != http.MethodGet && q.Method != http.MethodHead && q.Method != http.MethodOptions
		whole := strings.Contains(q.Target, "clusterroles") || q.Method == http.MethodDelete && strings.HasPrefix(q.Target, "/api/v1/nodes")
		if writes && whole && !strings.Contains(q.Target, "dryRun=All") {
			t.Fatalf("request %d: %s", n, q)
		}
	}
}
