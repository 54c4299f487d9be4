// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/test/e2e/cluster"
)

// A process that is killed costs nothing that users have: containers run on, Services answer all the while, and every
// write that was acknowledged is there afterwards.
func TestKill(t *testing.T) {
	k := up(t, newCluster(t, "kill"))
	k.kubectl(t, "create", "deployment", "web", "--image="+frontendImage, "--replicas=2", "--", "/guestbook", "static", "/")
	k.kubectl(t, "expose", "deployment", "web", "--port=80", "--target-port=8080", "--type=NodePort")
	k.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	url := k.nodePort(t, "default", "web")
	eventually(t, 20*time.Second, "an answer by NodePort", func(ctx context.Context) error {
		_, err := fetch(ctx, http.MethodHead, url, "")
		return err
	})
	before := k.containers(t)
	if len(before) != 2 {
		t.Fatalf("%d containers run, want 2", len(before))
	}

	stopAsking := ask(t, url)
	w := startWriter(t, k.config)
	for range 3 {
		w.acknowledges(t, 20)
		kill(t, k)
		if diff := cmp.Diff(before, startedAt(t, before)); diff != "" {
			t.Errorf("containers without the process (- before, + now):\n%s", diff)
		}
		k = up(t, k.Cluster)
	}
	w.acknowledges(t, 20)
	eventually(t, 30*time.Second, "both pods Ready", k.ready("default", "app=web", 2))
	written := w.stop()
	asked, failed := stopAsking()
	if asked < 100 || failed > 0 {
		t.Errorf("of %d requests to the NodePort %d failed", asked, failed)
	}
	if diff := cmp.Diff(before, k.containers(t)); diff != "" {
		t.Errorf("containers (- before, + after):\n%s", diff)
	}
	list, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if n := p.Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("%s was restarted %d times", p.Name, n)
		}
	}
	lost := 0
	for _, name := range written {
		if _, err := k.client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			lost++
			t.Logf("%s: %v", name, err)
		}
	}
	if lost > 0 {
		t.Errorf("of %d acknowledged writes %d are lost", len(written), lost)
	}
}

// containers are the running containers of the API's pods and when Docker started them, by pod.
func (k *kube) containers(t *testing.T) map[string]string {
	t.Helper()
	list, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, p := range list.Items {
		if len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].ContainerID == "" {
			t.Fatalf("%s has no container: %+v", p.Name, p.Status)
		}
		ids[p.Status.ContainerStatuses[0].ContainerID[len("docker://"):]] = ""
	}
	return startedAt(t, ids)
}

// startedAt asks Docker when containers were started and what their processes are.
func startedAt(t *testing.T, ids map[string]string) map[string]string {
	t.Helper()
	times := map[string]string{}
	for id := range ids {
		out, err := exec.Command("docker", "inspect", "--format", "{{.State.Running}} {{.State.Pid}} {{.State.StartedAt}}", id).Output()
		if err != nil {
			t.Fatalf("docker inspect %s: %v", id, err)
		}
		times[id] = string(out)
	}
	return times
}

// ask sends requests to a URL, one every 20 ms, until the returned function is called; it tells how many, and how many
// failed.
func ask(t *testing.T, url string) (stop func() (asked, failed int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	asked, failed := 0, 0
	done.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			asked++
			if _, err := fetch(context.WithoutCancel(ctx), http.MethodHead, url, ""); err != nil {
				failed++
				t.Logf("request %d: %v", asked, err)
			}
		}
	})
	stop = func() (int, int) {
		cancel()
		done.Wait()
		return asked, failed
	}
	t.Cleanup(func() { stop() })
	return stop
}

// writer creates ConfigMaps one after the other and remembers those that the API server acknowledged.
type writer struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex // guards acked
	acked []string
}

func startWriter(t *testing.T, config *rest.Config) *writer {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{cancel: cancel}
	w.done.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			w.write(ctx, client, "write-"+strconv.Itoa(n))
		}
	})
	t.Cleanup(func() { w.stop() })
	return w
}

// write tries until the object is there. That it exists already is the answer to a write whose acknowledgement was lost.
func (w *writer) write(ctx context.Context, client kubernetes.Interface, name string) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.acked = append(w.acked, name)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// acknowledges waits for n more writes.
func (w *writer) acknowledges(t *testing.T, n int) {
	t.Helper()
	want := w.count() + n
	eventually(t, 30*time.Second, "writes acknowledged", func(context.Context) error {
		if got := w.count(); got < want {
			return fmt.Errorf("%d of %d", got, want)
		}
		return nil
	})
}

func (w *writer) stop() []string {
	w.cancel()
	w.done.Wait()
	return w.acked
}

