// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minik8s.io/minik8s/pkg/cluster"
)

func TestDestination(t *testing.T) {
	t.Parallel()
	entry := func(name string) cluster.Entry {
		return cluster.Entry{Name: name, Config: cluster.Config{Name: name, DataDir: "/" + name}}
	}
	both := []cluster.Entry{entry("ci"), entry("minik8s")}
	for _, tc := range []struct {
		name, args string
		all        []cluster.Entry
		want       string
		elsewhere  bool
	}{
		{"the default cluster", "kubectl get pods", both, "/minik8s/kubeconfig", false},
		{"the only one", "kubectl get pods", both[:1], "/ci/kubeconfig", false},
		{"none", "kubectl get pods", nil, "", false},
		{"none that is the default", "kubectl get pods", []cluster.Entry{entry("a"), entry("b")}, "", false},
		{"one that cannot be read", "kubectl get pods", []cluster.Entry{{Name: "minik8s", Err: errors.New("x")}}, "", false},
		{"a context of ours", "kubectl --context minik8s-ci get pods", both, "/ci/kubeconfig", false},
		{"a context of ours, joined", "kubectl get pods --context=minik8s-ci", both, "/ci/kubeconfig", false},
		{"a context of the user's", "kubectl get pods --context prod", both, "", true},
		{"a file", "kubectl --kubeconfig=/f get pods", both, "", true},
		{"a server", "kubectl -s https://x get pods", both, "", true},
		{"who gets a role is not where to go", "kubectl create clusterrolebinding b --clusterrole=view --user=u", both, "/minik8s/kubeconfig", false},
		{"nor is it in two words", "kubectl set subject rolebinding b --user u", both, "/minik8s/kubeconfig", false},
		{"an entry is not a file", "kubectl get pods --cluster c", both, "/minik8s/kubeconfig", false},
		{"a program's own flag", "kubectl exec p -- x --context prod", both, "/minik8s/kubeconfig", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, elsewhere := destination(strings.Fields(tc.args), tc.all)
			if got != tc.want || elsewhere != tc.elsewhere {
				t.Errorf("got %q, %t, want %q, %t", got, elsewhere, tc.want, tc.elsewhere)
			}
		})
	}
}

func TestWithKubectl(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "kubectl")
	if err := os.WriteFile(link, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path, called string
		want               []string
	}{
		{"by its path", "/nowhere", link, []string{"A=b", "KUBECTL_PATH=" + link}},
		{"by its name", dir, "kubectl", []string{"A=b", "KUBECTL_PATH=" + link}},
		{"as minik8s kubectl", dir, "/usr/bin/minik8s", []string{"A=b", "KUBECTL_PATH=" + link}},
		{"as minik8s kubectl, alone", "/nowhere", "/usr/bin/minik8s", []string{"A=b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("PATH", tc.path)
			if got := withKubectl([]string{"A=b", "KUBECTL_PATH=/usr/bin/minik8s"}, tc.called); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
