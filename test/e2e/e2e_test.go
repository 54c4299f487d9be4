// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the product from outside: bin/minik8s as a program, upstream's kubectl as a separate program, real
// Docker. Each file is one area. A test either uses the shared cluster, in a namespace of its own, or makes its own
// cluster. Run it with: make e2e.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/test/e2e/cluster"
)

const frontendImage = "minik8s.io/guestbook-frontend:1"

// suite is what all tests share. Tests run one after the other.
var suite struct {
	dir    string // removed at the end
	root   string // of the repository
	shared *kube
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("MINIK8S_E2E") != "1" {
		return m.Run() // every test skips itself
	}
	if err := setUp(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return 1
	}
	defer os.RemoveAll(suite.dir)
	code := m.Run()
	if suite.shared != nil {
		if err := suite.shared.Down(context.Background(), "--purge"); err != nil {
			fmt.Fprintf(os.Stderr, "e2e: removing the shared cluster: %v\n", err)
			return 1
		}
	}
	return code
}

func setUp() error {
	var err error
	if suite.root, err = cluster.Root(); err != nil {
		return err
	}
	for _, program := range []string{"minik8s", "kubectl"} {
		if _, err := os.Stat(binary(program)); err != nil {
			return fmt.Errorf("%w: run this with: make e2e", err)
		}
	}
	if out, err := exec.Command("docker", "image", "inspect", frontendImage).CombinedOutput(); err != nil {
		return fmt.Errorf("the image %s is not there (%s): run this with: make e2e", frontendImage, strings.TrimSpace(string(out)))
	}
	if err := purgeLeftovers(); err != nil {
		return fmt.Errorf("removing what an earlier run left: %w", err)
	}
	if suite.dir, err = os.MkdirTemp("", "minik8s-e2e-"); err != nil {
		return err
	}
	return os.Mkdir(filepath.Join(suite.dir, ".kube"), 0o700) // kubectl's cache, for it is its home
}

// purgeLeftovers removes the clusters of a run that was killed: they would be found by name, with data elsewhere. Some had an
// engine that the run served itself, in front of the machine's own or of one that went with it.
func purgeLeftovers() error {
	r, err := cluster.Run(exec.Command(binary("minik8s"), "__complete", "status", "--name", ""))
	if err != nil {
		return err
	}
	for name := range strings.Lines(r.Stdout) {
		name = strings.TrimSpace(name)
		if name != "e2e" && !strings.HasPrefix(name, "e2e-") {
			continue
		}
		c := cluster.Cluster{Binary: binary("minik8s"), Name: name}
		if err := c.Down(context.Background(), "--purge", "--force"); err != nil {
			return err
		}
		if err := removeContainers(name); err != nil {
			return err
		}
	}
	return nil
}

// removeContainers removes what the machine's engine has of a cluster.
func removeContainers(cluster string) error {
	out, err := exec.Command("docker", "ps", "--all", "--quiet", "--filter", "label=minik8s.io/cluster="+cluster).CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker ps: %w: %s", err, out)
	}
	ids := strings.Fields(string(out))
	if len(ids) == 0 {
		return nil
	}
	if out, err := exec.Command("docker", append([]string{"rm", "--force", "--volumes"}, ids...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("docker rm: %w: %s", err, out)
	}
	return nil
}

func binary(program string) string { return filepath.Join(suite.root, "bin", program) }

// enabled skips the test unless the suite is asked for.
func enabled(t *testing.T) {
	t.Helper()
	if os.Getenv("MINIK8S_E2E") != "1" {
		t.Skip("needs Docker and the built programs: run it with make e2e")
	}
}

// long skips a test that takes minutes unless it is asked for, by a command.
func long(t *testing.T, command string) {
	t.Helper()
	if os.Getenv("MINIK8S_FAULTS_LONG") != "1" {
		t.Skipf("takes minutes: run it with %s", command)
	}
}

// kube is a running cluster and the means to talk to it.
type kube struct {
	cluster.Cluster
	kubeconfig string
	config     *rest.Config
	client     kubernetes.Interface
}

// newCluster returns a cluster that is not up yet and is gone when the test ends.
func newCluster(t *testing.T, name string) cluster.Cluster {
	t.Helper()
	enabled(t)
	c := cluster.Cluster{Binary: binary("minik8s"), Name: "e2e-" + name, DataDir: filepath.Join(suite.dir, name)}
	t.Cleanup(func() {
		if t.Failed() {
			if r, err := c.Run(context.Background(), "logs"); err == nil {
				t.Logf("the last lines of the log of cluster %s:\n%s", c.Name, tail(r.Stdout, 40))
			}
		}
		if err := c.Down(context.Background(), "--purge"); err != nil {
			t.Error(err)
		}
	})
	return c
}

