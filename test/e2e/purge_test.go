// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// snapshot is what a cluster may leave on a machine, kind by kind.
type snapshot map[string][]string

// takeSnapshot looks at the machine. name is the cluster's, for what cannot be compared as a whole: other processes come
// and go.
func takeSnapshot(name string) (snapshot, error) {
	s := snapshot{}
	commands := map[string][]string{
		"containers":     {"docker", "ps", "--all", "--quiet", "--no-trunc"},
		"networks":       {"docker", "network", "ls", "--quiet", "--no-trunc"},
		"volumes":        {"docker", "volume", "ls", "--quiet"},
		"pause images":   {"docker", "images", "--all", "--quiet", "--no-trunc", "--filter", "label=minik8s.io/pause"},
		"links":          {"ip", "-o", "link", "show"},
		"addresses":      {"ip", "-o", "address", "show"},
		"routes":         {"ip", "route", "show", "table", "all"},
		"routes6":        {"ip", "-6", "route", "show", "table", "all"},
		"policies":       {"ip", "rule", "show"},
		"iptables":       {"iptables-save"},
		"ip6tables":      {"ip6tables-save"},
		"iptables, old":  {"iptables-legacy-save"},
		"ip6tables, old": {"ip6tables-legacy-save"},
		"nft":            {"nft", "list", "tables"},
	}
	for what, command := range commands {
		if _, err := exec.LookPath(command[0]); err != nil && (strings.Contains(command[0], "legacy") || command[0] == "nft") {
			continue // not every distribution has the old tables, nor a program for the new ones
		}
		out, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			return nil, fmt.Errorf("%v: %w", command, err)
		}
		for line := range strings.Lines(string(out)) {
			if line = normal(what, strings.TrimSpace(line)); line != "" {
				s[what] = append(s[what], line)
			}
		}
	}
	for what, look := range map[string]func() ([]string, error){
		"mounts": mounts, "cgroups": cgroups, "sysctls": sysctls,
		"files":     func() ([]string, error) { return files(name) },
		"processes": func() ([]string, error) { return processes(name) },
	} {
		found, err := look()
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", what, err)
		}
		s[what] = found
	}
	for what := range s {
		slices.Sort(s[what])
	}
	return s, nil
}

// difference is what only one of two snapshots has.
func difference(before, after snapshot) []string {
	var all []string
	only := func(sign string, a, b snapshot) {
		for what, lines := range a {
			for _, line := range lines {
				if !slices.Contains(b[what], line) {
					all = append(all, sign+" "+what+": "+line)
				}
			}
		}
	}
	only("-", before, after)
	only("+", after, before)
	slices.Sort(all)
	return all
}

// normal removes from a line what changes by itself.
func normal(what, line string) string {
	switch {
	case strings.Contains(what, "tables"):
		// A table that has been looked at exists from then on, with its built-in chains.
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "*") || line == "COMMIT" || strings.Contains(line, " ACCEPT [") {
			return ""
		}
		if strings.HasPrefix(line, ":") {
			line, _, _ = strings.Cut(line, " [") // counters
		}
	case what == "nft":
		if !strings.Contains(line, "minik8s") {
			return "" // those of iptables, which are above
		}
	case what == "links", what == "addresses":
		_, line, _ = strings.Cut(line, ": ") // the index
		line, _, _ = strings.Cut(line, " valid_lft ")
	case what == "routes6":
		line, _, _ = strings.Cut(line, " expires ")
	}
	return line
}

func mounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	var all []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			all = append(all, fields[4])
		}
	}
	return all, err
}

// sysctls are the settings of the network, which a node changes, with their values.
func sysctls() ([]string, error) {
	var all []string
	for _, pattern := range []string{"ipv4/ip_forward", "ipv[46]/conf/*/*", "ipv4/ip_local*", "bridge/*", "netfilter/nf_conntrack_max"} {
		names, err := filepath.Glob(filepath.Join("/proc/sys/net", pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			value, err := os.ReadFile(name)
			if err != nil {
				continue // the link has gone meanwhile, or the setting can only be written
			}
			all = append(all, name+" = "+strings.TrimSpace(string(value)))
		}
	}
	return all, nil
}

// cgroups are those of clusters and of the engine. Others come and go with programs that nobody here has started.
func cgroups() ([]string, error) {
	var all []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // gone while walking
		}
		if err == nil && d.IsDir() && (strings.Contains(path, "minik8s") || strings.Contains(path, "docker")) {
			all = append(all, path)
		}
		return err
	})
	return all, err
}

// files are the entries of the folders in which programs keep their things, not what is below them.
func files(name string) ([]string, error) {
	var all []string
	for _, dir := range []string{"/run", "/run/netns", "/var/lib", "/var/log", "/etc", "/dev/shm", suite.dir} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		for _, e := range entries {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	for _, pattern := range []string{"minik8s.*", "*" + name + "*"} { // logs by the name of the program, other things by the cluster's
		left, err := filepath.Glob(filepath.Join(os.TempDir(), pattern))
		if err != nil {
			return nil, err
		}
		all = append(all, left...)
	}
	return all, nil
}

// processes are those whose command line or cgroup names the cluster.
func processes(name string) ([]string, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, dir := range dirs {
		if dir == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue
		}
		if bytes.Contains(command, []byte(name)) || bytes.Contains(cgroup, []byte(name)) {
			all = append(all, string(bytes.ReplaceAll(command, []byte{0}, []byte(" "))))
		}
	}
	return all, nil
}

