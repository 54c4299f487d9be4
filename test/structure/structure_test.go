// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package structure

import (
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parts meet only in the API.
var parts = []string{"pkg/apiserver", "pkg/controllers", "pkg/scheduler", "pkg/kubelet", "pkg/proxy", "pkg/policy", "pkg/dns", "pkg/provisioner", "pkg/router", "pkg/loadbalancer", "pkg/metrics", "pkg/addons"}

// clients are the parts that are nothing but clients of the API, and what these are made of.
var clients = []string{"pkg/controllers", "pkg/scheduler", "pkg/kubelet", "pkg/proxy", "pkg/policy", "pkg/dns", "pkg/network", "pkg/provisioner", "pkg/router", "pkg/loadbalancer", "pkg/metrics", "pkg/addons", "pkg/zpages"}

func rules() []Rule {
	all := []Rule{
		{
			Of: []string{""}, Not: []string{"k8s.io/kubernetes"}, Tests: true,
			Why: "minik8s is written on the published modules; what upstream keeps in k8s.io/kubernetes is written here",
		},
		{
			Of: clients, Not: []string{"k8s.io/apiserver"}, Tests: true,
			Why: "this part is a client of the API and must run, build and be read without the server's machinery",
		},
		{
			Of: clients, Not: []string{Module + "/pkg/registry", Module + "/pkg/etcd"}, Tests: true,
			Why: "parts see objects only through the API, never how they are kept",
		},
		{
			Of: []string{"pkg", "cmd"}, Except: []string{"pkg/etcd", "pkg/registry/etcdstore", "cmd/minik8s"}, Not: []string{"go.etcd.io"},
			Why: "only pkg/etcd and pkg/registry/etcdstore know etcd, so that what keeps the objects can be changed in one place",
		},
		{
			Of: []string{"pkg"}, Except: []string{"pkg/cluster"}, Not: []string{Module + "/pkg/cluster", Module + "/cmd"}, Tests: true,
			Why: "pkg/cluster puts the parts together: it imports them, not the other way round",
		},
		{
			Of: []string{"pkg/apis"}, Not: []string{Module + "/pkg"}, But: []string{Module + "/pkg/apis"},
			Why: "pkg/apis is vocabulary that the parts share; it knows none of them",
		},
		{
			Of: []string{"pkg", "cmd"}, Not: []string{Module + "/test", Module + "/examples"}, Tests: true,
			Why: "the product does not depend on its tests and examples",
		},
		{
			Of: []string{"examples"}, Not: []string{Module + "/pkg", Module + "/cmd"}, Except: []string{"examples/scheduler-plugin"},
			Why: "an example is a program that a user of any Kubernetes could write, but for what builds our scheduler with a plugin of its own",
		},
		{
			Of: []string{"examples/scheduler-plugin/crew"}, Not: []string{Module},
			Why: "a plugin is written for the published framework, whoever runs it",
		},
	}
	for _, p := range parts {
		r := Rule{Of: []string{p}, Tests: true, But: []string{Module + "/pkg/addons/apis"}, Why: "parts never import one another, they meet in the API; what both need belongs into pkg/apis, what joins them into pkg/cluster"}
		for _, other := range parts {
			if other != p {
				r.Not = append(r.Not, Module+"/"+other)
			}
		}
		all = append(all, r)
	}
	return all
}

// axes returns all lists. A group of resources is an axis of its own, found by its folder under pkg/registry.
func axes(t Tree) []Axis {
	all := []Axis{
		{Dir: "pkg/addons", List: "pkg/addons/addons.go", Except: []string{"addon", "apis", "definitions"}},
		{Dir: "pkg/controllers", List: "pkg/controllers/controllers.go", Except: []string{"controllertest", "ownwrites", "setup"}},
		{Dir: "pkg/scheduler/plugins", List: "pkg/scheduler/plugins/plugins.go"},
		{Dir: "pkg/scheduler/policies", List: "pkg/scheduler/policies/policies.go"},
		{Dir: "pkg/registry", List: "pkg/registry/groups/groups.go", Except: []string{"groups", "registrytest", "review", "scale", "etcdstore", "destination"}},
		{Dir: "pkg/apiserver/authentication", List: "pkg/apiserver/authentication/authentication.go"},
		{Dir: "pkg/apiserver/authorization", List: "pkg/apiserver/authorization/authorization.go", Except: []string{"policy"}},
		{Dir: "pkg/kubelet/internal/volume", List: "pkg/kubelet/internal/volume/volume.go", Except: []string{"fsgroup", "subpath"}},
	}
	const admission = "pkg/apiserver/admission"
	if len(t.Under(admission)) > 0 {
		all = append(all, Axis{Dir: admission, List: admission + "/admission.go", Except: []string{"admissiontest", "namespace", "object"}})
	}
	shared := map[string][]string{ // what resources of a group have in common
		"pkg/registry/admissionregistration": {"expression", "manifestname", "policy", "rule", "webhook"},
		"pkg/registry/apps":                  {"workload"},
		"pkg/registry/authorization":         {"access"},
		"pkg/registry/certificates":          {"signing"},
		"pkg/registry/rbac":                  {"escalation", "policy"},
		"pkg/registry/resource":              {"claim", "device"},
		"pkg/registry/storage":               {"parameters"},
	}
	notGroups := map[string]bool{"groups": true, "registrytest": true, "review": true, "scale": true, "etcdstore": true, "destination": true}
	for _, dir := range t.Dirs() {
		if group := path.Base(dir); path.Dir(dir) == "pkg/registry" && !notGroups[group] {
			all = append(all, Axis{Dir: dir, List: dir + "/" + group + ".go", Except: shared[dir]})
		}
	}
	return all
}

func tree(t *testing.T) Tree {
	t.Helper()
	tree, err := Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 100 {
		t.Fatalf("found only %d Go files: this is not the whole tree", len(tree.Files))
	}
	return tree
}

func report(t *testing.T, complaints []string) {
	t.Helper()
	for _, c := range complaints {
		t.Error(c)
	}
}

func TestForbiddenImports(t *testing.T) {
	t.Parallel()
	tree := tree(t)
	for _, r := range rules() {
		report(t, r.Violations(tree))
	}
}

// An import may bring the server's machinery along without naming it. The published
// scheduling framework does (CEL, by way of dynamic resource allocation): the
// scheduler, and nobody else, may have of it what that framework has. Where a process
// keeps its feature gates is no machinery: two variables, which all parts act by.
func TestClientsAreBuiltWithoutTheServer(t *testing.T) {
	t.Parallel()
	const gates = "k8s.io/apiserver/pkg/util/feature"
	published := map[string]bool{}
	for _, p := range dependencies(t, "k8s.io/kube-scheduler/framework") {
		published[p] = true
	}
	for _, client := range clients {
		for _, p := range dependencies(t, "./"+client+"/...") {
			if !withinAny(p, []string{"k8s.io/apiserver", "k8s.io/kubernetes", "go.etcd.io"}) || p == gates || client == "pkg/scheduler" && published[p] {
				continue
			}
			t.Errorf("%s is built into %s: it is a client of the API; find the way with: go list -deps, go mod why", p, client)
		}
	}
}

func dependencies(t *testing.T, pattern string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", pattern)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pattern, err)
	}
	return strings.Fields(string(out))
}

