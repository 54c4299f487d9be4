// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"archive/tar"
	"bytes"
	"context"
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
	"time"

	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/versions"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/containertest"
	"minik8s.io/minik8s/pkg/machinetest"
)

// newTestRuntime returns a Runtime of a cluster of its own, purged with the test.
func newTestRuntime(t *testing.T) *Runtime {
	t.Helper()
	if err := Check(t.Context(), "", TLS{}); errors.Is(err, container.ErrUnavailable) {
		machinetest.Lacks(t, "needs Docker: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Cluster: fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano()), Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Purge(ctx); err != nil {
			t.Errorf("Purge: %v", err)
		}
		_ = r.Close()
	})
	return r
}

const testRef = "minik8s.test/program:1"

// programTar compiles the suite's program and packs it as an image's file system.
func programTar(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", file, "../containertest/testdata/main")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the test program: %v\n%s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"tmp/", "dev/", "proc/", "sys/", "etc/"} {
		if err := w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o777}); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"etc/accounts": "root:x:0:0::/:\nalice:x:1000:1000::/:\n", "etc/group": "root:x:0:\nalice:x:1000:\nextra:x:50000:alice\nwheel:x:10:root\n",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "etc/passwd", Typeflag: tar.TypeSymlink, Linkname: "/etc/accounts"}); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHeader(&tar.Header{Name: "program", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// importProgram makes the test image, removed with the test.
func importProgram(t *testing.T, r *Runtime) *container.Image {
	t.Helper()
	out, err := r.client.ImageImport(t.Context(), image.ImportSource{Source: bytes.NewReader(programTar(t)), SourceName: "-"}, testRef,
		image.ImportOptions{Changes: []string{`ENTRYPOINT ["/program"]`, "USER 0"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, out)
	_ = out.Close()
	if err != nil {
		t.Fatal(err)
	}
	img, err := r.Image(t.Context(), testRef)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.RemoveImage(ctx, img.ID); err != nil {
			t.Errorf("removing the test image: %v", err)
		}
	})
	return img
}

func subject(t *testing.T, r *Runtime) containertest.Subject {
	t.Helper()
	img := importProgram(t, r)
	return containertest.Subject{
		Runtime: r, Image: img.ID, Ref: testRef, Program: "/program",
		Again: func() container.Runtime {
			again, err := New(r.config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = again.Close() })
			return again
		},
		Refuse: func(c *container.ContainerConfig) { c.Command = []string{"/absent"} },
	}
}

func TestDocker(t *testing.T) {
	r := newTestRuntime(t)
	s := subject(t, r)
	t.Run("Contract", func(t *testing.T) { containertest.Run(t, s) })
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Runtime, containertest.Subject)
	}{
		{"PauseReapsOrphans", testPauseReapsOrphans},
		{"SandboxNetwork", testSandboxNetwork},
		{"HostNetwork", testHostNetwork},
		{"NodeNetwork", testNodeNetwork},
		{"Privileged", testPrivileged},
		{"OOMKilled", testOOMKilled},
		{"ExecTTY", testExecTTY},
		{"MountsAndUser", testMountsAndUser},
		{"Groups", testGroups},
		{"ImageMount", testImageMount},
		{"RecursiveReadOnly", testRecursiveReadOnly},
		{"StopSignal", testStopSignal},
		{"ForeignContainer", testForeignContainer},
		{"SimultaneousSandboxes", testSimultaneousSandboxes},
		{"DiskUsage", testDiskUsage},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, r, s) })
	}
}

// execute runs a command in a container and returns its output.
func execute(t *testing.T, r *Runtime, id string, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	code, err := r.Exec(t.Context(), id, container.ExecOptions{Command: append([]string{"/program"}, args...), Stdout: &out, Stderr: &errOut})
	if err != nil || code != 0 {
		t.Fatalf("%v: exit code %d, %v, %s", args, code, err, errOut.String())
	}
	return out.String()
}

