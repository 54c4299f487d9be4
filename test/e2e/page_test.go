// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// console is a command of a page with what its output is to have, line by line.
type console struct {
	command string
	want    []string
}

// consoles are the commands in the blocks of a page that are of the language console.
func consoles(t *testing.T, path string) []console {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []console
	within := false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			within = line == "```console"
		case within && is:
			all = append(all, console{command: command})
		case within && len(all) > 0:
			all[len(all)-1].want = append(all[len(all)-1].want, line)
		}
	}
	return all
}

// reader is the environment of somebody who follows a page: the programs are in the path and go to the test's cluster.
func (k *kube) reader(t *testing.T) []string {
	t.Helper()
	programs := t.TempDir()
	// The cluster has another name than the default, which the verbs that go by KUBECONFIG need not know.
	script := fmt.Sprintf("#!/bin/sh\ncase $1 in execute|function) ;; *) set -- \"$@\" --name %s ;; esac\nexec %s \"$@\"\n", k.Name, binary("minik8s"))
	if err := os.WriteFile(filepath.Join(programs, "minik8s"), []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	if err := os.Symlink(binary("minik8s"), filepath.Join(programs, "kubectl-execute")); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "PATH="+programs+":"+filepath.Join(suite.root, "bin")+":"+os.Getenv("PATH"), "KUBECONFIG="+k.kubeconfig, "HOME="+suite.dir, "NO_PROXY=*", "no_proxy=*")
}

// runPage runs the commands of a page as its reader would, in the root of the repository and for the test's cluster.
func (k *kube) runPage(t *testing.T, path string) {
	t.Helper()
	env := k.reader(t)
	for _, c := range consoles(t, path) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.command)
		cmd.Dir, cmd.Env = suite.root, env
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("%s: %s: %v: %s", path, c.command, err, out)
		}
		t.Logf("$ %s\n%s", c.command, out)
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %s: no %q in:\n%s", path, c.command, want, out)
			}
		}
	}
}

// runCourse runs a script of examples/course, which must prove so many claims and skip none but those named.
func (k *kube) runCourse(t *testing.T, script string, passed int, skipped ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(suite.root, "examples", "course", script))
	cmd.Env = k.reader(t)
	out, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", script, out)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	verdicts := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		if verdict, claim, ok := strings.Cut(line, "] "); ok {
			verdicts[verdict] = append(verdicts[verdict], claim)
		}
	}
	if n := len(verdicts["[PASS"]); n != passed || len(verdicts["[SKIP"]) != len(skipped) {
		t.Errorf("%s: %d claims hold and %d are skipped, want %d and %d", script, n, len(verdicts["[SKIP"]), passed, len(skipped))
	}
	for i, claim := range verdicts["[SKIP"] {
		if i < len(skipped) && !strings.HasPrefix(claim, skipped[i]) {
			t.Errorf("%s: skipped is %q, want %q", script, claim, skipped[i])
		}
	}
}