func TestEveryFolderIsInItsList(t *testing.T) {
	t.Parallel()
	tree := tree(t)
	for _, a := range axes(tree) {
		report(t, a.Unlisted(tree))
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	t.Parallel()
	docs := map[string][]File{}
	tree := tree(t)
	for _, dir := range tree.Dirs() {
		docs[dir] = nil
	}
	for _, f := range tree.Files {
		if f.Doc != "" && !f.Test() {
			docs[f.Dir()] = append(docs[f.Dir()], f)
		}
	}
	for dir, files := range docs {
		switch {
		case len(files) == 0:
			t.Errorf("%s has no package comment: say in a sentence what it is and when one would touch it", dir)
		case len(files) > 1:
			t.Errorf("%s has %d package comments (%s, %s): keep one", dir, len(files), files[0].Path, files[1].Path)
		case files[0].Package == "main":
			if first, _, _ := strings.Cut(files[0].Doc, " "); first != "Command" && first != "Package" {
				t.Errorf("%s: the comment of a program begins with \"Command NAME\"", files[0].Path)
			}
		case !strings.HasPrefix(files[0].Doc, "Package "+files[0].Package+" "):
			t.Errorf("%s: the package comment begins with \"Package %s\"", files[0].Path, files[0].Package)
		}
	}
}

func TestEveryFileHasTheLicenceHeader(t *testing.T) {
	t.Parallel()
	want := [2]string{"// Copyright 2026 The minik8s Authors", "// SPDX-License-Identifier: Apache-2.0"}
	for _, f := range tree(t).Files {
		header := f.Header
		if strings.HasPrefix(header[0], "//go:build ") { // generators put it first
			continue
		}
		if header != want {
			t.Errorf("%s does not begin with the two lines\n%s\n%s", f.Path, want[0], want[1])
		}
	}
}

func TestModuleReplacesNothing(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		if fields := strings.Fields(line); len(fields) > 0 && (fields[0] == "replace" || fields[0] == "exclude") {
			t.Errorf("go.mod:%d: %s: who builds on this module would build something else, since replacements do not reach him", i+1, line)
		}
	}
}