func testPauseReapsOrphans(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s, func(c *container.SandboxConfig) { c.PID = container.NamespacePod })
	c := p.Config("pid")
	c.PID = container.NamespacePod
	id := p.Start(c)
	containertest.Eventually(t, "the container prints its process id", func() bool {
		out, _ := p.Logs(id, container.LogOptions{Tail: -1})
		return out != ""
	})
	if out, _ := p.Logs(id, container.LogOptions{Tail: -1}); strings.TrimSpace(out) == "1" {
		t.Error("the container is its own pid 1")
	}
	if name := execute(t, r, id, "linux-cat", "/proc/1/comm"); strings.TrimSpace(name) != "pause" {
		t.Errorf("pid 1 is %q", name)
	}
	execute(t, r, id, "linux-orphan")
	containertest.Eventually(t, "orphans are reaped", func() bool { return execute(t, r, id, "linux-zombies") == "" })
}

func testSandboxNetwork(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s, func(c *container.SandboxConfig) {
		c.Hostname = "my-pod"
		c.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "80"}
	})
	id := p.Start(p.Config("wait"))
	if got := execute(t, r, id, "linux-ls", "/sys/class/net"); got != "lo\n" {
		t.Errorf("interfaces %q", got)
	}
	if got := execute(t, r, id, "linux-cat", "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_unprivileged_port_start"); got != "my-pod\n80\n" {
		t.Errorf("hostname and sysctl %q", got)
	}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.Sandbox.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if joined, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.Get(id).Pid)); err != nil || joined != own {
		t.Errorf("the container's namespace is %q, %v, the sandbox's %q", joined, err, own)
	}
}

func testHostNetwork(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s, func(c *container.SandboxConfig) { c.Network, c.Hostname = container.NamespaceNode, "" })
	if p.Sandbox.Network != container.NamespaceNode {
		t.Errorf("got %+v", p.Sandbox)
	}
	c := p.Config("wait")
	c.Network = container.NamespaceNode
	id := p.Start(c)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(execute(t, r, id, "linux-cat", "/proc/sys/kernel/hostname")); got != host {
		t.Errorf("hostname %q, want %q", got, host)
	}
}

// A node in a network namespace of its own has its pods there, not in the engine's.
func testNodeNetwork(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	if path, err := r.nodeNetNS(t.Context()); err != nil || path != "" {
		t.Errorf("this process is not where the engine is, but in %q; %v", path, err)
	}
	machinetest.Root(t, "to make a network namespace")
	node := exec.Command("sleep", "infinity")
	node.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Process.Kill(); _ = node.Wait() })
	path := fmt.Sprintf("/proc/%d/ns/net", node.Process.Pid)
	engines := r.netns
	r.netns = func(context.Context) (string, error) { return path, nil }
	t.Cleanup(func() { r.netns = engines })

	p := containertest.NewPod(t, s, func(c *container.SandboxConfig) { c.Network, c.Hostname = container.NamespaceNode, "" })
	if p.Sandbox.Network != container.NamespaceNode {
		t.Errorf("got %+v", p.Sandbox)
	}
	c := p.Config("wait")
	c.Network = container.NamespaceNode
	id := p.Start(c)
	for name, pid := range map[string]int{"sandbox": p.Sandbox.Pid, "container": p.Get(id).Pid} {
		if !isIn(pid, path) {
			t.Errorf("the %s is not in the node's network", name)
		}
	}
	if got := strings.TrimSpace(execute(t, r, id, "linux-cat", "/proc/sys/kernel/hostname")); got != r.config.Node {
		t.Errorf("hostname %q, want the node's", got)
	}
}

