// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/machinetest"
)

// daemon is a Docker daemon of the test's own, which may be stopped and killed: the machine's is everybody's.
type daemon struct {
	dir, socket string
	args        []string
	process     *exec.Cmd
}

// newDaemon starts a daemon that has the image of the tests' pods.
func newDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := emptyDaemon(t, args...)
	image, err := exec.Command("docker", "save", frontendImage).Output()
	if err != nil {
		t.Fatal(err)
	}
	load := exec.Command("docker", "--host", d.host(), "load")
	load.Stdin = bytes.NewReader(image)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return d
}

// host is the endpoint of the daemon.
func (d *daemon) host() string { return "unix://" + d.socket }

// emptyDaemon starts a daemon without images.
func emptyDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	enabled(t)
	machinetest.Root(t, "to run a Docker daemon")
	machinetest.Programs(t, "dockerd")
	dir, err := os.MkdirTemp("", "e2e-") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{dir: dir, socket: filepath.Join(dir, "s")}
	config := filepath.Join(dir, "daemon.json")
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.args = append([]string{
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "run"), "--pidfile", filepath.Join(dir, "pid"),
		"--host", d.host(), "--config-file", config, "--bridge", "none", "--iptables=false", "--ip6tables=false",
	}, args...)
	t.Cleanup(func() { d.remove(t) })
	d.start(t)
	return d
}

// start starts the daemon and waits until it answers.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d.process = exec.Command("dockerd", d.args...)
	// A daemon without a bridge removes docker0, which is the machine's; here it finds none.
	d.process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	d.process.Stdout, d.process.Stderr = log, log
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "an answer of the daemon", func(ctx context.Context) error {
		return exec.CommandContext(ctx, "docker", "--host", d.host(), "version").Run()
	})
}

// end ends the daemon by a signal, and waits until its containerd has followed it: the next one would take that for its own.
func (d *daemon) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	_ = d.process.Process.Signal(syscall.SIGCONT)
	_ = d.process.Process.Signal(signal) // it may have ended
	_ = d.process.Wait()                 // by the signal
	eventually(t, 20*time.Second, "the end of containerd", func(context.Context) error {
		left, err := d.processes("containerd")
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there is %v", left)
		}
		return err
	})
	// Who has not been waited for yet looks alive to the next daemon.
	if err := os.Remove(filepath.Join(d.dir, "run", "containerd", "containerd.pid")); err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}

// processes are those of a program that work for the daemon.
func (d *daemon) processes(program string) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	var all []int
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		path, _, _ := bytes.Cut(line, []byte{0})
		if err != nil || filepath.Base(string(path)) != program || !bytes.Contains(line, []byte(d.dir)) {
			continue // it has ended, or is another's
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			all = append(all, pid)
		}
	}
	return all, err
}

// remove takes away all that the daemon has made. Its containers are gone with the cluster.
func (d *daemon) remove(t *testing.T) {
	t.Helper()
	if t.Failed() {
		if data, err := os.ReadFile(filepath.Join(d.dir, "log")); err == nil {
			t.Logf("the daemon's log ends with:\n%s", tail(string(data), 20))
		}
	}
	d.end(t, syscall.SIGTERM)
	shims, err := d.processes("containerd-shim-runc-v2")
	if err != nil || len(shims) > 0 {
		t.Errorf("containers are left: %v, %v", shims, err)
	}
	for _, pid := range shims {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // it may have ended
		for _, child := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
			if n, err := strconv.Atoi(child); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	}
	mounted, err := mounts()
	if err != nil {
		t.Error(err)
	}
	for _, m := range mounted {
		if strings.HasPrefix(m, d.dir+"/") {
			_ = syscall.Unmount(m, syscall.MNT_DETACH)
		}
	}
	if err := os.RemoveAll(d.dir); err != nil {
		t.Error(err)
	}
}

// signals stops the daemon for a while, or lets it go on.
func (d *daemon) signals(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := d.process.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass in which something could go wrong.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// create makes a pod that serves on port 8080 and is probed in two ways.
func (k *kube) createProbed(t *testing.T, name string) {
	t.Helper()
	every := func(h corev1.ProbeHandler) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2, ProbeHandler: h}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "c", Image: frontendImage, Command: []string{"/guestbook", "static", "/"},
			LivenessProbe:  every(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/guestbook", "lookup", "localhost"}}}),
			ReadinessProbe: every(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080), Path: "/guestbook"}}),
		}},
	}}
	if _, err := k.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitRestarts waits until a pod is Ready, answers, and its container was restarted so many times; it returns the
