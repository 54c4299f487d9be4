// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod from a file of the node is in the API as its mirror: it is listed, its log is read, commands run in it; who deletes it does
// not stop the container. It changes and ends with the file, and goes on when the cluster is started again.
func TestStaticPod(t *testing.T) {
	c := newCluster(t, "static")
	dir := t.TempDir()
	manifests := filepath.Join(dir, "manifests")
	if err := os.Mkdir(manifests, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := filepath.Join(manifests, "web.yaml")
	manifest := func(root string) {
		t.Helper()
		write(file, "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}\nspec:\n  priorityClassName: system-node-critical\n"+
			"  terminationGracePeriodSeconds: 1\n  containers: [{name: web, image: "+frontendImage+", command: [/guestbook, static, "+root+"]}]\n")
	}
	manifest("/")
	settings := write(filepath.Join(dir, "kubelet.yaml"), "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: "+manifests+"\n")
	config := write(filepath.Join(dir, "config.yaml"), "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nkubelet: {nodeName: one, config: "+settings+"}\n")
	k := up(t, c, "--config", config)

	mirror := func(what string, ok func(*corev1.Pod) bool) *corev1.Pod {
		t.Helper()
		var found *corev1.Pod
		eventually(t, 40*time.Second, what, func(ctx context.Context) error {
			p, err := k.client.CoreV1().Pods("default").Get(ctx, "web-one", metav1.GetOptions{})
			if err == nil && (!isReady(p) || p.DeletionTimestamp != nil || !ok(p)) {
				err = fmt.Errorf("it is %s: %v", p.Status.Phase, p.Status.Conditions)
			}
			found = p
			return err
		})
		return found
	}
	containerOf := func(p *corev1.Pod) string { return p.Status.ContainerStatuses[0].ContainerID }
	first := mirror("the mirror Ready", func(*corev1.Pod) bool { return true })
	if first.Spec.Priority == nil || *first.Spec.Priority != 2000001000 || len(first.OwnerReferences) != 1 || first.OwnerReferences[0].Kind != "Node" {
		t.Errorf("mirror %+v, priority %v", first.ObjectMeta, first.Spec.Priority)
	}
	contains(t, k.kubectl(t, "get", "pods"), "web-one", "1/1", "Running")
	contains(t, k.kubectl(t, "exec", "web-one", "--", "/guestbook", "get", "http://localhost:8080/guestbook")[:4], "\x7fELF")
	if r, err := k.run(t.Context(), "logs", "web-one"); err != nil || r.Code != 0 {
		t.Errorf("logs: %v %s", err, r)
	}
	contains(t, k.kubectl(t, "describe", "pod", "web-one"), "Controlled By", "Node/one", "Started")

	k.kubectl(t, "delete", "pod", "web-one")
	second := mirror("another mirror", func(p *corev1.Pod) bool { return p.UID != first.UID })
	if containerOf(second) != containerOf(first) {
		t.Errorf("with the mirror the container was replaced: %s, was %s", containerOf(second), containerOf(first))
	}

	must(t, c, "down")
	k = up(t, c, "--config", config)
	// What was stopped with its pods has new containers, which the status that was kept tells only after a moment.
	third := mirror("the mirror after a restart", func(p *corev1.Pod) bool {
		return p.UID == second.UID && containerOf(p) != containerOf(first)
	})

	manifest("/etc")
	mirror("the changed pod", func(p *corev1.Pod) bool {
		return p.UID != third.UID && strings.Contains(fmt.Sprint(p.Spec.Containers[0].Command), "/etc") && containerOf(p) != containerOf(third)
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the mirror gone", func(ctx context.Context) error {
		_, err := k.client.CoreV1().Pods("default").Get(ctx, "web-one", metav1.GetOptions{})
		if err == nil {
			return errors.New("it is still there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
}
