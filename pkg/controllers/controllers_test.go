// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// notControllers are the folders that hold what controllers share.
var notControllers = []string{"controllertest", "internal", "ownwrites", "setup"}

func TestList_EveryFolder(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains(notControllers, entry.Name()) {
			folders = append(folders, entry.Name())
		}
	}
	var listed []string
	for _, c := range List() {
		listed = append(listed, c.Name)
		asManager := c.Name == "serviceaccounttoken" // as upstream
		if c.Setup == nil || c.Upstream == "" || (c.ServiceAccount == "") != asManager {
			t.Errorf("%q lacks a field", c.Name)
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(folders, listed); diff != "" {
		t.Errorf("folders and list differ (-folders +listed):\n%s", diff)
	}
}

// TestSetup_BehindBarrier looks into the sources: a controller that is built without its barrier works, but for the moments in
// which its cache is late.
func TestSetup_BehindBarrier(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "Complete" && method.Sel.Name != "Build" || len(call.Args) != 1 {
				return true
			}
			found++
			if inner, ok := call.Args[0].(*ast.CallExpr); !ok || !strings.HasPrefix(types.ExprString(inner.Fun), "env.Barrier.") {
				t.Errorf("%s: %s is built without env.Barrier", name, types.ExprString(call.Args[0]))
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("found only %d controllers", found)
	}
}

// withoutSuite are the controllers that controllertest does not fit, and why.
var withoutSuite = map[string]string{
	"garbagecollector": "it is no reconciler: it decides on a graph that it builds from watches of its own, and has a queue of its own; its tests play those",
}

// TestList_Suite looks into the sources: every controller has to pass controllertest.
func TestList_Suite(t *testing.T) {
	for _, c := range List() {
		files, err := filepath.Glob(c.Name + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		tested := false
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				tested = tested || ok && types.ExprString(call.Fun) == "controllertest.Run"
				return !tested
			})
		}
		switch why := withoutSuite[c.Name]; {
		case !tested && why == "":
			t.Errorf("%s: no test calls controllertest.Run", c.Name)
		case tested && why != "":
			t.Errorf("%s: is excepted from controllertest.Run, but calls it", c.Name)
		}
	}
}

func TestSelectEnabled(t *testing.T) {
	list := []Controller{{Name: "a", Upstream: "a-controller"}, {Name: "b", Upstream: "b-controller"}, {Name: "c", Upstream: "c-controller"}, {Name: "d", Upstream: "d-controller", Off: true}}
	tests := []struct {
		name    string
		enabled []string
		want    []string
		wantErr bool
	}{
		{name: "all", enabled: []string{"*"}, want: []string{"a", "b", "c"}},
		{name: "all but one", enabled: []string{"*", "-b"}, want: []string{"a", "c"}},
		{name: "by upstream's name", enabled: []string{"*", "-b-controller"}, want: []string{"a", "c"}},
		{name: "only one", enabled: []string{"b"}, want: []string{"b"}},
		{name: "one that is off by default", enabled: []string{"*", "d-controller"}, want: []string{"a", "b", "c", "d"}},
		{name: "the first wins", enabled: []string{"b", "-b"}, want: []string{"b"}},
		{name: "none", enabled: []string{"-a"}},
		{name: "unknown", enabled: []string{"*", "-x"}, wantErr: true},
		{name: "no such item", enabled: []string{"-*"}, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			selected, err := selectEnabled(list, tt.enabled)
			if (err != nil) != tt.wantErr {
				t.Fatalf("error %v", err)
			}
			var got []string
			for _, c := range selected {
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("selected (-want +got):\n%s", diff)
			}
		})
	}
}