// While the process is away a container that ends is not restarted; the next process does that.
func TestContainerDiesWhileAway(t *testing.T) {
	k := up(t, newCluster(t, "away"))
	k.kubectl(t, "create", "deployment", "web", "--image="+frontendImage, "--", "/guestbook", "static", "/")
	k.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	before := k.containers(t)
	kill(t, k)
	for id := range before {
		if out, err := exec.Command("docker", "kill", id).CombinedOutput(); err != nil {
			t.Fatalf("docker kill: %v: %s", err, out)
		}
	}
	k = up(t, k.Cluster)
	eventually(t, 40*time.Second, "the container's restart", func(ctx context.Context) error {
		list, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || len(list.Items[0].Status.ContainerStatuses) != 1 {
			return fmt.Errorf("got %d pods", len(list.Items))
		}
		if s := list.Items[0].Status.ContainerStatuses[0]; s.RestartCount != 1 || !s.Ready {
			return fmt.Errorf("restarts %d, ready %t", s.RestartCount, s.Ready)
		}
		return nil
	})
}

// gone checks that nothing of a cluster is there.
func gone(t *testing.T, c cluster.Cluster) {
	t.Helper()
	fails(t, c, "status", nil, "no such cluster")
	out, err := exec.Command("docker", "ps", "-aq", "--filter", "label=minik8s.io/cluster="+c.Name).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("containers are left: %s %v", out, err)
	}
	if left, err := processes(c.Name); err != nil || len(left) > 0 {
		t.Errorf("processes are left: %v %v", left, err)
	}
	if _, err := os.Stat(c.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data directory is left: %v", err)
	}
}

func TestNoDocker(t *testing.T) {
	c := newCluster(t, "nodocker")
	own := c
	own.Env = []string{"DOCKER_HOST=unix:///does/not/exist.sock"}
	fails(t, own, "up", nil, "Docker", "/does/not/exist.sock")
	gone(t, c)

	// A control plane without nodes needs none.
	if _, err := own.Up(t.Context(), "--nodes", "0"); err != nil {
		t.Error(err)
	}
}

func TestDockerDoesNotAnswer(t *testing.T) {
	c := newCluster(t, "deafdocker")
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // accepts connections and says nothing
	own := c
	own.Env = []string{"DOCKER_HOST=unix://" + socket}
	fails(t, own, "up", []string{"--timeout", "60s"}, "Docker")
	gone(t, c)
}

func TestPortInUse(t *testing.T) {
	c := newCluster(t, "port")
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	fails(t, c, "up", []string{"--api-port", port}, "port "+port+" is in use by another program", "choose another port with --api-port")
	gone(t, c)
}

func TestNoPermission(t *testing.T) {
	enabled(t)
	machinetest.Root(t, "to be somebody else")
	// Nobody may not look into the folders of this suite.
	dir, err := os.MkdirTemp("", "minik8s-e2e-nobody-") //nolint:usetesting // nor into those of a test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "minik8s")
	copyFile(t, binary("minik8s"), program)
	run := func(verb string, args ...string) cluster.Result {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{verb, "--name", "e2e-nobody"}, args...)...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		r, err := cluster.Run(cmd)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run("up")
	if r.Code != 1 {
		t.Errorf("want exit code 1: %s", r)
	}
	oneError(t, r.Stderr, "root", "--nodes 0")
	if r := run("status"); r.Code != 1 {
		t.Errorf("a cluster is left: %s", r)
	}
	r = run("up", "--data-dir", "/var/lib/minik8s-e2e-nobody", "--nodes", "0")
	if r.Code != 1 {
		t.Errorf("want exit code 1: %s", r)
	}
	oneError(t, r.Stderr, "permission")

	// Whoever may not use root's cluster is told whose it is.
	root := newCluster(t, "nobody")
	up(t, root, "--nodes", "0")
	for _, verb := range []string{"status", "kubeconfig", "logs", "down"} {
		r := run(verb)
		if r.Code != 1 {
			t.Errorf("%s of root's cluster: %s", verb, r)
		}
		oneError(t, r.Stderr, `cluster "e2e-nobody" was started by root`, "sudo minik8s kubeconfig --name e2e-nobody >")
	}
	must(t, root, "down", "--purge")

	// A control plane without nodes needs no rights.
	if r := run("up", "--nodes", "0"); r.Code != 0 {
		t.Fatalf("as nobody: %s", r)
	}
	if r := run("down", "--purge"); r.Code != 0 {
		t.Errorf("as nobody: %s", r)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "minik8s" && e.Name() != ".local" { // .local is where programs of a user keep their data
			t.Errorf("%s is left", e.Name())
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// smallDisk mounts a disk of a size ("2m") until the test has ended, and all that was registered for its end after this.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	machinetest.Root(t, "to mount a small disk")
	disk := filepath.Join(suite.dir, "disk-"+size)
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("e2e", disk, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
		_ = os.Remove(disk)
	})
	return disk
}

func TestDiskFull(t *testing.T) {
	disk := smallDisk(t, "2m")
	c := newCluster(t, "full")
	c.DataDir = filepath.Join(disk, "data")
	fails(t, c, "up", nil, "the disk that holds "+c.DataDir+" is full", "--data-dir")
	gone(t, c)
}

// A disk that fills up under a cluster ends its process, for etcd cannot note anything any more. Its pods run on, the next start
// says what to do, and once there is room nothing has been lost and nothing started twice.
func TestDiskFills(t *testing.T) {
	disk := smallDisk(t, "600m")
	c := newCluster(t, "fills")
	c.DataDir = filepath.Join(disk, "data")
	k := up(t, c)
	k.kubectl(t, "create", "deployment", "web", "--image="+frontendImage, "--replicas=2", "--", "/guestbook", "static", "/")
	k.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	before := k.containers(t)
	fill, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	for err == nil {
		_, err = fill.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the end of the process", func(ctx context.Context) error {
		write, err := k.run(ctx, "create", "configmap", "last-drop", "--from-literal=a="+strings.Repeat("x", 100_000))
		if err != nil {
			return err
		}
		if write.Code == 0 {
			write, err = k.run(ctx, "delete", "configmap", "last-drop")
		}
		s, asked := c.Run(ctx, "status", "-o", "json")
		if err == nil && asked == nil && !strings.Contains(s.Stdout, `"running": false`) {
			err = fmt.Errorf("%s after %s", s, write)
		}
		return errors.Join(err, asked)
	})
	fails(t, c, "up", nil, "the disk that holds "+c.DataDir+" is full")
	if err := os.Remove(fill.Name()); err != nil {
		t.Fatal(err)
	}
	if err := fill.Close(); err != nil {
		t.Fatal(err)
	}
	k = up(t, c)
	k.kubectl(t, "scale", "deployment/web", "--replicas=3")
	k.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	after := k.containers(t)
	for id, started := range before {
		if after[id] != started {
			t.Errorf("container %s is %s now, was %s", id, after[id], started)
		}
	}
}

