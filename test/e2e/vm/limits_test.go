//go:build vm

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const tree = "/sys/fs/cgroup/minik8s_vm.slice"

// slice is the directory of a pod's group; class is "" or a name and a dash.
func slice(p *corev1.Pod, class string) string {
	dir := tree
	if class != "" {
		dir = filepath.Join(tree, "minik8s_vm-"+strings.TrimSuffix(class, "-")+".slice")
	}
	return filepath.Join(dir, "minik8s_vm-"+class+"pod"+strings.ReplaceAll(string(p.UID), "-", "_")+".slice")
}

// scope is the directory of the group of a pod's container.
func scope(p *corev1.Pod, class string) string {
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "docker://")
	return filepath.Join(slice(p, class), "docker-"+id+".scope")
}

// holds checks what the kernel holds a group to: CPU quota, memory and, unless it is "", CPU weight.
func holds(t *testing.T, dir, quota, memory, weight string) {
	t.Helper()
	for name, want := range map[string]string{"cpu.max": quota, "memory.max": memory, "cpu.weight": weight} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || want != "" && strings.TrimSpace(string(got)) != want {
			t.Errorf("%s of %s is %q (%v), want %q", name, filepath.Base(dir), got, err, want)
		}
	}
}

// The kernel holds pods and containers to what their specs say, before and after a resize; who eats too much is OOMKilled; all
// that is measured; and the groups go with their pods.
func TestLimits(t *testing.T) {
	m := up(t)
	burst, guaranteed, best := webPod("burst"), webPod("guaranteed"), webPod("best")
	resources := &burst.Spec.Containers[0].Resources
	resources.Requests, resources.Limits = amounts("100m", "32Mi"), amounts("500m", "64Mi")
	guaranteed.Spec.Containers[0].Resources.Limits = amounts("250m", "64Mi")
	hungry := pod("hungry", eater, "/program", "linux-eat")
	hungry.Spec.RestartPolicy = corev1.RestartPolicyNever
	hungry.Spec.Containers[0].Resources.Limits = amounts("1", "32Mi")
	m.create(burst, guaranteed, best, hungry)

	for _, p := range []**corev1.Pod{&burst, &guaranteed, &best} {
		*p = m.await("Ready", (*p).Name, running)
	}
	const mebibyte = 1 << 20
	memory := fmt.Sprint(64 * mebibyte)
	holds(t, slice(burst, "burstable-"), "50000 100000", memory, "4")
	holds(t, scope(burst, "burstable-"), "50000 100000", memory, "")
	holds(t, slice(guaranteed, ""), "25000 100000", memory, "10")
	holds(t, scope(guaranteed, ""), "25000 100000", memory, "")
	holds(t, slice(best, "besteffort-"), "max 100000", "max", "1")
	holds(t, filepath.Join(tree, "minik8s_vm-besteffort.slice"), "max 100000", "max", "1")

	m.await("OOMKilled", "hungry", func(p *corev1.Pod) error {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated != nil && s.State.Terminated.Reason == "OOMKilled" {
				return nil
			}
		}
		return errors.New(p.Status.String())
	})

	m.resize(burst)
	holds(t, slice(burst, "burstable-"), "80000 100000", fmt.Sprint(96*mebibyte), "4")
	holds(t, scope(burst, "burstable-"), "80000 100000", fmt.Sprint(96*mebibyte), "")

	id := strings.TrimPrefix(scope(burst, "burstable-"), "/sys/fs/cgroup")
	for path, want := range map[string]string{
		"stats/summary":    `"workingSetBytes"`,
		"metrics/cadvisor": `container_pressure_cpu_waiting_seconds_total{container="c",id="` + id,
	} {
		body, err := m.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/minik8s-vm/proxy/" + path).DoRaw(t.Context())
		if err != nil || !strings.Contains(string(body), want) || !strings.Contains(string(body), "burst") {
			t.Errorf("%s: %v: no %q in %.4000s", path, err, want, body)
		}
	}

	for _, p := range []string{"burst", "guaranteed", "best", "hungry"} {
		if err := m.client.CoreV1().Pods("default").Delete(t.Context(), p, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m.eventually("the groups gone", m.noGroups)
}

// resize gives a pod 800m and 96Mi without a restart.
func (m machine) resize(p *corev1.Pod) {
	m.Helper()
	patch := []byte(`{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"800m","memory":"96Mi"}}}]}}`)
	pods := m.client.CoreV1().Pods("default")
	if _, err := pods.Patch(m.Context(), p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
		m.Fatal(err)
	}
	m.await("resized", p.Name, func(now *corev1.Pod) error {
		s := now.Status.ContainerStatuses[0]
		same := s.RestartCount == 0 && s.ContainerID == p.Status.ContainerStatuses[0].ContainerID
		if same && s.Resources != nil && s.Resources.Limits.Memory().String() == "96Mi" {
			return nil
		}
		return errors.New(s.String())
	})
}

// noGroups says which groups of pods there are.
func (machine) noGroups(context.Context) error {
	var left []string
	for _, pattern := range []string{"*-pod*", "*/*-pod*"} {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil {
			return err
		}
		left = append(left, found...)
	}
	if len(left) > 0 {
		return fmt.Errorf("%v", left)
	}
	return nil
}