// up starts a cluster.
func up(t *testing.T, c cluster.Cluster, args ...string) *kube {
	t.Helper()
	k, err := start(t.Context(), c, args...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func start(ctx context.Context, c cluster.Cluster, args ...string) (*kube, error) {
	result, err := c.Up(ctx, args...)
	if err != nil {
		return nil, err
	}
	k := &kube{Cluster: c, kubeconfig: result.Kubeconfig}
	k.config, k.client, err = cluster.Client(k.kubeconfig)
	return k, err
}

// shared returns the cluster that tests share, and starts it if it is not up.
func shared(t *testing.T) *kube {
	t.Helper()
	enabled(t)
	k, err := start(t.Context(), cluster.Cluster{Binary: binary("minik8s"), Name: "e2e", DataDir: filepath.Join(suite.dir, "shared")})
	if err != nil {
		t.Fatal(err)
	}
	suite.shared = k
	return k
}

// namespace makes a namespace that goes when the test ends, and waits for its ServiceAccount.
func (k *kube) namespace(t *testing.T, name string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := k.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, args := range [][]string{{"get", "all,events", "-o", "wide"}, {"describe", "pods"}} {
				if r, err := k.run(context.Background(), append([]string{"-n", name}, args...)...); err == nil {
					t.Logf("kubectl %v:\n%s%s", args, tail(r.Stdout, 120), r.Stderr)
				}
			}
		}
		if err := k.client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, 10*time.Second, "the default ServiceAccount of "+name, func(ctx context.Context) error {
		_, err := k.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return name
}

// run runs kubectl.
func (k *kube) run(ctx context.Context, args ...string) (cluster.Result, error) {
	return cluster.Run(k.command(ctx, args...))
}

func (k *kube) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary("kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig, "HOME="+suite.dir)
	return cmd
}

// kubectl runs kubectl, which must succeed, and returns its standard output.
func (k *kube) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := k.run(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 0 {
		t.Fatalf("kubectl %s: %s", strings.Join(args, " "), r)
	}
	return r.Stdout
}

// kubectlFails runs kubectl, which must fail, and returns its standard error.
func (k *kube) kubectlFails(t *testing.T, args ...string) string {
	t.Helper()
	r, err := k.run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code == 0 {
		t.Fatalf("kubectl %s should fail: %s", strings.Join(args, " "), r)
	}
	return r.Stderr
}

// eventually calls check until it succeeds, ten times a second.
func eventually(t *testing.T, within time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last := errors.New("never asked")
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s: %v", within, what, last)
		case <-ticker.C:
		}
	}
}

// contains checks that a text has all the wanted parts.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in:\n%s", w, text)
		}
	}
}

// fetch returns what a URL answers; anything but 2xx is an error. Every call has a connection of its own, so that a
// Service chooses an endpoint anew.
func fetch(ctx context.Context, method, url, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, data)
	}
	return string(data), err
}

// nodePort is the URL by which this machine reaches the first port of a Service through the node's address.
func (k *kube) nodePort(t *testing.T, namespace, service string) string {
	t.Helper()
	s, err := k.client.CoreV1().Services(namespace).Get(t.Context(), service, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := k.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range nodes.Items[0].Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return fmt.Sprintf("http://%s:%d", a.Address, s.Spec.Ports[0].NodePort)
		}
	}
	t.Fatalf("node %s has no InternalIP: %v", nodes.Items[0].Name, nodes.Items[0].Status.Addresses)
	return ""
}

// ready checks that the pods of a selector are as many as wanted, all Ready and none leaving.
func (k *kube) ready(namespace, selector string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := k.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		if len(list.Items) != want {
			return fmt.Errorf("%d pods of %s, want %d", len(list.Items), selector, want)
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp != nil || !isReady(&p) {
				return fmt.Errorf("pod %s is not ready: %s", p.Name, p.Status.Phase)
			}
		}
		return nil
	}
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// output collects what a running program prints, and lets a test wait for it. Safe for concurrent use.
type output struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String is all that has been printed.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the output has a text.
func (o *output) await(t *testing.T, within time.Duration, text string) {
	t.Helper()
	eventually(t, within, fmt.Sprintf("%q in the output", text), func(context.Context) error {
		if got := o.String(); !strings.Contains(got, text) {
			return fmt.Errorf("so far: %s", got)
		}
		return nil
	})
}

// background starts a program and returns what it prints. When the test ends the program is interrupted.
func background(t *testing.T, cmd *exec.Cmd) *output {
	t.Helper()
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
	})
	return out
}
