// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"minik8s.io/minik8s/pkg/cluster/lifecycle"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/machinetest"
	nodes "minik8s.io/minik8s/pkg/node"
	"minik8s.io/minik8s/pkg/pki"
)

// operate returns an operation on a machine where it is alone, which clears nothing.
func operate(t *testing.T, dir lifecycle.Dir, name string) *operation {
	t.Helper()
	l, err := dir.Lock(t.Context(), name, "test", func(holder string) { t.Errorf("%s has to wait for %s", name, holder) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
	o := newOperation(dir, name, l)
	o.steps = nil
	return o
}

func newMachine(t *testing.T) lifecycle.Dir {
	t.Helper()
	return lifecycle.Dir(filepath.Join(t.TempDir(), "base", "clusters"))
}

// at puts a cluster without nodes into a directory.
func at(dir string) Change {
	return func(c *Config) error {
		none := 0
		c.Nodes, c.DataDir = &none, dir
		return nil
	}
}

func and(changes ...Change) Change {
	return func(c *Config) error {
		for _, change := range changes {
			if err := change(c); err != nil {
				return err
			}
		}
		return nil
	}
}

func mustPrepare(t *testing.T, o *operation, before entry, change Change) entry {
	t.Helper()
	e, err := o.prepare(t.Context(), before, change)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// mustServe notes that the start of a cluster has succeeded.
func mustServe(t *testing.T, o *operation, e entry) entry {
	t.Helper()
	s := &Start{Config: e.Config, operation: o}
	if err := s.serves(); err != nil {
		t.Fatal(err)
	}
	e, err := read(o.dir, o.name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// cleared has an operation record what it would clear, by name, host of Docker and range of pods, instead of doing it.
func cleared(o *operation, err error) *[]string {
	var all []string
	step := func(name string, err error) clearStep {
		return clearStep{name: name, run: func(_ context.Context, c Config) error {
			all = append(all, fmt.Sprintf("%s of %s at %s", name, c.Networking.PodSubnet, c.Kubelet.DockerHost))
			return err
		}}
	}
	containers := step("containers", err)
	containers.engine = true
	o.steps = []clearStep{containers, step("routes", nil)}
	return &all
}

// withNode gives a cluster a node.
func withNode(dockerHost, pods string) Change {
	return func(c *Config) error {
		one := 1
		c.Nodes, c.Kubelet.DockerHost, c.Networking.PodSubnet = &one, dockerHost, pods
		return nil
	}
}

// The steps are done wherever a node may have run, all of them, whatever fails.
func TestClear(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	all := []string{"containers of 10.1.0.0/16 at unix:///a", "routes of 10.1.0.0/16 at unix:///a"}
	for _, tc := range []struct {
		name     string
		nodes    int
		hasRun   bool // the kubelet's directory is there
		served   bool
		abandon  bool
		err      error
		want     []string
		wantText string
	}{
		{"nothing has run", 1, false, false, false, nil, nil, ""},
		{"no node", 0, false, true, false, nil, nil, ""},
		{"a node", 1, true, true, false, nil, all, ""},
		{"a node, and later none", 0, true, true, false, nil, all, ""},
		{"a node whose disk is away", 1, false, true, false, nil, all, ""},
		{"a start that was cut off", 1, true, false, false, nil, all, ""},
		{"a step that fails", 1, true, true, false, broken, all, "removing containers: broken"},
		{"no engine", 1, true, true, false, container.ErrUnavailable, all, "removing containers: " + container.ErrUnavailable.Error()},
		{"no engine, before the start", 1, true, false, false, container.ErrUnavailable, all, ""},
		{"no engine, and none wanted", 1, true, true, true, container.ErrUnavailable, all, ""},
		{"no engine wanted, and a step that fails", 1, true, true, true, broken, all, "removing containers: broken"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := &operation{abandon: tc.abandon}
			got := cleared(o, tc.err)
			c := Config{DataDir: t.TempDir(), Nodes: &tc.nodes, Kubelet: KubeletConfig{DockerHost: "unix:///a"}, Networking: NetworkingConfig{PodSubnet: "10.1.0.0/16"}}
			if tc.hasRun {
				if err := os.Mkdir(kubeletDir(c), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			text := ""
			if err := o.clear(t.Context(), c, tc.served); err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" || text != tc.wantText {
				t.Errorf("error %q, want %q\n%s", text, tc.wantText, diff)
			}
		})
	}
}

// A step that hangs is left after its time, and the next ones are done. Only the engine may hang where none is needed.
func TestClear_StepThatHangs(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _ Config) error { <-ctx.Done(); return ctx.Err() }
	for _, tc := range []struct{ served, abandon, engine, wantErr bool }{
		{served: true, engine: true, wantErr: true}, {served: true, wantErr: true},
		{served: true, abandon: true, engine: true}, {served: true, abandon: true, wantErr: true},
		{engine: true}, {wantErr: true},
	} {
		o := &operation{abandon: tc.abandon}
		got := cleared(o, nil)
		o.steps = append([]clearStep{{"rules", time.Millisecond, hangs, tc.engine}}, o.steps...)
		c := Config{DataDir: t.TempDir()}
		if err := os.Mkdir(kubeletDir(c), 0o700); err != nil {
			t.Fatal(err)
		}
		err := o.clear(t.Context(), c, tc.served)
		if (err != nil) != tc.wantErr || err != nil && !strings.Contains(err.Error(), "no end after 1ms") || errors.Is(err, container.ErrUnavailable) && !tc.engine {
			t.Errorf("%+v: %v", tc, err)
		}
		if len(*got) != 2 {
			t.Errorf("after it: %v", *got)
		}
	}
	for _, s := range clearSteps {
		if s.limit == 0 && s.name != "containers" { // which docker bounds
			t.Errorf("%s may take for ever", s.name)
		}
	}
}

// A purge clears the machine also if the data directory has gone before.
func TestGoDown_WithoutData(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	o := operate(t, newMachine(t), "x")
	dir := filepath.Join(t.TempDir(), "data")
	e := mustServe(t, o, mustPrepare(t, o, absent, and(at(dir), withNode("unix:///a", "10.1.0.0/16"))))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	got := cleared(o, nil)
	for _, step := range []lifecycle.Step{lifecycle.Clear, lifecycle.Erase} {
		if err := o.goDown(t.Context(), step, e, nil); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"containers of 10.1.0.0/16 at unix:///a", "routes of 10.1.0.0/16 at unix:///a"}, *got); diff != "" {
		t.Error(diff)
	}
	if now, err := read(o.dir, "x"); err != nil || now.State != lifecycle.Absent {
		t.Errorf("left: %+v, %v", now, err)
	}
}

var absent = entry{State: lifecycle.Absent}

// tree are the paths under a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	all := []string{}
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// What a first start that fails has begun goes, and all that was there before stays.
func TestUndo_FirstStart(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, path string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("1\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name      string
		there     func(t *testing.T, root string)
		meanwhile func(t *testing.T, root string)
		want      []string
	}{
		{"no directory", nil, nil, []string{}},
		{"an empty directory", func(t *testing.T, root string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Join(root, "a", "data"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{"a", "a/data"}},
		{"a new disk", func(t *testing.T, root string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Join(root, "a", "data", "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{"a", "a/data", "a/data/lost+found"}},
		{"data of an earlier cluster", func(t *testing.T, root string) {
			t.Helper()
			write(t, filepath.Join(root, "a", "data", "format"))
			write(t, filepath.Join(root, "a", "data", "etcd"))
		}, nil, []string{"a", "a/data", "a/data/etcd", "a/data/format"}},
		{"a mark that was cut off", nil, func(t *testing.T, root string) {
			t.Helper()
			mark := filepath.Join(root, "a", "data", "format")
			if err := os.Rename(mark, filepath.Join(filepath.Dir(mark), partPrefix(mark)+"1")); err != nil {
				t.Fatal(err)
			}
		}, []string{}},
		{"another disk in its place", nil, func(t *testing.T, root string) {
			t.Helper()
			write(t, filepath.Join(root, "a", "data", "precious"))
			if err := os.Remove(filepath.Join(root, "a", "data", "format")); err != nil {
				t.Fatal(err)
			}
		}, []string{"a", "a/data", "a/data/precious"}},
		{"a file that somebody puts beside", nil, func(t *testing.T, root string) {
			t.Helper()
			write(t, filepath.Join(root, "a", "mine"))
		}, []string{"a", "a/mine"}},
	} {
		for _, served := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, served %t", tc.name, served), func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				if tc.there != nil {
					tc.there(t, root)
				}
				o := operate(t, newMachine(t), "x")
				e := mustPrepare(t, o, absent, at(filepath.Join(root, "a", "data")))
				if e.State != lifecycle.Beginning {
					t.Errorf("prepared: %+v", e)
				}
				if served {
					e = mustServe(t, o, e)
				}
				if tc.meanwhile != nil {
					tc.meanwhile(t, root)
				}
				// As if the first try to undo had been cut off, twice.
				for range 2 {
					if err := o.undo(t.Context(), e, e.Before); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(tc.want, tree(t, root)); diff != "" {
					t.Error(diff)
				}
				if now, err := read(o.dir, "x"); err != nil || now.State != lifecycle.Absent {
					t.Errorf("the entry is left: %+v, %v", now, err)
				}
			})
		}
	}
}

// A start tells that the cluster is Ready only when it has noted that it serves: else the end of the process would make a
// start that was cut off of it.
func TestRun_ReadyIsNoted(t *testing.T) {
	t.Parallel()
	r, ready := newRunner(t, time.Hour)
	noted := errors.New("the disk is full")
	r.served = func() error {
		admin, err := r.credentials.Client("test", "system:masters")
		if err != nil {
			return err
		}
		// The namespace's account is there if the cluster was up before.
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := clientFor(t, admin).CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := waitReady(t.Context(), admin, r.config, r.since, func(string) {}); err != nil {
			return err
		}
		select {
		case <-ready:
			return errors.New("it has told that it is Ready")
		case <-time.After(200 * time.Millisecond):
			return noted
		}
	}
	if err := r.run(t.Context()); !errors.Is(err, noted) {
		t.Errorf("it ended with %v", err)
	}
	select {
	case <-ready:
		t.Error("it has told that it is Ready")
	default:
	}
}

// Who waits for a cluster that another starts waits for the same note.
func TestAwaitRunning(t *testing.T) {
	t.Parallel()
	o := operate(t, newMachine(t), "x")
	e := mustPrepare(t, o, absent, at(filepath.Join(t.TempDir(), "data")))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := awaitRunning(ctx, o.dir, "x"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), string(lifecycle.Beginning)) {
		t.Errorf("of a start that is under way: %v", err)
	}
	result := make(chan error, 1)
	go func() { result <- awaitRunning(t.Context(), o.dir, "x") }()
	mustServe(t, o, e)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// A restart that fails leaves the configuration of before; one that succeeds its own.
func TestUndo_Restart(t *testing.T) {
	t.Parallel()
	o := operate(t, newMachine(t), "x")
	dir := filepath.Join(t.TempDir(), "data")
	first := mustServe(t, o, mustPrepare(t, o, absent, at(dir)))
	if first.State != lifecycle.Running || first.Before != nil {
		t.Fatalf("after the first start: %+v", first)
	}
	port := func(p int) Change {
		return func(c *Config) error {
			c.APIPort = p
			return nil
		}
	}
	tried := mustPrepare(t, o, first, port(7001))
	if tried.State != lifecycle.Starting || tried.Config.APIPort != 7001 || tried.Before == nil || tried.Before.Config.APIPort != first.Config.APIPort {
		t.Fatalf("a restart: %+v", tried)
	}
	if err := o.undo(t.Context(), tried, tried.Before); err != nil {
		t.Fatal(err)
	}
	now, err := read(o.dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, now); diff != "" {
		t.Errorf("a restart that failed leaves\n%s", diff)
	}
	if marked, err := checkFormat(dir); !marked || err != nil {
		t.Errorf("the data: %t, %v", marked, err)
	}
	if got := mustServe(t, o, mustPrepare(t, o, now, port(7002))).Config.APIPort; got != 7002 {
		t.Errorf("a restart that succeeded has port %d", got)
	}
}

// A start that fails takes the nodes back that it has made, and no others.
func TestUndo_AddedNodes(t *testing.T) {
	t.Parallel()
	number := func(n int) Change {
		return func(c *Config) error {
			c.Nodes = &n
			return nil
		}
	}
	for _, tc := range []struct {
		name    string
		state   lifecycle.State // of the cluster before
		there   []string        // nodes before
		made    []string        // by the start that fails, and by others meanwhile
		removed []string
		next    int // how many nodes the next start has
	}{
		{"all that it was to make", lifecycle.Running, nil, []string{"x-2", "x-3"}, []string{"x-2", "x-3"}, 1},
		{"of a cluster that was down", lifecycle.Stopped, nil, []string{"x-2", "x-3"}, []string{"x-2", "x-3"}, 1},
		{"one of them", lifecycle.Running, nil, []string{"x-2"}, []string{"x-2"}, 1},
		{"none", lifecycle.Running, nil, nil, nil, 1},
		{"not those of before", lifecycle.Running, []string{"x-2"}, []string{"x-3"}, []string{"x-3"}, 2},
		{"not one that somebody else has added", lifecycle.Running, nil, []string{"x-2", "x-3", "x-4", "other"}, []string{"x-2", "x-3"}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := operate(t, newMachine(t), "x")
			change := and(at(filepath.Join(t.TempDir(), "data")), withNode("unix:///a", "10.1.0.0/16"))
			before := mustServe(t, o, mustPrepare(t, o, absent, change))
			before.State = tc.state
			dir := nodesDir(before.Config)
			add := func(names []string) {
				for _, name := range names {
					if err := dir.Write(nodes.Node{Name: name, State: nodes.Running}); err != nil {
						t.Fatal(err)
					}
				}
			}
			add(tc.there)
			tried := mustServe(t, o, mustPrepare(t, o, before, number(3)))
			add(tc.made)
			if err := o.undo(t.Context(), tried, &before); err != nil {
				t.Fatal(err)
			}
			list, err := dir.List()
			if err != nil {
				t.Fatal(err)
			}
			var removed []string
			for _, n := range list {
				if n.State == nodes.Removing {
					removed = append(removed, n.Name)
				}
			}
			if diff := cmp.Diff(tc.removed, removed); diff != "" || len(list) != len(tc.there)+len(tc.made) {
				t.Errorf("of %d nodes are removed (-want +got):\n%s", len(list), diff)
			}
			now, err := read(o.dir, "x")
			if err != nil {
				t.Fatal(err)
			}
			if next := mustPrepare(t, o, now, func(*Config) error { return nil }).Config.NodeCount(); next != tc.next {
				t.Errorf("the next start has %d nodes, want %d", next, tc.next)
			}
		})
	}
}

// What a cluster that was not stopped has left goes before a start that will not take it over, and only then.
func TestPrepare_MovesOut(t *testing.T) {
	t.Parallel()
	old := []string{"containers of 10.1.0.0/16 at unix:///a", "routes of 10.1.0.0/16 at unix:///a"}
	none := 0
	broken := errors.New("broken")
	for _, tc := range []struct {
		name    string
		state   lifecycle.State
		change  Change
		err     error
		want    []string
		wantErr bool
		left    lifecycle.State // what undoing goes back to
	}{
		{"nothing new", lifecycle.Running, func(*Config) error { return nil }, nil, []string{}, false, lifecycle.Running},
		{"what pods do not mind", lifecycle.Running, func(c *Config) error { c.APIPort, c.Kubelet.MaxPods = 7007, 7; return nil }, nil, []string{}, false, lifecycle.Running},
		{"another engine", lifecycle.Running, withNode("unix:///b", "10.1.0.0/16"), nil, old, false, lifecycle.Stopped},
		{"other addresses", lifecycle.Running, withNode("unix:///a", "10.2.0.0/16"), nil, old, false, lifecycle.Stopped},
		{"no node", lifecycle.Running, func(c *Config) error { c.Nodes = &none; return nil }, nil, old, false, lifecycle.Stopped},
		{"another engine, stopped", lifecycle.Stopped, withNode("unix:///b", "10.1.0.0/16"), nil, []string{}, false, lifecycle.Stopped},
		{"another engine, and the old one fails", lifecycle.Running, withNode("unix:///b", "10.1.0.0/16"), broken, nil, true, lifecycle.Running},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := operate(t, newMachine(t), "x")
			was := mustServe(t, o, mustPrepare(t, o, absent, and(at(filepath.Join(t.TempDir(), "data")), withNode("unix:///a", "10.1.0.0/16"))))
			was.State = tc.state
			if err := write(o.dir, was); err != nil {
				t.Fatal(err)
			}
			got := cleared(o, tc.err)
			_, err := o.prepare(t.Context(), was, tc.change)
			if (err != nil) != tc.wantErr {
				t.Fatalf("error %v", err)
			}
			now, err := read(o.dir, "x")
			if err != nil {
				t.Fatal(err)
			}
			if tc.wantErr {
				if diff := cmp.Diff(was, now); diff != "" {
					t.Errorf("a start that failed has written\n%s", diff)
				}
				return
			}
			if now.State != lifecycle.Starting || now.Before.State != tc.left {
				t.Errorf("now: %+v", now)
			}
			if diff := cmp.Diff(tc.want, append([]string{}, *got...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a node has left that was here before stays until the cluster has let the new one in, which is not known when it is asked.
func TestStart_NodeThatAsks(t *testing.T) {
	t.Parallel()
	old := []string{"containers of 10.1.0.0/16 at unix:///a", "routes of 10.1.0.0/16 at unix:///a"}
	none := 0
	for _, tc := range []struct {
		name  string
		letIn string // the pods' range then; "" if it is refused
		want  []string
	}{
		{"refused", "", nil},
		{"let in as before", "10.1.0.0/16", nil},
		{"let in elsewhere", "10.2.0.0/16", old},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := operate(t, newMachine(t), "x")
			o.agent = true
			was := mustServe(t, o, mustPrepare(t, o, absent, and(at(filepath.Join(t.TempDir(), "data")), withNode("unix:///a", "10.1.0.0/16"))))
			got := cleared(o, nil)
			s, err := o.beginHere(t.Context(), func(c *Config) error { c.Nodes, c.Networking.PodSubnet = &none, "10.2.0.0/16"; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if len(*got) != 0 {
				t.Errorf("cleared before anybody has answered: %q", *got)
			}
			want := was.Config
			if tc.letIn != "" {
				s.Config = want
				s.Config.Networking.PodSubnet = tc.letIn
				want = s.Config
				if err := errors.Join(s.moveOut(t.Context()), s.serves()); err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("cleared (-want +got):\n%s", diff)
			}
			now, err := read(o.dir, "x")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(entry{State: lifecycle.Running, Config: want, Agent: true, Made: was.Made}, now); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// A node of a cluster elsewhere keeps its place, its engine and what a file has said, and takes all else from the kubeconfig of the time.
func TestMembership_Change(t *testing.T) {
	t.Parallel()
	was := Config{
		Name: "x", DataDir: "/d", APIPort: 1, Proxy: ProxyConfig{Mode: "nftables"},
		Kubelet: KubeletConfig{DockerHost: "unix:///a", DockerCertPath: "/c", DockerTLSVerify: true, NodeIP: "192.0.2.1", Port: 10251, Config: "/k.yaml"},
	}
	kept := KubeletConfig{DockerHost: "unix:///a", DockerCertPath: "/c", DockerTLSVerify: true, NodeIP: "192.0.2.2", Port: 10251, Config: "/k.yaml"}
	given := kept
	given.Config, given.MaxPods = "/l.yaml", 5
	flags := KubeletConfig{DockerHost: "unix:///b", NodeIP: "192.0.2.2", Port: 10252, Config: "/l.yaml", MaxPods: 5}
	for _, tc := range []struct {
		name string
		was  Config
		dir  string
		file string // "-": none
		node KubeletConfig
		want Config
		err  string // part of it
	}{
		{name: "nothing given", was: was, file: "-", want: Config{Name: "x", DataDir: "/d", Kubelet: kept, Proxy: was.Proxy}},
		{name: "first start", file: "-", want: Config{Name: "x", Kubelet: KubeletConfig{NodeIP: "192.0.2.2", Port: 10250}}},
		{name: "file", was: was, file: "kubelet: {config: /l.yaml, maxPods: 5}\nproxy: {mode: iptables}", want: Config{Name: "x", DataDir: "/d", Kubelet: given, Proxy: ProxyConfig{Mode: "iptables"}}},
		{
			name: "all given", was: was, dir: "/e", file: "kubelet: {config: /l.yaml, maxPods: 5, dockerHost: unix:///c, port: 1}",
			node: KubeletConfig{DockerHost: "unix:///b", Port: 10252}, want: Config{Name: "x", DataDir: "/e", Kubelet: flags, Proxy: was.Proxy},
		},
		{name: "another cluster's affair", was: was, file: "networking: {podSubnet: 10.0.0.0/8}", err: "a node takes kubelet and proxy"},
		{name: "as much of another's affair as there is", was: was, file: "dns: {allowFrom: [0.0.0.0/0]}", err: "a node takes kubelet and proxy"},
		{name: "place of the data", was: was, file: "dataDir: /f", err: "a node takes kubelet and proxy"},
		{name: "who it is", was: was, file: "kubelet: {nodeName: other}", err: "when it joins"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := &Membership{Config: Config{Name: "x", DataDir: tc.dir, Kubelet: tc.node, DNS: DNSConfig{AllowFrom: []string{"192.0.2.0/24"}}}}
			m.Config.Kubelet.NodeIP = "192.0.2.2"
			tc.want.DNS = m.Config.DNS
			if tc.file != "-" {
				path := filepath.Join(t.TempDir(), "config.yaml")
				if err := os.WriteFile(path, []byte("apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nname: y\n"+tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
				var err error
				if _, m.Settings, err = ReadConfig(path); err != nil {
					t.Fatal(err)
				}
			}
			got := tc.was
			err := m.change(&got)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want an error with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a file and flags do not say stays as it was.
func TestPrepare_Keeps(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///first.sock")
	t.Setenv("DOCKER_CERT_PATH", "/certs")
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	root := t.TempDir()
	file := func(text string) Change {
		t.Helper()
		path := filepath.Join(root, "config.yaml")
		if err := os.WriteFile(path, []byte("apiVersion: minik8s.io/v1alpha1\nkind: Cluster\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, change, err := ReadConfig(path)
		if err != nil {
			t.Fatal(err)
		}
		return change
	}
	o := operate(t, newMachine(t), "x")
	dir := filepath.Join(root, "data")
	first := mustServe(t, o, mustPrepare(t, o, absent, and(at(dir), file("nodes: 1\netcd: {servers: [\"https://e:2379\"], caFile: /ca}\nkubelet: {maxPods: 7}\n"))))
	if k := first.Config.Kubelet; k.DockerHost != "unix:///first.sock" || k.DockerCertPath != "/certs" || !k.DockerTLSVerify {
		t.Errorf("the engine is not kept: %+v", k)
	}
	t.Setenv("DOCKER_HOST", "unix:///second.sock")
	t.Setenv("DOCKER_TLS_VERIFY", "")
	second := mustPrepare(t, o, first, file("verbosity: 3\n"))
	want := first.Config
	want.Verbosity = 3
	if diff := cmp.Diff(want, second.Config); diff != "" {
		t.Errorf("a file that says only verbosity changes\n%s", diff)
	}
	third := mustPrepare(t, o, first, file("etcd: {servers: []}\n"))
	if len(third.Config.Etcd.Servers) != 0 || third.Config.Etcd.CAFile != "/ca" {
		t.Errorf("a file that says no servers: %+v", third.Config.Etcd)
	}
}

func TestPrepare_Refuses(t *testing.T) {
	t.Parallel()
	machine, root := newMachine(t), t.TempDir()
	mine := operate(t, machine, "mine")
	known := mustServe(t, mine, mustPrepare(t, mine, absent, at(filepath.Join(root, "mine"))))
	lost := operate(t, machine, "lost")
	gone := mustServe(t, lost, mustPrepare(t, lost, absent, at(filepath.Join(root, "gone"))))
	if err := os.RemoveAll(filepath.Join(root, "gone")); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	other := operate(t, machine, "other")
	for _, tc := range []struct {
		name   string
		o      *operation
		before entry
		change Change
		want   string
	}{
		{"the data of another", other, absent, at(filepath.Join(root, "mine")), `that of cluster "mine"`},
		{"below the data of another", other, absent, at(filepath.Join(root, "mine", "x")), `that of cluster "mine"`},
		{"above the data of another", other, absent, at(root), `that of cluster "`},
		{"the data of another by a link", other, absent, at(filepath.Join(link, "mine")), `that of cluster "mine"`},
		{"below the data of another by a link", other, absent, at(filepath.Join(link, "mine", "x", "y")), `that of cluster "mine"`},
		{"the list of clusters", other, absent, at(string(machine)), "lists the clusters"},
		{"another place", mine, known, at(filepath.Join(root, "new")), "keeps its data in"},
		{"data that are gone", lost, gone, func(*Config) error { return nil }, "not in " + filepath.Join(root, "gone") + " any more"},
		{"nonsense", other, absent, and(at(filepath.Join(root, "new")), func(c *Config) error { c.APIPort = -1; return nil }), "not a port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tree(t, root)
			was, err := read(machine, tc.o.name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tc.o.prepare(t.Context(), tc.before, tc.change); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			is, err := read(machine, tc.o.name)
			if diff := cmp.Diff(was, is); err != nil || diff != "" {
				t.Errorf("it has written\n%s %v", diff, err)
			}
			if diff := cmp.Diff(before, tree(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A node of a cluster elsewhere and a cluster that have the same name, as they have by default, do not take each other over.
func TestBeginHere_TellsClusterFromNode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		was, asks bool // an agent
		want      string
	}{
		{"cluster again", false, false, ""},
		{"node again", true, true, ""},
		{"node over a cluster", false, true, `"x" is a cluster of this machine: use another --name`},
		{"cluster over a node", true, false, `"x" is only a node here, of a cluster on another machine: use another --name`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := operate(t, newMachine(t), "x")
			o.agent = tc.was
			dir := filepath.Join(t.TempDir(), "data")
			known := mustServe(t, o, mustPrepare(t, o, absent, and(at(dir), func(c *Config) error {
				c.Etcd.Servers = []string{"https://e"}
				return nil
			})))
			if known.Agent != tc.was {
				t.Errorf("the entry is %+v", known)
			}
			o.agent = tc.asks
			s, err := o.beginHere(t.Context(), func(c *Config) error { c.Etcd.Servers = nil; return nil })
			if err == nil {
				s.release()
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err == nil {
				return
			}
			if now, err := read(o.dir, "x"); err != nil || !cmp.Equal(known, now) {
				t.Errorf("it has written %+v, %v", now, err)
			}
		})
	}
}

// Clusters that start at the same time are given nothing twice.
func TestPrepare_AtTheSameTime(t *testing.T) {
	t.Parallel()
	machine, root := newMachine(t), t.TempDir()
	const n = 6
	results := make(chan entry, n)
	for i := range n {
		o := operate(t, machine, fmt.Sprintf("c%d", i))
		go func() {
			e, err := o.prepare(t.Context(), absent, at(filepath.Join(root, o.name)))
			if err != nil {
				t.Error(err)
			}
			results <- e
		}()
	}
	seen := map[string]string{}
	for range n {
		c := (<-results).Config
		for _, v := range []string{fmt.Sprint(c.APIPort), fmt.Sprint(c.Kubelet.Port), c.Networking.PodSubnet, c.Networking.ServiceSubnet} {
			if by, taken := seen[v]; taken {
				t.Errorf("%s is given to %s and %s", v, by, c.Name)
			}
			seen[v] = c.Name
		}
	}
}

func TestUnchanged(t *testing.T) {
	t.Parallel()
	none, one := 0, 1
	running := Config{
		APIVersion: APIVersion, Kind: Kind, Name: "x", Nodes: &none, APIPort: 6443, DataDir: "/d",
		Networking: NetworkingConfig{PodSubnet: "10.1.0.0/16", ServiceSubnet: "10.2.0.0/16", DNSDomain: "d"},
		Kubelet:    KubeletConfig{Port: 10250, NodeName: "n", DockerHost: "unix:///a"},
	}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"nothing", func(*Config) {}, nil},
		{"the same", func(c *Config) { c.APIPort = 6443; c.Nodes = &none }, nil},
		{"what a start chooses", func(c *Config) {
			c.APIPort, c.DataDir, c.Kubelet.Port, c.Kubelet.NodeName, c.Kubelet.DockerHost, c.Networking = 0, "", 0, "", "", NetworkingConfig{}
		}, nil},
		{"a port", func(c *Config) { c.APIPort = 7000 }, []string{"running with --api-port 6443, not 7000", "minik8s down --name x"}},
		{"nodes", func(c *Config) { c.Nodes = &one }, []string{"--nodes 0, not 1"}},
		{"etcd", func(c *Config) { c.Etcd.Servers = []string{"http://e"} }, []string{`--etcd-servers the default, not ["http://e"]`}},
		{"of a file", func(c *Config) { c.Kubelet.MaxPods = 5; c.Verbosity = 2 }, []string{"-v the default, not 2", "kubelet.maxPods the default, not 5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := unchanged(running, func(c *Config) error { tc.change(c); return nil })
			if (err == nil) != (len(tc.want) == 0) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			for _, w := range tc.want {
				if err != nil && !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, want %q", err, w)
				}
			}
		})
	}
	if *running.Nodes != 0 {
		t.Error("a question has changed the configuration")
	}
}

// The same file twice is no change, however it names the folder of the data.
func TestUnchanged_DataDirOfFile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{"relative": "./data", "up": "../" + filepath.Base(root) + "/data", "not clean": root + "//data/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(root, strings.ReplaceAll(name, " ", "-")+".yaml")
			if err := os.WriteFile(path, []byte("apiVersion: minik8s.io/v1alpha1\nkind: Cluster\ndataDir: "+text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, change, err := ReadConfig(path)
			if err != nil {
				t.Fatal(err)
			}
			running, err := settle(Config{Name: "x", DataDir: filepath.Join(root, "data")}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := unchanged(running, change); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestErase_Locked: a cluster is gone although somebody has locked the user's kubeconfig, and what to do about that is told.
func TestErase_Locked(t *testing.T) {
	file := userConfig(t, "mine")
	o := operate(t, newMachine(t), "x")
	e := mustServe(t, o, mustPrepare(t, o, absent, at(filepath.Join(t.TempDir(), "data"))))
	if err := writeKubeconfig(KubeconfigPath(e.Config), kubeconfig("x", "https://x", []byte("ca"), pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(e.Config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var p *Problem
		if err := o.erase(e); !errors.As(err, &p) || !strings.Contains(p.Cause, file+".lock") || !strings.Contains(p.Remedy, "minik8s kubeconfig --unmerge --name x") {
			t.Errorf("the error is %v, want a Problem that names the lock and what to do", err)
		}
	})
	if now, err := read(o.dir, "x"); err != nil || now.State != lifecycle.Absent {
		t.Errorf("the entry is left: %+v, %v", now, err)
	}
	if err := os.Remove(file + ".lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := unmerge("x", nil); err != nil { // as it is without a cluster
		t.Fatal(err)
	}
	if left, err := clientcmd.LoadFromFile(file); err != nil || left.Contexts[contextName("x")] != nil || left.Contexts["mine"] == nil {
		t.Errorf("the kubeconfig is %+v, %v", left, err)
	}
}

// Purging leaves nothing, but what is not the cluster's.
func TestErase(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	root := t.TempDir()
	purge := func(t *testing.T, prepare func(dir string)) (dir string) {
		t.Helper()
		o := operate(t, newMachine(t), "x")
		dir = filepath.Join(root, strings.ReplaceAll(t.Name(), "/", "-"), "data")
		e := mustServe(t, o, mustPrepare(t, o, absent, at(dir)))
		prepare(dir)
		for range 2 { // as if it had been cut off
			if err := o.erase(e); err != nil {
				t.Fatal(err)
			}
		}
		if now, err := read(o.dir, "x"); err != nil || now.State != lifecycle.Absent {
			t.Errorf("the entry is left: %+v, %v", now, err)
		}
		return dir
	}
	t.Run("all of it", func(t *testing.T) {
		dir := purge(t, func(dir string) {
			if err := os.MkdirAll(filepath.Join(dir, "etcd", "member"), 0o700); err != nil {
				t.Fatal(err)
			}
		})
		if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", filepath.Dir(dir), err)
		}
	})
	t.Run("not what has taken its place", func(t *testing.T) {
		dir := purge(t, func(dir string) {
			if err := os.Rename(filepath.Join(dir, "format"), filepath.Join(dir, "precious")); err != nil {
				t.Fatal(err)
			}
		})
		if _, err := os.Stat(filepath.Join(dir, "precious")); err != nil {
			t.Error(err)
		}
	})
	t.Run("a mount point", func(t *testing.T) {
		machinetest.Mounts(t)
		dir := purge(t, func(dir string) {
			if err := unix.Mount("test", dir, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(dir, 0); err != nil {
					t.Errorf("unmounting: %v", err)
				}
			})
			if err := errors.Join(mark(dir), os.Mkdir(filepath.Join(dir, "etcd"), 0o700)); err != nil {
				t.Fatal(err)
			}
		})
		if got := tree(t, dir); len(got) > 0 {
			t.Errorf("%v are left", got)
		}
	})
}

func TestUnmountAll_LeavesTheDirectoryItself(t *testing.T) {
	machinetest.Mounts(t)
	dir := filepath.Join(t.TempDir(), "a b")
	below := filepath.Join(dir, "pods", "x")
	link := filepath.Join(t.TempDir(), "link")
	for _, d := range []string{dir, below} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("test", d, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(d, unix.MNT_DETACH) }) // it may be gone, as it should
		if err := os.MkdirAll(below, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := unmountAll(link); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	escaped := strings.ReplaceAll(dir, " ", `\040`)
	if !strings.Contains(string(data), " "+escaped+" ") || strings.Contains(string(data), escaped+"/") {
		t.Errorf("mounted now:\n%s", data)
	}
}

func TestList_OneBadEntry(t *testing.T) {
	t.Parallel()
	machine := newMachine(t)
	good := operate(t, machine, "good")
	mustPrepare(t, good, absent, at(filepath.Join(t.TempDir(), "good")))
	operate(t, machine, "bad")
	operate(t, machine, "old")
	if err := errors.Join(machine.Write("bad", []byte("{")), machine.Write("old", []byte(`{"apiVersion":"minik8s.io/v1alpha1","kind":"Cluster","name":"old","dataDir":"/d","apiPort":7}`))); err != nil {
		t.Fatal(err)
	}
	all, err := list(machine)
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	var p *Problem
	if bad := all[0]; bad.Name != "bad" || !errors.As(bad.Err, &p) {
		t.Errorf("the bad one: %+v", bad)
	}
	if all[1].Name != "good" || all[1].Err != nil {
		t.Errorf("the good one: %+v", all[1])
	}
	if old := all[2]; old.Err != nil || old.State != lifecycle.Running || old.Config.APIPort != 7 {
		t.Errorf("one of an earlier version: %+v", old)
	}
	if _, err := otherConfigs(machine, "new"); err != nil {
		t.Errorf("a new cluster: %v", err)
	}
}

func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	close(ended)
	broken := errors.New("broken")
	byKill := make(chan struct{})
	for _, tc := range []struct {
		name string
		done chan struct{}
		kill func() error
		want string
	}{
		{"has ended", ended, func() error { return broken }, ""},
		{"is killed", byKill, func() error { close(byKill); return nil }, ""},
		{"cannot be killed", nil, func() error { return broken }, "broken"},
		{"hangs", nil, func() error { return nil }, "it does not die"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			grace := time.Millisecond
			if tc.done != nil {
				grace = time.Minute // there is no need to wait
			}
			if tc.done == byKill {
				grace = 100 * time.Millisecond
			}
			err := awaitEnd(tc.done, tc.kill, grace)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("old\na\nb\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		from int64
		n    int
		want string
	}{
		{"all that is new", 4, 10, "a\nb\nc"},
		{"the last", 4, 2, "b\nc"},
		{"nothing new", 10, 2, ""},
		{"a new file", 99, 10, "old\na\nb\nc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tail(path, tc.from, tc.n); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