func testPrivileged(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	c := p.Config("wait")
	c.Privileged, c.OOMScoreAdj = true, -997
	id := p.Start(c)
	status := execute(t, r, id, "linux-cat", "/proc/self/status")
	for line := range strings.Lines(status) {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			got, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			if admin := uint64(1<<12 | 1<<21); got&admin != admin {
				t.Errorf("effective capabilities %#x lack NET_ADMIN or SYS_ADMIN", got)
			}
		}
	}
	host, err := os.ReadDir("/dev")
	if err != nil {
		t.Fatal(err)
	}
	inside := strings.Fields(execute(t, r, id, "linux-ls", "/dev"))
	if slices.ContainsFunc(host, func(e os.DirEntry) bool { return e.Name() == "kmsg" }) && !slices.Contains(inside, "kmsg") {
		t.Errorf("the node's devices are missing: %v", inside)
	}
}

func testOOMKilled(t *testing.T, _ *Runtime, s containertest.Subject) {
	t.Helper()
	// Docker learns of the end and of its reason from two sources, and forgets the latter if it comes second, as happens
	// on a busy machine.
	const attempts = 3
	for range attempts {
		p := containertest.NewPod(t, s)
		c := p.Config("linux-eat")
		c.Resources.MemoryBytes = 32 << 20
		got := p.Exited(p.Start(c))
		if got.ExitCode != 137 {
			t.Fatalf("got %+v", got)
		}
		if got.OOMKilled {
			return
		}
	}
	t.Errorf("%d containers had more memory than they may have, and none was killed for it", attempts)
}

func testExecTTY(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	id := p.Start(p.Config("wait"))
	sizes := make(chan container.TerminalSize, 1)
	sizes <- container.TerminalSize{Width: 111, Height: 33}
	var out bytes.Buffer
	code, err := r.Exec(t.Context(), id, container.ExecOptions{
		Command: []string{"/program", "exit", "4"}, Stdin: strings.NewReader(""), Stdout: &out, TTY: true, Resize: sizes,
	})
	if err != nil || code != 4 {
		t.Errorf("got %d, %v", code, err)
	}
}

func testMountsAndUser(t *testing.T, _ *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c := p.Config("write", "/data/file", "text")
	c.Mounts = []container.Mount{{HostPath: dir, ContainerPath: "/data"}}
	c.User, c.Groups = "1234:2345", []int64{3456}
	c.ReadOnlyRootFilesystem, c.NoNewPrivileges, c.CapDrop = true, true, []string{"ALL"}
	if got := p.Exited(p.Start(c)); got.ExitCode != 0 {
		t.Fatalf("got %+v", got)
	}
	file, err := os.Stat(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	if st := file.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 2345 {
		t.Errorf("written by %d:%d", st.Uid, st.Gid)
	}
	c.Attempt = 1
	c.Mounts[0].ReadOnly = true
	if got := p.Exited(p.Start(c)); got.ExitCode != 1 {
		t.Errorf("a read-only mount was written: %+v", got)
	}
}

// testGroups checks that processes are who the kubelet is told that they are.
func testGroups(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	for i, test := range []struct {
		user   string
		strict bool
		want   string // as in /proc/PID/status
	}{
		{user: "1000", want: "1000 4000 50000"},
		{user: "1000", strict: true, want: "1000 4000"},
		{user: "1000:3000", want: "3000 4000 50000"},
		{user: "1000:3000", strict: true, want: "3000 4000"},
		{user: "alice:extra", want: "4000 50000"},
		{user: "alice", strict: true, want: "1000 4000"},
		{user: "", want: "0 10 4000"},
		{user: "7:8", want: "8 4000"},
	} {
		c := p.Config("wait")
		c.Attempt, c.User, c.Groups, c.StrictGroups = uint32(i), test.user, []int64{4000}, test.strict
		id := p.Start(c)
		var groups []string
		for line := range strings.Lines(execute(t, r, id, "linux-cat", "/proc/1/status")) {
			if text, is := strings.CutPrefix(line, "Groups:"); is {
				groups = strings.Fields(text)
			}
		}
		if got := strings.Join(groups, " "); got != test.want {
			t.Errorf("%q strict %v: groups %s, want %s", test.user, test.strict, got, test.want)
		}
		if told := p.Get(id).User; told == nil || strings.Trim(fmt.Sprint(told.Groups), "[]") != test.want {
			t.Errorf("%q strict %v: groups are told to be %+v, want %s", test.user, test.strict, told, test.want)
		}
	}
}

// testRecursiveReadOnly looks at what is mounted below a read-only mount: it can be written unless the pod says otherwise.
func testRecursiveReadOnly(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	machinetest.Mounts(t)
	v, err := r.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", below, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(below, 0); err != nil {
			t.Error(err)
		}
	})
	p := containertest.NewPod(t, s)
	c := p.Config("write", "/data/below/file", "text")
	c.Mounts = []container.Mount{{HostPath: dir, ContainerPath: "/data", ReadOnly: true}}
	if got := p.Exited(p.Start(c)); got.ExitCode != 0 {
		t.Errorf("a mount below a read-only one is read-only: %+v", got)
	}
	c.Attempt, c.Mounts[0].RecursiveReadOnly = 1, true
	if !v.Handlers[0].RecursiveReadOnly {
		if id, err := r.CreateContainer(t.Context(), p.Sandbox.ID, c); err == nil {
			t.Errorf("container %s has been made with a mount that this engine cannot make", id)
		}
		return
	}
	if got := p.Exited(p.Start(c)); got.ExitCode != 1 {
		t.Errorf("a mount below a recursively read-only one was written: %+v", got)
	}
}

