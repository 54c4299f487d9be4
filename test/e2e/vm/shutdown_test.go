// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

//go:build vm

package vm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// settings of a node for which the machine waits when it is to go down. They are kept through boots.
const settings = "/var/lib/minik8s-vm/shutdown.yaml"

// TestBeforeShutdown leaves running what TestAfterShutdown looks for. The machine is told to reboot next.
func TestBeforeShutdown(t *testing.T) {
	kubelet := filepath.Join(filepath.Dir(settings), "kubelet.yaml")
	for file, text := range map[string]string{
		kubelet:  "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nshutdownGracePeriod: 2m\nshutdownGracePeriodCriticalPods: 30s\n",
		settings: "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nkubelet: {config: " + kubelet + "}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := up(t, "--config", settings)
	m.create(webPod("ordinary"))
	m.await("Ready", "ordinary", running)
	m.eventually("the machine waits for the node", func(context.Context) error {
		out, err := exec.Command("systemd-inhibit", "--list", "--no-pager").CombinedOutput()
		if err == nil && !strings.Contains(string(out), "delay") {
			err = errors.New(string(out))
		}
		return err
	})
}

// A pod that ran when the machine was told to go down has been ended by the kubelet, in time, and its status says so.
func TestAfterShutdown(t *testing.T) {
	m := up(t, "--config", settings)
	p := m.await("ended", "ordinary", func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			return errors.New(p.Status.String())
		}
		return nil
	})
	if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Message == "Pod was terminated in response to imminent node shutdown."
	}) {
		t.Error(p.Status.String())
	}
}
