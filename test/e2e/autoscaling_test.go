// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAutoscaling runs examples/autoscaling on three nodes, twice at the same time: one Deployment gets requests, the other one holds
// memory. Both grow by one pod in 15 seconds, as their behavior says, and shrink so when it is over.
func TestAutoscaling(t *testing.T) {
	k := up(t, newCluster(t, "scale"), "--nodes", "3")
	dir := t.TempDir()
	for _, name := range []string{"server.yaml", "autoscaler.yaml"} {
		manifest, err := os.ReadFile(filepath.Join(suite.root, "examples", "autoscaling", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, deployment := range []string{"server", "holder"} {
			path := filepath.Join(dir, deployment+"-"+name)
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(manifest), "server", deployment)), 0o600); err != nil {
				t.Fatal(err)
			}
			k.kubectl(t, "apply", "-f", path)
		}
	}
	eventually(t, time.Minute, "the first server", k.ready("default", "app=server", 1))
	eventually(t, time.Minute, "the first holder", k.ready("default", "app=holder", 1))
	line := k.watchSizes(t, "server", "holder")

	k.kubectl(t, "apply", "-f", filepath.Join(suite.root, "examples", "autoscaling", "load.yaml"))
	first := k.hold(t, "", 120)
	eventually(t, 2*time.Minute, "servers as many as may be", k.ready("default", "app=server", 4))
	eventually(t, time.Minute, "holders for 120 MiB, of which each may have 48", k.ready("default", "app=holder", 3))
	eventually(t, time.Minute, "an answer from each server, through the Service", func(ctx context.Context) error {
		pods, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=server"})
		if err != nil {
			return err
		}
		log, err := k.client.CoreV1().Pods("default").GetLogs("load", &corev1.PodLogOptions{SinceSeconds: new(int64(6))}).DoRaw(ctx)
		if err != nil {
			return err
		}
		nodes := map[string]bool{}
		for _, p := range pods.Items {
			nodes[p.Spec.NodeName] = true
			if !strings.Contains(string(log), p.Name) {
				return fmt.Errorf("%s on %s has not answered: %s", p.Name, p.Spec.NodeName, log)
			}
		}
		if len(nodes) != 3 {
			return fmt.Errorf("they are on the nodes %v", nodes)
		}
		return nil
	})
	contains(t, k.kubectl(t, "get", "hpa", "server"), "Deployment/server", "%/50%, memory: ", "/48Mi")

	k.kubectl(t, "delete", "pod", "load")
	k.hold(t, first, 0)
	eventually(t, 150*time.Second, "one server", k.ready("default", "app=server", 1))
	eventually(t, time.Minute, "one holder", k.ready("default", "app=holder", 1))
	line.check(t, "server", 4)
	line.check(t, "holder", 3)
}

// hold lets a holder, the only one if pod is empty, hold so much memory, and returns which one it is.
func (k *kube) hold(t *testing.T, pod string, mib int) string {
	t.Helper()
	if pod == "" {
		pods, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=holder"})
		if err != nil || len(pods.Items) != 1 {
			t.Fatalf("%d holders (%v)", len(pods.Items), err)
		}
		pod = pods.Items[0].Name
	}
	eventually(t, 20*time.Second, "the holder's answer", func(ctx context.Context) error {
		return k.client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/pods", pod+":8080", "proxy", "hold").
			Param("mib", fmt.Sprint(mib)).Do(ctx).Error()
	})
	return pod
}

// sizes is how many pods Deployments were to have, over time.
type sizes struct {
	start time.Time
	mu    sync.Mutex
	// changes is guarded by mu: by Deployment, in order.
	changes map[string][]change
}

type change struct {
	at       time.Duration // since the start
	replicas int32
}

// watchSizes looks every 100 milliseconds until the test ends; then it tells what it has seen, and draws it if artifacts are kept.
func (k *kube) watchSizes(t *testing.T, deployments ...string) *sizes {
	t.Helper()
	s := &sizes{start: time.Now(), changes: map[string][]change{}}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			for _, name := range deployments {
				if d, err := k.client.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{}); err == nil {
					s.see(name, *d.Spec.Replicas)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	t.Cleanup(func() {
		stop()
		watching.Wait()
		path := filepath.Join(t.ArtifactDir(), "autoscaling.svg")
		if err := os.WriteFile(path, []byte(s.svg(deployments)), 0o600); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *sizes) see(name string, replicas int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.changes[name]
	if len(all) == 0 || all[len(all)-1].replicas != replicas {
		s.changes[name] = append(all, change{time.Since(s.start), replicas})
	}
}

// check tells the line of time of a Deployment, and that it went up to so many and back to one by one pod in 15 seconds. A second is
// for looking.
func (s *sizes) check(t *testing.T, name string, most int32) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	highest, last := int32(0), change{at: -time.Hour}
	for i, c := range s.changes[name] {
		t.Logf("%-7s %5.1fs %d %s", name, c.at.Seconds(), c.replicas, strings.Repeat("█", int(c.replicas)))
		highest = max(highest, c.replicas)
		if i > 1 && c.at-last.at < 14*time.Second {
			t.Errorf("%s: from %d to %d after %s", name, last.replicas, c.replicas, c.at-last.at)
		}
		if step := c.replicas - last.replicas; i > 0 && step != 1 && step != -1 {
			t.Errorf("%s: from %d to %d at once", name, last.replicas, c.replicas)
		}
		last = c
	}
	if highest != most || last.replicas != 1 {
		t.Errorf("%s went up to %d and ended at %d, want %d and 1", name, highest, last.replicas, most)
	}
}

// svg draws the lines of time.
func (s *sizes) svg(names []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	const height, pod, second = 140, 25, 4
	var b strings.Builder
	end := time.Since(s.start).Seconds() * second
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" font-family="sans-serif" font-size="11">`, end+60, height+20)
	for at := 0.0; at < end; at += 15 * second {
		fmt.Fprintf(&b, `<path d="M%.0f 0V%d" stroke="#ddd"/><text x="%.0f" y="%d">%.0fs</text>`, at, height, at, height+14, at/second)
	}
	for i, name := range names {
		colour := []string{"#c33", "#36c"}[i%2]
		points := ""
		for j, c := range s.changes[name] {
			x, y := c.at.Seconds()*second, height-float64(c.replicas)*pod+float64(3*i)
			if j == 0 {
				points = fmt.Sprintf("M0 %.0f", y)
			}
			points += fmt.Sprintf("H%.0fV%.0f", x, y)
		}
		fmt.Fprintf(&b, `<path d="%sH%.0f" fill="none" stroke="%s" stroke-width="2"/><text x="%.0f" y="%d" fill="%s">%s</text>`, points, end, colour, end+5, height-20*(i+1), colour, name)
	}
	return b.String() + "</svg>\n"
}
