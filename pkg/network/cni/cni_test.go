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
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/atomicwriter"

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
	Fail          map[string]string `json:"fail"`  // error by command
	Hang          string            `json:"hang"`  // the command that never ends, if there is no agent
	Agent         string            `json:"agent"` // a file that DEL needs, as it may need a socket
	Leave         string            `json:"leave"` // what ADD leaves with its output open: a child in its "group", or in another "session"
	Child         string            `json:"child"` // the file for the id of that child
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
	if s.Leave != "" && command == "ADD" {
		leave(s.Leave == "session", s.Child)
	}
	_, away := os.Stat(s.Agent)
	if s.Hang == command && away != nil {
		<-time.After(time.Hour)
	}
	if s.Agent != "" && command == "DEL" && away != nil {
		s.Fail = map[string]string{command: "the agent is away"}
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

// leave starts a child that has this program's output, and notes its id.
func leave(session bool, file string) {
	child := exec.Command("sleep", "600")
	child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: session}
	err := child.Start()
	if err == nil {
		err = atomicwriter.WriteFile(file, []byte(strconv.Itoa(child.Process.Pid)), 0o600)
	}
	if err != nil {
		panic(err)
	}
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

// called tells whether there were commands since the last look.
func (w *world) called() bool {
	log, err := os.Stat(w.log)
	return err == nil && log.Size() > 0
}

func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.calls(false)); diff != "" {
		w.t.Errorf("%s: calls (-want +got):\n%s", what, diff)
	}
}

// connect gives sandboxes addresses.
func (w *world) connect(p *Plugin, sandboxes ...string) {
	w.t.Helper()
	ns := namespacetest.New(w.t)
	for _, id := range sandboxes {
		if _, err := p.SetUp(w.t.Context(), network.Pod{SandboxID: id}, ns.Path()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.calls(false)
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
	synctest.Test(t, func(t *testing.T) {
		if err := p.Retain(t.Context(), map[string]bool{"another": true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // before the context ends with this function
	})
	if got := w.calls(true); len(got) != 1 || !strings.HasPrefix(got[0], "DEL s eth0 false ") {
		t.Errorf("calls %q", got)
	}
}

// After the machine was started again a path and a number may be another one's: it is not touched, and a sandbox is connected anew.
func TestSetUp_AnotherBoot(t *testing.T) {
	w := newWorld(t)
	w.configure("net.conflist", settings{})
	ns := namespacetest.New(t)
	before := w.start()
	before.boot = "another"
	for _, id := range []string{"s", "gone"} {
		if _, err := before.SetUp(t.Context(), network.Pod{SandboxID: id}, ns.Path()); err != nil {
			t.Fatal(err)
		}
	}
	w.calls(false)
	p := w.start()
	if _, err := p.SetUp(t.Context(), pod, ns.Path()); err != nil {
		t.Fatal(err)
	}
	if err := p.TearDown(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, call := range w.calls(true) {
		got = append(got, strings.Join(strings.Fields(call)[:4], " "))
	}
	if diff := cmp.Diff([]string{"DEL s eth0 false", "ADD s eth0 true", "DEL gone eth0 false"}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// What has no sandbox keeps no pod waiting: its network may need one of these pods to let go of it.
func TestRetain_NetworkAway(t *testing.T) {
	for _, test := range []struct {
		name     string
		comes    bool // the agent; else the kubelet ends
		want     []string
		released bool
	}{
		{"the agent comes", true, []string{"DEL s"}, true},
		{"the kubelet ends", false, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			ns := namespacetest.New(t)
			agent := filepath.Join(t.TempDir(), "agent")
			w.configure("net.conflist", settings{Agent: agent})
			p := w.start()
			w.connect(p, "s", "kept")
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if err := p.Retain(ctx, map[string]bool{"kept": true}); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				w.expect("at once", "DEL s")
				if p.Addresses("s") == nil {
					t.Error("what is connected is forgotten")
				}
				if _, err := p.SetUp(ctx, network.Pod{SandboxID: "later"}, ns.Path()); err != nil {
					t.Error(err)
				}
				w.expect("a new sandbox", "ADD later")
				if !test.comes {
					cancel()
				} else if err := os.WriteFile(agent, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Hour)
				w.expect("then", test.want...)
				if got := p.Addresses("s"); (got == nil) != test.released || p.Addresses("kept") == nil || p.Addresses("later") == nil {
					t.Errorf("has %v, others %v and %v", got, p.Addresses("kept"), p.Addresses("later"))
				}
			})
		})
	}
}

func TestRetain_NoAnswer(t *testing.T) {
	w := newWorld(t)
	w.configure("net.conflist", settings{Hang: "DEL"})
	p := w.start()
	w.connect(p, "s")
	inTime(t, "looking for what has no sandbox", func() error { return p.Retain(t.Context(), nil) })
	inTime(t, "disconnecting it", func() error {
		await(t, w.called)
		return nil
	})
	w.expect("meanwhile", "DEL s")
}

// A program that is ended leaves nobody waiting, whatever it has started; nor does one that leaves somebody on purpose.
func TestSetUp_LeavesChild(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings settings
		ends     bool // the child, with the program
	}{
		{"without an answer", settings{Hang: "ADD", Leave: "group"}, true},
		{"without an answer, the child apart", settings{Hang: "ADD", Leave: "session"}, false},
		{"with an answer", settings{Leave: "group"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ns := namespacetest.New(t)
			test.settings.Child = filepath.Join(t.TempDir(), "child")
			w.configure("net.conflist", test.settings)
			p := w.start()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() {
				_, err := p.SetUp(ctx, pod, ns.Path())
				result <- err
			}()
			child := childOf(t, test.settings.Child)
			if test.settings.Hang != "" {
				inTime(t, "disconnecting others", func() error {
					for i := range 256 {
						if err := p.TearDown(t.Context(), strconv.Itoa(i)); err != nil {
							return err
						}
					}
					return nil
				})
				cancel()
			}
			inTime(t, "connecting", func() error {
				if err := <-result; (err != nil) != (test.settings.Hang != "") {
					return fmt.Errorf("connecting: %w", err)
				}
				return nil
			})
			inTime(t, "disconnecting", func() error { return p.TearDown(t.Context(), "s") })
			if test.ends {
				inTime(t, "the end of the child", func() error { await(t, func() bool { return !runs(child) }); return nil })
			} else if !runs(child) {
				t.Error("the child was ended")
			}
		})
	}
}

// childOf awaits the child that a program leaves, and ends it with the test.
func childOf(t *testing.T, file string) (pid int) {
	t.Helper()
	var text []byte
	inTime(t, "starting", func() (err error) {
		await(t, func() bool { text, err = os.ReadFile(file); return err == nil })
		return err
	})
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if runs(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return pid
}

// runs tells whether a process is there, and not only its number for who has started it.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasPrefix(string(text), "sleep")
}

// await returns when something is so, or the test has ended.
func await(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			return
		}
	}
}

// inTime fails the test if what should not have to wait does.
func inTime(t *testing.T, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s takes too long", what)
	}
}