// testImageMount mounts an image by the engine, twice in one container, where it can do that.
func testImageMount(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	c := p.Config("wait")
	c.Mounts = []container.Mount{{Image: s.Image, ContainerPath: "/whole"}, {Image: s.Image, ContainerPath: "/part", SubPath: "program"}}
	if versions.LessThan(r.client.ClientVersion(), imageMountAPI) {
		if id, err := r.CreateContainer(t.Context(), p.Sandbox.ID, c); err == nil {
			t.Errorf("container %s has been made with a mount that this engine does not know", id)
		}
		return
	}
	id := p.Start(c)
	if got := execute(t, r, id, "linux-ls", "/whole"); !strings.Contains(got, "program\n") {
		t.Errorf("the image has %q", got)
	}
	if got := execute(t, r, id, "linux-ls", "/"); !strings.Contains(got, "part\n") {
		t.Errorf("the container has %q", got)
	}
	if code, err := r.Exec(t.Context(), id, container.ExecOptions{Command: []string{"/program", "write", "/whole/x", "x"}}); err == nil && code == 0 {
		t.Error("an image was written")
	}
}

func testStopSignal(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	c := p.Config("serve", "8080")
	c.StopSignal = "SIGUSR1"
	id := p.Start(c)
	containertest.Eventually(t, "it serves", func() bool {
		out, _ := p.Logs(id, container.LogOptions{Tail: -1})
		return out != ""
	})
	if err := r.StopContainer(t.Context(), id, 30*time.Second, ""); err != nil {
		t.Fatal(err)
	}
	if got := p.Get(id); got.ExitCode != 0 {
		t.Errorf("got %+v", got)
	}
}

// testForeignContainer checks that what another cluster or node owns is neither seen nor touched.
func testForeignContainer(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	id := p.Start(p.Config("wait"))
	for name, config := range map[string]Config{
		"cluster": {Cluster: r.config.Cluster + "x", Node: r.config.Node},
		"node":    {Cluster: r.config.Cluster, Node: "n2"},
	} {
		other, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if found, err := other.List(t.Context()); err != nil || len(found) != 0 {
			t.Errorf("another %s sees %v, %v", name, found, err)
		}
		if _, _, err := other.Inspect(t.Context(), id); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("another %s: Inspect: %v", name, err)
		}
		if _, err := other.CreateSandbox(t.Context(), container.SandboxConfig{Pod: p.Sandbox.Pod}); err == nil || !strings.Contains(err.Error(), "another cluster or node") {
			t.Errorf("another %s: CreateSandbox: %v", name, err)
		}
		if name == "cluster" {
			if err := other.Purge(t.Context()); err != nil {
				t.Errorf("Purge of another cluster: %v", err)
			}
		}
	}
	if got := p.Get(id); got.State != container.StateRunning {
		t.Errorf("got %+v", got)
	}
	images, err := r.pauseImages(t.Context())
	if err != nil || len(images) == 0 {
		t.Errorf("pause images %v, %v", images, err)
	}
}

