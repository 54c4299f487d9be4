// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/bandwidth"
	"minik8s.io/minik8s/pkg/network/namespacetest"
)

// program is what this test is when it is called by the name of a network's program.
const program = "testplugin"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		plugin()
	}
	os.Exit(m.Run())
}

// settings are those of the program, in the network's configuration.
type settings struct {
	Log           string            `json:"log"`
	Fail          map[string]string `json:"fail"` // error by command
	Hang          string            `json:"hang"` // the command that never ends
	RuntimeConfig map[string]any    `json:"runtimeConfig"`
}

// plugin notes how it is called, and answers that the sandbox has an address of its own and one that is the node's.
func plugin() {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	var s settings
	if err := json.Unmarshal(data, &s); err != nil {
		panic(err)
	}
	command := os.Getenv("CNI_COMMAND")
	if command == "VERSION" {
		_, _ = fmt.Fprintln(os.Stdout, `{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}`)
		os.Exit(0)
	}
	line := fmt.Sprint(command, " ", os.Getenv("CNI_CONTAINERID"), " ", os.Getenv("CNI_IFNAME"), " ", os.Getenv("CNI_NETNS") != "", " ", os.Getenv("CNI_ARGS"), " ", s.RuntimeConfig)
	f, err := os.OpenFile(s.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
	}
	if err != nil {
		panic(err)
	}
	if s.Hang == command {
		select {}
	}
	if text := s.Fail[command]; text != "" {
		_, _ = fmt.Fprintf(os.Stdout, `{"cniVersion": "1.0.0", "code": 100, "msg": %q}`+"\n", text)
		os.Exit(1)
	}
	if command == "ADD" {
		_, _ = fmt.Fprintln(os.Stdout, `{"cniVersion": "1.0.0",
			"interfaces": [{"name": "veth0"}, {"name": "eth0", "sandbox": "/somewhere"}],
			"ips": [{"address": "10.99.0.1/24", "interface": 0}, {"address": "10.99.0.7/24", "interface": 1}, {"address": "fd99::7/64", "interface": 1}]}`)
	}
	os.Exit(0)
}

// world is a node with a directory of configurations.
type world struct {
	t *testing.T
	Config
	log string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, Config: Config{ConfDir: filepath.Join(dir, "conf"), BinDirs: []string{filepath.Join(dir, "bin")}, StateDir: filepath.Join(dir, "state")}, log: filepath.Join(dir, "log")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(w.ConfDir, 0o700), os.Mkdir(w.BinDirs[0], 0o700), os.Symlink(self, filepath.Join(w.BinDirs[0], program))); err != nil {
		t.Fatal(err)
	}
	return w
}