// A purge disconnects each sandbox once, and leaves nothing of it whatever the network says: who might help has gone.
func TestPurge(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings settings
	}{
		{"lets go", settings{}},
		{"does not let go", settings{Fail: map[string]string{"DEL": "busy"}}},
		{"without an answer", settings{Hang: "DEL"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.configure("net.conflist", test.settings)
			p := w.start()
			w.connect(p, "a", "b")
			p.farewell = 10 * time.Second
			for range 2 {
				if err := p.Purge(t.Context()); err != nil {
					t.Error(err)
				}
			}
			got := w.calls(false)
			slices.Sort(got)
			if diff := cmp.Diff([]string{"DEL a", "DEL b"}, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if p.Addresses("a") != nil || p.Addresses("b") != nil {
				t.Error("sandboxes have addresses still")
			}
			if _, err := os.Stat(w.StateDir); !os.IsNotExist(err) {
				t.Errorf("state is left: %v", err)
			}
		})
	}
}

// Who interrupts a purge, or has no more time for it, and goes on later finds what there is to do.
func TestPurge_Interrupted(t *testing.T) {
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		t.Run(want.Error(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			agent := filepath.Join(t.TempDir(), "agent")
			w.configure("net.conflist", settings{Hang: "DEL", Agent: agent})
			p := w.start()
			w.connect(p, "a")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() { result <- p.Purge(ending{ctx, want}) }()
			inTime(t, "beginning", func() error {
				await(t, w.called)
				return nil
			})
			cancel()
			inTime(t, "the interruption", func() error {
				if err := <-result; !errors.Is(err, want) {
					return fmt.Errorf("got %w", err)
				}
				return nil
			})
			w.expect("interrupted", "DEL a")
			if p.Addresses("a") == nil {
				t.Error("the sandbox is forgotten")
			}
			if err := os.WriteFile(agent, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := w.start().Purge(t.Context()); err != nil {
				t.Error(err)
			}
			w.expect("then", "DEL a")
		})
	}
}

// ending is a context that ends as told.
type ending struct {
	context.Context
	as error
}

func (e ending) Err() error {
	if e.Context.Err() == nil {
		return nil
	}
	return e.as
}