func TestUtilIsNoName(t *testing.T) {
	t.Parallel()
	for _, dir := range tree(t).Dirs() {
		switch path.Base(dir) {
		case "util", "utils", "common", "helper", "helpers", "misc":
			t.Errorf("%s: name the thing that is in the package", dir)
		}
	}
}

// What follows makes sure that the checks above can fail.

func parse(t *testing.T, at, source string) File {
	t.Helper()
	f, err := Parse(at, []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRule_Violations(t *testing.T) {
	t.Parallel()
	rule := Rule{Of: []string{"pkg/a"}, Except: []string{"pkg/a/free"}, Not: []string{"x.io/bad"}, But: []string{"x.io/bad/good"}, Why: "because"}
	tests := []struct {
		name, path, source string
		want               []string
	}{
		{"itself", "pkg/a/a.go", "package a\nimport \"x.io/bad\"", []string{"pkg/a/a.go imports x.io/bad: because"}},
		{"below", "pkg/a/b/b.go", "package b\nimport _ \"x.io/bad/c\"", []string{"pkg/a/b/b.go imports x.io/bad/c: because"}},
		{"same prefix, other name", "pkg/a/a.go", "package a\nimport \"x.io/badly\"", nil},
		{"exception of the rule", "pkg/a/a.go", "package a\nimport \"x.io/bad/good/d\"", nil},
		{"exempt folder", "pkg/a/free/f.go", "package free\nimport \"x.io/bad\"", nil},
		{"other folder", "pkg/ab/b.go", "package ab\nimport \"x.io/bad\"", nil},
		{"test", "pkg/a/a_test.go", "package a\nimport \"x.io/bad\"", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := rule.Violations(Tree{Files: []File{parse(t, test.path, test.source)}})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAxis_Unlisted(t *testing.T) {
	t.Parallel()
	axis := Axis{Dir: "pkg/x", List: "pkg/x/x.go", Except: []string{"shared"}}
	list := parse(t, "pkg/x/x.go", "package x\nimport \""+Module+"/pkg/x/one\"")
	one := parse(t, "pkg/x/one/one.go", "package one")
	two := parse(t, "pkg/x/two/two.go", "package two")
	inner := parse(t, "pkg/x/one/inner/inner.go", "package inner")
	shared := parse(t, "pkg/x/shared/shared.go", "package shared")
	tests := []struct {
		name  string
		files []File
		want  []string
	}{
		{"all listed", []File{list, one, inner, shared}, nil},
		{"one is not", []File{list, one, two}, []string{"pkg/x/two is not in its list: add a line to pkg/x/x.go"}},
		{"no list", []File{one}, []string{"pkg/x/x.go, the list of pkg/x, is not there"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, axis.Unlisted(Tree{Files: test.files})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
