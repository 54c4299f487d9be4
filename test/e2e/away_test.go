// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A node whose API server is away for long goes on: what ends is restarted, what its probe finds dead too, and the rest runs on.
// When the server is back it learns of all that.
func TestAPIServerAway(t *testing.T) {
	away := 15 * time.Second
	if os.Getenv("MINIK8S_FAULTS_LONG") == "1" {
		away = 10 * time.Minute
	}
	c := newCluster(t, "alone")
	m := newSecondMachine(t)
	k := m.first(t, c)
	dir := filepath.Join(suite.dir, "alone-two")
	m.join(t, k, dir)
	alive := func(p *corev1.Pod) string {
		return filepath.Join(dir, "kubelet", "pods", string(p.UID), "volumes", "kubernetes.io~empty-dir", "alive", "file")
	}
	ids := map[string]string{}
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"steady", "killed", "hung"} {
		pods[name] = k.createAlive(t, name)
		eventually(t, time.Minute, "the volume of "+name, func(context.Context) error {
			return os.WriteFile(alive(pods[name]), nil, 0o644)
		})
		k.awaitReady(t, name, func(s corev1.ContainerStatus) bool { ids[name] = s.ContainerID; return s.RestartCount == 0 })
	}

	kill(t, k)
	gone := time.Now()
	if out, err := exec.Command("docker", "kill", strings.TrimPrefix(ids["killed"], "docker://")).CombinedOutput(); err != nil {
		t.Fatalf("docker kill: %v: %s", err, out)
	}
	if err := os.Remove(alive(pods["hung"])); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"killed", "hung"} {
		eventually(t, 40*time.Second, "another container of "+name, func(ctx context.Context) error {
			out, err := exec.CommandContext(ctx, "docker", "ps", "--no-trunc", "--format", "{{.ID}}",
				"--filter", "label=io.kubernetes.pod.uid="+string(pods[name].UID),
				"--filter", "label=io.kubernetes.docker.type=container").Output()
			id := "docker://" + strings.TrimSpace(string(out))
			if err == nil && (id == ids[name] || len(out) == 0) {
				err = errors.New("it is " + id)
			}
			return err
		})
	}
	if err := os.WriteFile(alive(pods["hung"]), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	pass(t, away-time.Since(gone))

	k = up(t, k.Cluster)
	for name, restarted := range map[string]bool{"steady": false, "killed": true, "hung": true} {
		k.awaitReady(t, name, func(s corev1.ContainerStatus) bool {
			return (s.RestartCount > 0) == restarted && (s.ContainerID != ids[name]) == restarted
		})
	}
	list, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != len(pods) {
		t.Errorf("%d pods, want %d, %v", len(list.Items), len(pods), err)
	}
}

// createAlive makes a pod of the second node that is killed when a file of its volume is not there.
func (k *kube) createAlive(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	probe := &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 3, InitialDelaySeconds: 5, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/alive/file", Port: intstr.FromInt32(8080)}}}
	p, err := k.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: "two", TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "c", Image: frontendImage, Command: []string{"/guestbook", "static", "/"},
				LivenessProbe: probe, VolumeMounts: []corev1.VolumeMount{{Name: "alive", MountPath: "/alive"}}}},
			Volumes: []corev1.Volume{{Name: "alive", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitReady waits until a pod of one container is Ready and that is as wanted.
func (k *kube) awaitReady(t *testing.T, name string, want func(corev1.ContainerStatus) bool) {
	t.Helper()
	eventually(t, time.Minute, name+" Ready", func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := p.Status.ContainerStatuses; !isReady(p) || len(s) != 1 || !want(s[0]) {
			return fmt.Errorf("%s: %+v", p.Status.Phase, s)
		}
		return nil
	})
}
