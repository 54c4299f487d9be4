// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNextName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		nodes []Node
		want  string
	}{
		{"the first is the machine", nil, "c-2"},
		{"a gap is filled", []Node{{Name: "c-2"}, {Name: "c-4"}}, "c-3"},
		{"others do not count", []Node{{Name: "small"}}, "c-2"},
	} {
		if got := NextName("c", tc.nodes); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestNextIP(t *testing.T) {
	t.Parallel()
	at := func(ips ...string) (all []Node) {
		for _, ip := range ips {
			all = append(all, Node{IP: netip.MustParseAddr(ip)})
		}
		return all
	}
	for _, tc := range []struct {
		name, subnet string
		nodes        []Node
		want         string // "" if none is left
	}{
		{"the first is the machine's", "10.196.0.0/24", nil, "10.196.0.2"},
		{"one that was given back", "10.196.0.0/24", at("10.196.0.2", "10.196.0.4"), "10.196.0.3"},
		{"the last is for all", "10.196.0.0/30", at("10.196.0.2"), ""},
	} {
		got, err := NextIP(netip.MustParsePrefix(tc.subnet), tc.nodes)
		if (err != nil) != (tc.want == "") || err == nil && got.String() != tc.want {
			t.Errorf("%s: got %s, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		size Size
		want string // in the error
	}{
		{"all", Size{}, ""},
		{"small", Size{CPU: resource.MustParse("500m"), Memory: resource.MustParse("256Mi"), Pods: 3}, ""},
		{"no time", Size{CPU: resource.MustParse("1m")}, "at least 10m"},
		{"negative", Size{CPU: resource.MustParse("-1")}, "at least 10m"},
		{"no room", Size{Memory: resource.MustParse("1Ki")}, "at least 16Mi"},
		{"negative pods", Size{Pods: -1}, "fewer than no pods"},
	} {
		err := tc.size.Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	for _, name := range []string{"", "..", "a/b", "A", strings.Repeat("a", 64)} {
		if ValidateName(name) == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func TestDir(t *testing.T) {
	t.Parallel()
	d := Dir(filepath.Join(t.TempDir(), "nodes"))
	if got, err := d.List(); got != nil || err != nil {
		t.Fatalf("of nothing: %v, %v", got, err)
	}
	a := Node{Name: "a", IP: netip.MustParseAddr("10.0.0.3"), PodCIDR: "10.1.0.0/24", State: Running, Size: Size{CPU: resource.MustParse("500m"), Pods: 3}}
	b := Node{Name: "b", IP: netip.MustParseAddr("10.0.0.2"), State: Stopped}
	for _, n := range []Node{a, b} {
		if err := d.Write(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(d.Of("no node"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	equal := cmp.Options{cmpopts.EquateComparable(netip.Addr{}), cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })}
	if diff := cmp.Diff([]Node{b, a}, got, equal); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(d.Of("a"), "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Remove("a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(d.Of("a")); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(d.Of("b"), record), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.List(); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("of a record that cannot be read: %v", err)
	}
}
