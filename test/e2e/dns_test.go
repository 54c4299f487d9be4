// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const hostsFile = "/etc/hosts"

// TestDns runs docs/dns.md and the course's script, and then what a page does not tell: changes under load, a machine's own names, and
// that nothing stays.
func TestDns(t *testing.T) {
	c := newCluster(t, "dns")
	before, err := os.ReadFile(hostsFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if after, err := os.ReadFile(hostsFile); err != nil || string(after) != string(before) {
			t.Errorf("%s is another one than before: %v\n%s", hostsFile, err, after)
		}
	})
	unchanged := func(context.Context) error {
		if now, err := os.ReadFile(hostsFile); err != nil || string(now) != string(before) {
			return fmt.Errorf("it is %q, %w", now, err)
		}
		return nil
	}
	k := up(t, c)
	k.runPage(t, filepath.Join(suite.root, "docs", "dns.md"))
	eventually(t, 10*time.Second, "a hosts file as before", unchanged)
	if out := k.kubectlFails(t, "get", "dns"); !strings.Contains(out, "resource") { // in other words if kubectl remembers the kind
		t.Errorf("after disable: %s", out)
	}
	k.runCourse(t, "06-dns", 6)
	eventually(t, 10*time.Second, "a hosts file as before", unchanged)

	if r, err := k.Run(t.Context(), "enable", "dns"); err != nil || r.Code != 0 {
		t.Fatalf("%v, %s", err, r)
	}
	example := filepath.Join(suite.root, "examples", "dns")
	k.kubectl(t, "apply", "-f", filepath.Join(example, "shop.yaml"), "-f", filepath.Join(example, "dns.yaml"))
	k.kubectl(t, "wait", "--for=condition=Available", "--timeout=60s", "deployment/tea", "deployment/coffee")
	k.kubectl(t, "wait", "--for=condition=InHostsFile", "--timeout=60s", "dns/shop")
	k.changesUnderLoad(t, example)
	k.refusesBadDns(t)
	k.leavesTakenNames(t)

	// The process is killed, and with it goes nobody's block; the next one takes it over.
	kill(t, k)
	contains(t, readHosts(t), "\tshop.example.test\t")
	k = up(t, k.Cluster)
	eventually(t, 30*time.Second, "tea after a crash", func(ctx context.Context) error {
		_, err := fetch(ctx, http.MethodGet, "http://shop.example.test/tea", "")
		return err
	})
	if n := strings.Count(readHosts(t), "shop.example.test"); n != 1 {
		t.Errorf("the name is there %d times", n)
	}
	// Stopped, nobody answers; started, the name is there again.
	if err := k.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := unchanged(t.Context()); err != nil {
		t.Error(err)
	}
	k = up(t, k.Cluster)
	eventually(t, 30*time.Second, "the name again", func(context.Context) error {
		if !strings.Contains(readHosts(t), "\tshop.example.test\t") {
			return errors.New("it is not there")
		}
		return nil
	})
	// Killed and purged.
	kill(t, k)
	if err := k.Down(t.Context(), "--purge"); err != nil {
		t.Fatal(err)
	}
	if err := unchanged(t.Context()); err != nil {
		t.Error(err)
	}
}

func readHosts(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(hostsFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// changesUnderLoad changes paths and pods while a client asks all the time, and loses nothing.
func (k *kube) changesUnderLoad(t *testing.T, example string) {
	t.Helper()
	stop := ask(t, "http://shop.example.test/tea")
	for _, file := range []string{"changed.yaml", "dns.yaml", "changed.yaml", "dns.yaml"} {
		k.kubectl(t, "apply", "-f", filepath.Join(example, file))
		k.kubectl(t, "wait", "--for=condition=Programmed", "--timeout=60s", "dns/shop")
	}
	k.kubectl(t, "rollout", "restart", "deployment/tea")
	k.kubectl(t, "rollout", "status", "deployment/tea", "--timeout=90s")
	asked, failed := stop()
	t.Logf("%d requests while paths and pods changed", asked)
	if asked < 50 || failed > 0 {
		t.Errorf("of %d requests %d failed", asked, failed)
	}
}

// refusesBadDns sends what the definition has to refuse.
func (k *kube) refusesBadDns(t *testing.T) {
	t.Helper()
	for _, tc := range []struct{ host, path, want string }{
		{"localhost", "{service: a, port: 80}", "each machine's own"},
		{"10.0.0.1", "{service: a, port: 80}", "is an address"},
		{"x.svc.cluster.local", "{service: a, port: 80}", "names below cluster.local"},
		{"UPPER.test", "{service: a, port: 80}", "spec.host"},
		{"a.test", "{service: a, port: 0}", "is no number from 1 to 65535"},
		{"a.test", "{service: a, port: No_Port}", "spec.paths[0].port"},
		{"a.test", "{service: a, port: 80, subPath: /a/../b}", "may not have the elements"},
		{"a.test", "{service: a, port: 80, subPath: a}", "subPath"},
		{"a.test", "{service: a, port: 80}, {service: b, port: 80}", "Duplicate value"},
		{"a.test", "{service: a, port: 80, subPath: ''}, {service: b, port: 80}", "are the same path"},
		{"a.test", "", "spec.paths"},
	} {
		file := filepath.Join(t.TempDir(), "bad.yaml")
		text := fmt.Sprintf("apiVersion: networking.minik8s.io/v1alpha1\nkind: Dns\nmetadata: {name: bad}\nspec: {host: %s, paths: [%s]}\n", tc.host, tc.path)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := k.kubectlFails(t, "apply", "-f", file); !strings.Contains(out, tc.want) {
			t.Errorf("%s, %s: %s", tc.host, tc.path, out)
		}
	}
}

// leavesTakenNames asks for a name that the machine has in a line of its own.
func (k *kube) leavesTakenNames(t *testing.T) {
	t.Helper()
	mine := ""
	for line := range strings.Lines(readHosts(t)) {
		words, _, _ := strings.Cut(line, "#")
		for _, name := range strings.Fields(words)[min(1, len(strings.Fields(words))):] {
			if !strings.HasPrefix(name, "localhost") && !strings.HasPrefix(line, "fe") && !strings.HasPrefix(line, "ff") && name == strings.ToLower(name) && name != "shop.example.test" {
				mine = name
			}
		}
	}
	if mine == "" {
		t.Logf("%s has no name of its own", hostsFile)
		return
	}
	file := filepath.Join(t.TempDir(), "taken.yaml")
	text := fmt.Sprintf("apiVersion: networking.minik8s.io/v1alpha1\nkind: Dns\nmetadata: {name: taken}\nspec: {host: %s, paths: [{service: tea, port: 80}]}\n", mine)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "apply", "-f", file)
	k.kubectl(t, "wait", "--for=jsonpath={.status.conditions[?(@.type==\"InHostsFile\")].observedGeneration}=1", "--timeout=30s", "dns/taken")
	k.kubectl(t, "wait", "--for=condition=Programmed", "--timeout=30s", "dns/taken")
	t.Logf("%s: %s", mine, k.kubectl(t, "get", "dns", "taken", "-o", `jsonpath={.status.conditions[?(@.type=="InHostsFile")]}`))
	for line := range strings.Lines(readHosts(t)) {
		if strings.Contains(line, "# minik8s "+k.Name) && strings.Contains(line, mine) {
			t.Errorf("the machine's name is taken: %s", line)
		}
	}
	k.kubectl(t, "delete", "dns", "taken")
}