// start is a new process's plugin.
func (w *world) start() *Plugin {
	w.t.Helper()
	p, err := New(w.Config)
	if err == nil {
		err = p.Start(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// configure writes the configuration of a network.
func (w *world) configure(file string, s settings) {
	w.t.Helper()
	s.Log = w.log
	own, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	one := fmt.Sprintf(`{"type": %q, "capabilities": {"bandwidth": true}, %s`, program, own[1:])
	text := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "net", "plugins": [%s]}`, one)
	if filepath.Ext(file) == ".conf" {
		text = `{"cniVersion": "1.0.0", "name": "net", ` + one[1:]
	}
	if err := os.WriteFile(filepath.Join(w.ConfDir, file), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// calls are the commands since the last look, with their arguments if those are asked for.
func (w *world) calls(whole bool) (all []string) {
	w.t.Helper()
	data, err := os.ReadFile(w.log)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if !whole {
			line = strings.Join(strings.Fields(line)[:2], " ")
		}
		all = append(all, strings.TrimSpace(line))
	}
	_ = os.Remove(w.log)
	return all
}

func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.calls(false)); diff != "" {
		w.t.Errorf("%s: calls (-want +got):\n%s", what, diff)
	}
}

var pod = network.Pod{SandboxID: "s", Namespace: "ns", Name: "a", UID: "u", Bandwidth: bandwidth.Limits{Egress: 1_000_000_000}}

func TestPlugin(t *testing.T) {
	w := newWorld(t)
	ns := namespacetest.New(t)
	p := w.start()
	if _, err := p.SetUp(t.Context(), pod, ns.Path()); err == nil || !strings.Contains(err.Error(), "no network configuration in "+w.ConfDir) {
		t.Errorf("without a configuration: %v", err)
	}
	w.configure("20-late.conflist", settings{Fail: map[string]string{"ADD": "is not the first"}})
	w.configure("10-first.conf", settings{})
	addrs, err := p.SetUp(t.Context(), pod, ns.Path())
	if err != nil || fmt.Sprint(addrs) != "[10.99.0.7 fd99::7]" {
		t.Errorf("got %v, %v", addrs, err)
	}
	if diff := cmp.Diff([]string{
		"ADD s eth0 true IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=a;K8S_POD_INFRA_CONTAINER_ID=s;K8S_POD_UID=u map[bandwidth:map[egressBurst:1e+08 egressRate:1e+09]]",
	}, w.calls(true)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	p = w.start() // a restarted kubelet repeats itself
	if again, err := p.SetUp(t.Context(), pod, ns.Path()); err != nil || fmt.Sprint(again) != fmt.Sprint(addrs) || fmt.Sprint(p.Addresses("s")) != fmt.Sprint(addrs) {
		t.Errorf("again: %v, %v; %v", again, err, p.Addresses("s"))
	}
	w.expect("again")
	if _, err := p.Reserve(t.Context(), "s"); err == nil {
		t.Error("addresses are there before the network")
	}
	// What undoes it does not depend on the configuration of today.
	if err := os.Remove(filepath.Join(w.ConfDir, "10-first.conf")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.TearDown(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
	}
	w.expect("torn down", "DEL s")
	if got := p.Addresses("s"); got != nil {
		t.Errorf("a sandbox that is torn down has %v", got)
	}
}

func TestSetUp_NodesOwn(t *testing.T) {
	w := newWorld(t)
	w.configure("net.conflist", settings{})
	if _, err := w.start().SetUp(t.Context(), pod, "/proc/thread-self/ns/net"); err == nil || !strings.Contains(err.Error(), "is the node's own") {
		t.Errorf("got %v", err)
	}
	w.expect("the node's own")
}

// What was begun, by this process or one that was killed, is undone before it is begun again.
func TestSetUp_Begun(t *testing.T) {
	for _, test := range []struct {
		name  string
		first settings
	}{
		{"refused", settings{Fail: map[string]string{"ADD": "no address is left"}}},
		{"without an answer", settings{Hang: "ADD"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			ns := namespacetest.New(t)
			w.configure("net.conflist", test.first)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			p := w.start()
			if _, err := p.SetUp(ctx, pod, ns.Path()); err == nil || test.first.Hang == "" && !strings.Contains(err.Error(), "no address is left") {
				t.Errorf("got %v", err)
			}
			if got := p.Addresses("s"); got != nil {
				t.Errorf("has %v", got)
			}
			w.expect("first", "ADD s")
			w.configure("net.conflist", settings{})
			p = w.start()
			if _, err := p.SetUp(t.Context(), pod, ns.Path()); err != nil {
				t.Error(err)
			}
			w.expect("then", "DEL s", "ADD s")
		})
	}
}

// A sandbox whose process has ended may be found by a path that is another's.
func TestTearDown_AnothersNamespace(t *testing.T) {
	w := newWorld(t)
	w.configure("net.conflist", settings{})
	dir := t.TempDir()
	path := filepath.Join(dir, "net")
	own, other := namespacetest.New(t), namespacetest.New(t)
	if err := os.Symlink(own.Path(), path); err != nil {
		t.Fatal(err)
	}
	p := w.start()
	if _, err := p.SetUp(t.Context(), pod, path); err != nil {
		t.Fatal(err)
	}
	w.calls(false)
	if err := errors.Join(os.Remove(path), os.Symlink(other.Path(), path)); err != nil {
		t.Fatal(err)
	}
	if err := p.Retain(t.Context(), map[string]bool{"another": true}); err != nil {
		t.Fatal(err)
	}
	if got := w.calls(true); len(got) != 1 || !strings.HasPrefix(got[0], "DEL s eth0 false ") {
		t.Errorf("calls %q", got)
	}
}

func TestPurge(t *testing.T) {
	w := newWorld(t)
	w.configure("net.conflist", settings{Fail: map[string]string{"DEL": "busy"}})
	ns := namespacetest.New(t)
	p := w.start()
	if _, err := p.SetUp(t.Context(), pod, ns.Path()); err != nil {
		t.Fatal(err)
	}
	if err := p.Purge(t.Context()); err == nil || !strings.Contains(err.Error(), "busy") || p.Addresses("s") == nil {
		t.Errorf("a network that does not let go: %v", err)
	}
	w.calls(false)
	w = &world{t: t, Config: Config{ConfDir: w.ConfDir, BinDirs: w.BinDirs, StateDir: filepath.Join(t.TempDir(), "state")}, log: w.log}
	w.configure("net.conflist", settings{})
	p = w.start()
	if _, err := p.SetUp(t.Context(), pod, ns.Path()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.expect("purged", "ADD s", "DEL s")
	if _, err := os.Stat(w.StateDir); !os.IsNotExist(err) {
		t.Errorf("state is left: %v", err)
	}
}