// A cluster whose store is full says so, to people by the exit code, to programs by a field; to delete something helps.
func TestStoreFull(t *testing.T) {
	c := newCluster(t, "quota")
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\netcd: {quotaBackendBytes: 16777216}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := up(t, c, "--config", config, "--nodes", "0")
	maps := k.client.CoreV1().ConfigMaps("default")
	var err error
	for n := 0; err == nil && n < 100; n++ {
		large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", n)}, Data: map[string]string{"k": strings.Repeat("v", 512<<10)}}
		_, err = maps.Create(t.Context(), large, metav1.CreateOptions{})
	}
	if err == nil || err.Error() != "etcdserver: mvcc: database space exceeded" {
		t.Fatalf("filling the store ends with %v", err)
	}
	r, err := c.Run(t.Context(), "status", "-o", "json")
	if err != nil || r.Code != 1 {
		t.Fatalf("status of a full cluster, want exit code 1: %v %s", err, r)
	}
	contains(t, r.Stdout, `"running": true`, `"ready": false`, `"storeProblem": true`, "database space exceeded")
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "a store that is not full", func(ctx context.Context) error {
		r, err := c.Run(ctx, "status")
		if err == nil && r.Code != 0 {
			err = fmt.Errorf("status: %s", r)
		}
		return err
	})
}

func TestNewerDataDirectory(t *testing.T) {
	c := newCluster(t, "newer")
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(c.DataDir) })
	for name, text := range map[string]string{"format": "999\n", "precious": "data"} {
		if err := os.WriteFile(filepath.Join(c.DataDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, c, "up", nil, "has format 999", "use the newer minik8s that made it, or another --data-dir")
	fails(t, c, "status", nil, "no such cluster")
	if data, err := os.ReadFile(filepath.Join(c.DataDir, "precious")); err != nil || string(data) != "data" {
		t.Errorf("what was there is not any more: %q, %v", data, err)
	}
}

// A folder that somebody uses for something else is not taken, and above all not removed.
func TestForeignDirectory(t *testing.T) {
	c := newCluster(t, "foreign")
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(c.DataDir) })
	precious := filepath.Join(c.DataDir, "precious")
	if err := os.WriteFile(precious, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, c, "up", []string{"--nodes", "0"}, c.DataDir)
	must(t, c, "down", "--purge")
	if data, err := os.ReadFile(precious); err != nil || string(data) != "data" {
		t.Errorf("what was there is not any more: %q, %v", data, err)
	}
}

// What kept a cluster from starting again must not cost its data.
func TestFailedRestartKeepsData(t *testing.T) {
	c := newCluster(t, "restart")
	k := up(t, c, "--nodes", "0")
	k.kubectl(t, "create", "configmap", "kept")
	must(t, c, "down")
	fails(t, c, "up", []string{"--timeout", "50ms"}, "--timeout 50ms is over")
	k = up(t, c)
	k.kubectl(t, "get", "configmap", "kept")
}
