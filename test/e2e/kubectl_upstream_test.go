//go:build upstream

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/test/differential/servers"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// This file is for make e2e-upstream, which builds upstream's kube-apiserver first: that takes longer than all of CI.

// pair runs upstream's API server and ours, as they are: nothing else works on their objects.
func pair(t *testing.T) (upstream, ours session) {
	t.Helper()
	enabled(t)
	built := filepath.Join(suite.root, "test/conformance/bin/kube-apiserver")
	if _, err := os.Stat(built); err != nil {
		t.Fatalf("%v: run this with: make e2e-upstream", err)
	}
	dir := t.TempDir()
	id, err := servers.NewIdentity(filepath.Join(dir, "identity"))
	if err != nil {
		t.Fatal(err)
	}
	ports, err := program.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	start := func(address, server string) session {
		home := filepath.Join(dir, address)
		s, err := servers.Start(t.Context(), home, address, ports[0], servers.Programs{Etcd: binary("minik8s"), APIServer: server}, id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		return session{kubeconfig: filepath.Join(home, "kubeconfig"), home: home, namespace: "default"}
	}
	return start(servers.UpstreamAddress, built), start(servers.OurAddress, binary("minik8s"))
}

// alike runs a command on both servers and returns how what they print differs.
func alike(ctx context.Context, upstream, ours session, c command) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var results [2]cluster.Result
	var errs [2]error
	var wg sync.WaitGroup
	for i, s := range []session{upstream, ours} {
		wg.Go(func() { results[i], errs[i] = s.run(ctx, c) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	want, got := printed(results[0]), printed(results[1])
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		return fmt.Errorf("kubectl %s (-upstream +ours):\n%s", strings.Join(c.args, " "), diff)
	}
	return nil
}

// accidental is what differs between two clusters of the same program, or two runs of kubectl.
var accidental = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+]\d{4}( UTC)?)?`), "TIME"},
	{regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+]\d{4}`), "TIME"},
	{regexp.MustCompile(`[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `), "LOG "},
	{regexp.MustCompile(`\b(\d+[smh])+\b|<unknown>|<invalid>`), "AGE"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`((?i:resource ?version)"?: *"?)\d+`), "${1}VERSION"},
	{regexp.MustCompile(`10\.0\.0\.\d+|\b3[0-2]\d{3}\b`), "ALLOCATED"},
	{regexp.MustCompile(`127\.0\.0\.[12]`), "ADDRESS"},
	{regexp.MustCompile(`/(LIVE|MERGED)-\d+`), "/$1"},
	{regexp.MustCompile(`eyJ[\w.-]+`), "TOKEN"},
	{regexp.MustCompile(`(odd-|kubectl-edit-|kube-api-access-)\w+`), "${1}RANDOM"},
	{regexp.MustCompile(`(?m)^.*"?(gitVersion|gitCommit|gitTreeState|buildDate|goVersion|compiler)"?:.*\n`), ""},
	{regexp.MustCompile(`/tmp/\S+`), "FILE"},
	{regexp.MustCompile(` {2,}`), "  "}, // columns are as wide as what is in them
	{regexp.MustCompile(` +\n`), "\n"},
}

// printed is what kubectl printed, without what is accidental.
func printed(r cluster.Result) string {
	text := fmt.Sprintf("exit code %d\n%s\n%s\n", r.Code, r.Stdout, r.Stderr)
	for _, a := range accidental {
		text = a.pattern.ReplaceAllString(text, a.replacement)
	}
	return text
}

// kubectl cannot tell our API server from upstream's: it prints the same for every command of the scripts.
func TestKubectlLikeUpstream(t *testing.T) {
	upstream, ours := pair(t)
	for area, script := range readScripts(t) {
		t.Run(area, func(t *testing.T) {
			upstream, ours := upstream, ours
			for _, s := range []*session{&upstream, &ours} {
				s.dir, s.namespace = scriptFiles(t), "kubectl-"+area
				for _, args := range [][]string{{"create", "namespace", s.namespace}, {"create", "serviceaccount", "default"}} {
					if err := s.check(t.Context(), command{args: args}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, c := range script {
				if c.controllers {
					continue
				}
				if err := alike(t.Context(), upstream, ours, c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("explain", func(t *testing.T) {
		list, err := upstream.run(t.Context(), command{args: []string{"api-resources", "--no-headers"}})
		if err != nil || list.Code != 0 {
			t.Fatalf("api-resources: %v %s", err, list)
		}
		for line := range strings.Lines(list.Stdout) {
			fields := strings.Fields(line) // NAME [SHORTNAMES] APIVERSION NAMESPACED KIND
			c := command{args: []string{"explain", "--recursive", fields[0], "--api-version=" + fields[len(fields)-3]}}
			t.Run(fields[0]+"."+fields[len(fields)-3], func(t *testing.T) {
				t.Parallel()
				if err := alike(t.Context(), upstream, ours, c); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