func testSimultaneousSandboxes(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	type result struct {
		id  string
		err error
	}
	results := make(chan result)
	for range 3 {
		go func() {
			id, err := r.CreateSandbox(t.Context(), container.SandboxConfig{Pod: p.Sandbox.Pod, Attempt: 9})
			if err == nil {
				_, err = r.StartSandbox(t.Context(), id)
			}
			results <- result{id, err}
		}()
	}
	ids := map[string]bool{}
	for range 3 {
		if got := <-results; got.err != nil {
			t.Error(got.err)
		} else {
			ids[got.id] = true
		}
	}
	if len(ids) != 1 {
		t.Errorf("%d sandboxes were made", len(ids))
	}
}

func TestPurge(t *testing.T) {
	r := newTestRuntime(t)
	s := subject(t, r)
	p := containertest.NewPod(t, s)
	p.Start(p.Config("wait"))
	if err := r.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := r.client.ContainerList(t.Context(), dockercontainer.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", labelCluster+"="+r.config.Cluster)),
	})
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestUnavailable(t *testing.T) {
	host := "unix://" + filepath.Join(t.TempDir(), "absent.sock")
	r, err := New(Config{Host: host, Cluster: "c", Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, versionErr := r.Version(t.Context())
	_, listErr := r.List(t.Context())
	_, eventsErr := r.Events(t.Context())
	_, pullErr := r.PullImage(t.Context(), "x", nil)
	for name, err := range map[string]error{
		"Version": versionErr, "List": listErr, "Events": eventsErr, "PullImage": pullErr,
		"StartContainer": r.StartContainer(t.Context(), "x"),
		"StopContainer":  r.StopContainer(t.Context(), "x", 0, ""),
		"Check":          Check(t.Context(), host, TLS{}),
	} {
		if !errors.Is(err, container.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Check(t.Context(), host, TLS{}); !strings.Contains(err.Error(), "is not running") {
		t.Errorf("Check: %v", err)
	}
}

func TestCheckPermission(t *testing.T) {
	if os.Getuid() == 0 {
		// Root may do everything; a child without its powers checks.
		if os.Getenv("CHECK_SOCKET") == "" {
			dir := t.TempDir()
			socket := filepath.Join(dir, "docker.sock")
			for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) { //nolint:usetesting // it is above those of tests
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Close(fd) }()
			if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(socket, 0o600); err != nil {
				t.Fatal(err)
			}
			self := filepath.Join(dir, "self.test")
			content, err := os.ReadFile("/proc/self/exe")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(self, content, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, "-test.run=^TestCheckPermission$")
			cmd.Dir = "/"
			cmd.Env = append(os.Environ(), "CHECK_SOCKET="+socket)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			return
		}
	}
	socket := os.Getenv("CHECK_SOCKET")
	if socket == "" {
		machinetest.Root(t, "to be somebody else")
	}
	if err := Check(t.Context(), "unix://"+socket, TLS{}); err == nil || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("got %v", err)
	}
}

func TestParsePrivilege(t *testing.T) {
	for _, test := range []struct {
		name, status, last, adj string
		missing                 []string
		oom                     int
	}{
		{"all", "CapBnd:\t000001ffffffffff\n", "40\n", "0\n", nil, -1000},
		{"without SYS_RESOURCE", "CapBnd:\t000001fffeffffff\n", "40\n", "12\n", []string{"SYS_RESOURCE"}, 12},
		{"an older kernel", "CapBnd:\t0000003fffffffff\n", "37\n", "0\n", nil, -1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parsePrivilege(test.status, test.last, test.adj)
			if err != nil || !slices.Equal(got.missing, test.missing) || got.oomScoreAdj != test.oom {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