// What a cluster made on a machine is gone after down --purge, whatever it was doing.
func TestPurgeLeavesNothing(t *testing.T) {
	enabled(t)
	if suite.shared != nil { // its pods would change the machine meanwhile
		if err := suite.shared.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t, "purge")
	tests := []struct {
		name string
		end  func(*testing.T, *kube)
	}{
		{"from running", func(*testing.T, *kube) {}},
		{"after down", func(t *testing.T, k *kube) {
			t.Helper()
			if err := k.Down(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"after a kill from a shell with another engine", func(t *testing.T, k *kube) {
			t.Helper()
			kill(t, k)
			k.Env = []string{"DOCKER_HOST=unix:///does/not/exist.sock"}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before, err := takeSnapshot(c.Name)
			if err != nil {
				t.Fatal(err)
			}
			k := up(t, c)
			busy(t, k)
			during, err := takeSnapshot(c.Name)
			if err != nil {
				t.Fatal(err)
			}
			for _, what := range []string{"containers", "links", "routes", "iptables", "mounts", "cgroups", "files", "processes"} {
				if slices.Equal(before[what], during[what]) {
					t.Errorf("a running cluster changes no %s: this test does not see them", what)
				}
			}
			test.end(t, k)
			k.leavesNothing(t, before)
		})
	}
}

// busy gives a cluster pods with all that leaves traces: volumes of several kinds, a NodePort with session affinity, a
// host port, a container that crashes, a pod that takes its time to end.
func busy(t *testing.T, k *kube) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "busy.yaml")
	if err := os.WriteFile(file, []byte(busyManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "manifests applied", func(ctx context.Context) error {
		r, err := k.run(ctx, "apply", "-f", file)
		if err == nil && r.Code != 0 {
			err = fmt.Errorf("%s", r)
		}
		return err
	})
	k.kubectl(t, "wait", "--for=condition=Ready", "pod/busy", "--timeout=60s")
	k.kubectl(t, "wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/crashes", "--timeout=60s")
	url := k.nodePort(t, "default", "busy")
	eventually(t, 20*time.Second, "an answer by NodePort", func(ctx context.Context) error {
		_, err := fetch(ctx, http.MethodGet, url, "")
		return err
	})
}

const busyManifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: busy}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: busy}
stringData: {key: value}
---
apiVersion: v1
kind: Service
metadata: {name: busy}
spec:
  type: NodePort
  sessionAffinity: ClientIP
  selector: {app: busy}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: busy, labels: {app: busy}}
spec:
  containers:
  - name: web
    image: minik8s.io/guestbook-frontend:1
    args: [static, /]
    ports: [{containerPort: 8080, hostPort: 18473}]
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 500m, memory: 64Mi}}
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
    volumeMounts:
    - {name: memory, mountPath: /memory}
    - {name: disk, mountPath: /disk}
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: all, mountPath: /all}
    - {name: config, mountPath: /one, subPath: key}
  volumes:
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: disk, emptyDir: {}}
  - {name: config, configMap: {name: busy}}
  - {name: secret, secret: {secretName: busy}}
  - name: all
    projected:
      sources:
      - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
      - serviceAccountToken: {path: token}
---
apiVersion: v1
kind: Pod
metadata: {name: crashes}
spec:
  containers: [{name: c, image: "minik8s.io/guestbook-frontend:1", args: [nonsense]}]
`

// kill ends the process of a cluster as a failing machine would, and waits until it is gone.
func kill(t *testing.T, k *kube) {
	t.Helper()
	s, err := k.Status(t.Context())
	if err != nil || s.Pid == 0 {
		t.Fatalf("status: %+v, %v", s, err)
	}
	process, err := os.FindProcess(s.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the process gone", func(ctx context.Context) error {
		if s, err := k.Status(ctx); err != nil || s.Running {
			return fmt.Errorf("%+v, %w", s, err)
		}
		return nil
	})
}

// The comparison sees what it should, and nothing that changes by itself.
func TestSnapshot_Difference(t *testing.T) {
	t.Parallel()
	a := snapshot{"links": {"eth0", "veth1"}, "files": {"/a"}}
	b := snapshot{"links": {"eth0"}, "files": {"/a"}, "mounts": {"/m"}}
	if got, want := strings.Join(difference(a, b), ", "), "+ mounts: /m, - links: veth1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := difference(a, a); len(got) > 0 {
		t.Errorf("a snapshot differs from itself: %q", got)
	}
}

func TestSnapshot_Normal(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, what, line, want string }{
		{"rule", "iptables", "-A INPUT -j KUBE-X", "-A INPUT -j KUBE-X"},
		{"chain", "iptables", ":KUBE-X - [12:34]", ":KUBE-X -"},
		{"built-in chain", "iptables", ":INPUT ACCEPT [12:34]", ""},
		{"policy", "iptables", ":FORWARD DROP [1:2]", ":FORWARD DROP"},
		{"comment", "iptables", "# Generated at noon", ""},
		{"link", "links", "7: veth1: <UP> mtu 1500", "veth1: <UP> mtu 1500"},
		{"container", "containers", "abc", "abc"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := normal(test.what, test.line); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// leavesNothing purges a cluster and compares the machine with what it was.
func (k *kube) leavesNothing(t *testing.T, before snapshot) {
	t.Helper()
	if err := k.Down(t.Context(), "--purge"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the machine as it was", func(context.Context) error {
		after, err := takeSnapshot(k.Name)
		if diff := difference(before, after); err == nil && len(diff) > 0 {
			err = fmt.Errorf("- before, + after:\n%s", strings.Join(diff, "\n"))
		}
		return err
	})
}
