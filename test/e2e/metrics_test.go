// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

const topManifest = `
apiVersion: v1
kind: Pod
metadata: {name: worker, labels: {app: worker}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: busy
      image: minik8s.io/guestbook-frontend:1
      args: [static, /]
      readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
      resources: {limits: {cpu: 200m}}
    - {name: idle, image: "minik8s.io/guestbook-frontend:1", args: [toolbox], stdin: true}
`

// TestTop: kubectl top works without anything installed, soon after a pod has started, and tells what the kernel counts.
func TestTop(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "top")
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(topManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "-n", ns, "apply", "-f", file)
	k.kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod/worker", "--timeout=60s")
	pod, err := k.client.CoreV1().Pods(ns).Get(t.Context(), "worker", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	occupy(t, "http://"+pod.Status.PodIP+":8080/guestbook")

	var started time.Time
	for _, s := range pod.Status.ContainerStatuses {
		if at := s.State.Running.StartedAt.Time; at.After(started) {
			started = at
		}
	}
	eventually(t, time.Until(started.Add(16*time.Second)), "the pod is told of 15 s after its start, whose time has no fractions", func(ctx context.Context) error {
		r, err := k.run(ctx, "-n", ns, "top", "pod", "worker", "--no-headers")
		if err == nil && r.Code != 0 {
			err = errors.New(r.Stderr)
		}
		return err
	})
	t.Logf("told of %s after the start", time.Since(started).Round(100*time.Millisecond))

	t.Run("figures", func(t *testing.T) { testFigures(t, k, ns, pod) })
	t.Run("kubectl", func(t *testing.T) { testTopOutput(t, k, ns, pod.Spec.NodeName) })
	k.kubectl(t, "-n", ns, "delete", "pod", "worker", "--timeout=20s")
	contains(t, k.kubectlFails(t, "-n", ns, "top", "pod", "worker"), `"worker" not found`)
}

// occupy fetches a large file again and again until the test ends.
func occupy(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = fetch(ctx, http.MethodGet, url, "")
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// counted is what the kernel tells of a container at a time.
type counted struct {
	at         time.Time
	cpu        time.Duration
	workingSet int64
}

// groupDirs are the folders of a container in the cgroup file systems.
func groupDirs(id string) (dirs []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), id) {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// count reads either version of cgroups.
func count(t *testing.T, dirs []string) counted {
	t.Helper()
	c := counted{at: time.Now()}
	number := func(text string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	line := func(text, name string) int64 {
		for l := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(l, name+" "); ok {
				return number(value)
			}
		}
		return 0
	}
	for _, dir := range dirs {
		read := func(name string) (string, bool) {
			data, err := os.ReadFile(filepath.Join(dir, name))
			return string(data), err == nil
		}
		if text, ok := read("cpuacct.usage"); ok {
			c.cpu = time.Duration(number(text))
		} else if text, ok := read("cpu.stat"); ok && line(text, "usage_usec") > 0 {
			c.cpu = time.Duration(line(text, "usage_usec")) * time.Microsecond
		}
		stat, _ := read("memory.stat")
		if text, ok := read("memory.usage_in_bytes"); ok {
			c.workingSet = number(text) - line(stat, "total_inactive_file")
		} else if text, ok := read("memory.current"); ok {
			c.workingSet = number(text) - line(stat, "inactive_file")
		}
	}
	return c
}

// testFigures compares what is told of the busy container with what the kernel counted over the same time.
func testFigures(t *testing.T, k *kube, ns string, pod *corev1.Pod) {
	t.Helper()
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "busy" })
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	dirs := groupDirs(id)
	if len(dirs) == 0 {
		t.Fatalf("there is no cgroup of container %s", id)
	}
	var counts []counted
	begin := time.Now()
	eventually(t, 60*time.Second, "a window in which the kernel was watched, and its figures", func(ctx context.Context) error {
		now := count(t, dirs)
		counts = append(counts, now)
		data, err := k.client.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/"+ns+"/pods/worker").SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return err
		}
		var m metricsv1beta1.PodMetrics
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		from := m.Timestamp.Add(-m.Window.Duration)
		if from.Before(begin) || len(m.Containers) != 2 || m.Containers[0].Name != "busy" {
			return fmt.Errorf("told is %s", data)
		}
		first := slices.IndexFunc(counts, func(c counted) bool { return c.at.After(from) })
		last := slices.IndexFunc(counts, func(c counted) bool { return c.at.After(m.Timestamp.Time) })
		if last < 0 {
			last = len(counts) - 1
		}
		want := (counts[last].cpu - counts[first].cpu).Seconds() / counts[last].at.Sub(counts[first].at).Seconds()
		got := m.Containers[0].Usage.Cpu().AsApproximateFloat64()
		// Times have no fractions of seconds, and what the container does changes.
		if math.Abs(got-want) > 0.25*want+0.02 || got > 0.25 {
			return fmt.Errorf("cpu is %.3f, the kernel counted %.3f in %s", got, want, m.Window.Duration)
		}
		memory := m.Containers[0].Usage.Memory().Value()
		if least, most := now.workingSet*3/4-2<<20, now.workingSet*5/4+2<<20; memory < least || memory > most || memory < 256<<10 {
			return fmt.Errorf("memory is %d, the kernel tells %d", memory, now.workingSet)
		}
		t.Logf("cpu %.3f, counted %.3f over %s; memory %d KiB, counted %d KiB", got, want, m.Window.Duration, memory>>10, now.workingSet>>10)
		return nil
	})
}

// testTopOutput reads what kubectl top prints.
func testTopOutput(t *testing.T, k *kube, ns, node string) {
	t.Helper()
	contains(t, k.kubectl(t, "-n", ns, "top", "pod"), "CPU(cores)", "MEMORY(bytes)", "worker")
	lines := strings.Split(strings.TrimSpace(k.kubectl(t, "-n", ns, "top", "pod", "worker", "--containers", "--no-headers", "--sort-by=cpu")), "\n")
	if len(lines) != 2 || strings.Fields(lines[0])[1] != "busy" || strings.Fields(lines[1])[1] != "idle" {
		t.Errorf("the containers, the one that uses most first, are %q", lines)
	}
	last := math.Inf(1)
	for line := range strings.Lines(k.kubectl(t, "top", "pod", "-A", "--no-headers", "--sort-by=memory")) {
		fields := strings.Fields(line)
		memory, err := resource.ParseQuantity(fields[3])
		if err != nil || memory.AsApproximateFloat64() > last {
			t.Errorf("pods are not in the order of memory, or one has none (%v): %s", err, line)
		}
		last = memory.AsApproximateFloat64()
	}
	if math.IsInf(last, 1) {
		t.Error("top pod -A tells nothing")
	}
	fields := strings.Fields(k.kubectl(t, "top", "node", node, "--no-headers"))
	if len(fields) != 5 || fields[0] != node || !strings.HasSuffix(fields[1], "m") || fields[1] == "0m" || !strings.HasSuffix(fields[4], "%") || fields[4] == "0%" {
		t.Errorf("the node is told as %q", fields)
	}
	contains(t, k.kubectl(t, "explain", "pods.containers", "--api-version=metrics.k8s.io/v1beta1"), "KIND:       PodMetrics", "usage")
	contains(t, k.kubectl(t, "get", "apiservice", "v1beta1.metrics.k8s.io"), "Local", "True")
}