// container's id.
func (k *kube) awaitRestarts(t *testing.T, name string, restarts int32) (id string) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("%s Ready after %d restarts", name, restarts), func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := p.Status.ContainerStatuses; !isReady(p) || len(s) != 1 || s[0].RestartCount != restarts {
			return fmt.Errorf("%s: %+v", p.Status.Phase, s)
		}
		id = p.Status.ContainerStatuses[0].ContainerID
		_, err = fetch(ctx, http.MethodHead, "http://"+p.Status.PodIP+":8080", "")
		return err
	})
	return id
}

// A Docker daemon that is restarted and keeps its containers costs nothing: they run on, and so do their probes and their node.
// One that is stopped for long makes the node not Ready, and nothing else.
func TestDockerRestarts_LiveRestore(t *testing.T) {
	d := newDaemon(t, "--live-restore")
	c := newCluster(t, "live")
	c.Env = []string{"DOCKER_HOST=unix://" + d.socket}
	k := up(t, c)
	k.createProbed(t, "old")
	id := k.awaitRestarts(t, "old", 0)
	since := k.readySince(t)
	for n, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		d.end(t, signal)
		late := fmt.Sprint("late-", n)
		k.createProbed(t, late)
		d.start(t)
		k.awaitRestarts(t, late, 0)
		if now := k.awaitRestarts(t, "old", 0); now != id {
			t.Errorf("after %s the container is %s, was %s", signal, now, id)
		}
	}
	if now := k.readySince(t); !now.Equal(since) {
		t.Errorf("the node was not Ready between %s and %s", since, now)
	}

	if os.Getenv("MINIK8S_FAULTS_LONG") != "1" {
		return // the kubelet's TestEngineRestarts has the rest with a clock of its own
	}
	d.signals(t, syscall.SIGSTOP)
	begin := time.Now()
	k.awaitNode(t, corev1.ConditionFalse, "container runtime is down")
	if waited := time.Since(begin); waited < 20*time.Second {
		t.Errorf("the node was not Ready after %s already", waited)
	}
	d.signals(t, syscall.SIGCONT)
	k.awaitNode(t, corev1.ConditionTrue, "kubelet is posting ready status")
	for _, name := range []string{"old", "late-0", "late-1"} {
		k.awaitRestarts(t, name, 0)
	}
}

// awaitNode waits until the node is Ready or not, with a message.
func (k *kube) awaitNode(t *testing.T, want corev1.ConditionStatus, message string) {
	t.Helper()
	eventually(t, 90*time.Second, "the node Ready: "+string(want), func(ctx context.Context) error {
		nodes, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		err = errors.New("no condition")
		for _, c := range nodes.Items[0].Status.Conditions {
			if c.Type == corev1.NodeReady {
				err = fmt.Errorf("%s: %s", c.Status, c.Message)
				if c.Status == want && strings.Contains(c.Message, message) {
					return nil
				}
			}
		}
		return err
	})
}

// A daemon that takes its containers along has each restarted once, and no pod that has done its work.
func TestDockerRestarts(t *testing.T) {
	d := newDaemon(t)
	c := newCluster(t, "dead")
	c.Env = []string{"DOCKER_HOST=unix://" + d.socket}
	k := up(t, c)
	k.createProbed(t, "web")
	done := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "done"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure,
		Containers:    []corev1.Container{{Name: "c", Image: frontendImage, Command: []string{"/guestbook", "lookup", "localhost"}}},
	}}
	if _, err := k.client.CoreV1().Pods("default").Create(t.Context(), done, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.awaitRestarts(t, "web", 0)
	k.kubectl(t, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/done", "--timeout=60s")
	signals := []syscall.Signal{syscall.SIGTERM}
	if os.Getenv("MINIK8S_FAULTS_LONG") == "1" {
		// A daemon that is killed may leave mounts that it can never remove: its container stays dead, and down says so.
		signals = append(signals, syscall.SIGKILL)
	}
	for n, signal := range signals {
		d.end(t, signal)
		d.start(t)
		k.awaitRestarts(t, "web", int32(n+1))
	}
	pass(t, 5*time.Second) // it may be restarted again, if it is wrong
	k.awaitRestarts(t, "web", int32(len(signals)))
	p, err := k.client.CoreV1().Pods("default").Get(t.Context(), "done", metav1.GetOptions{})
	if err != nil || p.Status.Phase != corev1.PodSucceeded || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod that was done: %+v, %v", p.Status, err)
	}
}
