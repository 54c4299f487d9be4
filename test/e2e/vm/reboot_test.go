//go:build vm

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// said is what the store was told before the first reboot.
const said = "kept through reboots"

// TestBeforeReboot leaves running what TestAfterReboot looks for.
func TestBeforeReboot(t *testing.T) {
	m := up(t)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: amounts("0", "1Mi")[corev1.ResourceMemory]}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token"}, StringData: map[string]string{"token": "token"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "store"}}
	service.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "store"},
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), NodePort: 30080}},
	}
	core := m.client.CoreV1()
	_, err1 := core.PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
	_, err2 := core.Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
	_, err3 := core.Services("default").Create(t.Context(), service, metav1.CreateOptions{})
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	deployment.Spec.Replicas = new(int32(2))
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	deployment.Spec.Template.Labels = deployment.Spec.Selector.MatchLabels
	deployment.Spec.Template.Spec = webPod("").Spec
	_, err4 := m.client.AppsV1().Deployments("default").Create(t.Context(), deployment, metav1.CreateOptions{})
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m.create(storePod())
	m.await("Ready", "store", running)
	m.eventually("the store told", func(ctx context.Context) error {
		_, err := ask(ctx, http.MethodPost, `{"text":"`+said+`"}`)
		return err
	})
	m.eventually("two web pods", m.webPods(2))
}

// storePod keeps messages in the claim, and has volumes in memory, which a boot empties.
func storePod() *corev1.Pod {
	p := pod("store", store)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4712))} // the image's user is not the volume's owner
	c := &p.Spec.Containers[0]
	c.Command, c.Args = nil, []string{"leader"}
	c.Env = []corev1.EnvVar{{Name: "STORE_TOKEN", Value: "token"}}
	for name, source := range map[string]corev1.VolumeSource{
		"data":   {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
		"secret": {Secret: &corev1.SecretVolumeSource{SecretName: "token"}},
		"memory": {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
	} {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
	return p
}

// ask speaks to the store through its NodePort.
func ask(ctx context.Context, method, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:30080/v1/messages", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer token")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", answer.Status, data)
	}
	return string(data), err
}

// webPods checks that the Deployment has that many pods, all Ready.
func (m machine) webPods(want int) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := m.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		if len(list.Items) != want {
			return fmt.Errorf("%d pods, want %d", len(list.Items), want)
		}
		for i := range list.Items {
			if err := running(&list.Items[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// After a boot `up` brings back the same pods, each with one container more than before and none twice, what volumes have kept,
// and Services.
func TestAfterReboot(t *testing.T) {
	boots, err := os.ReadFile("/var/lib/minik8s-vm/boots")
	if err != nil {
		t.Fatal(err)
	}
	var restarts int32
	if _, err := fmt.Sscan(string(boots), &restarts); err != nil {
		t.Fatal(err)
	}
	restarts-- // one for each boot but the first
	m := up(t)
	restarted := func(p *corev1.Pod) error {
		s := p.Status.ContainerStatuses
		if len(s) != 1 || s[0].RestartCount != restarts || s[0].LastTerminationState.Terminated == nil {
			return fmt.Errorf("want %d restarts: %s", restarts, p.Status.String())
		}
		return running(p)
	}
	m.await("Ready again", "store", restarted)
	m.eventually("the web pods", m.webPods(2))
	m.eventually("what the store was told", func(ctx context.Context) error {
		text, err := ask(ctx, http.MethodGet, "")
		if err == nil && strings.Count(text, said) != 1 {
			err = fmt.Errorf("it answers %q", text)
		}
		return err
	})
	out, err := exec.Command("docker", "ps", "--format", "{{.Names}}").Output()
	if got := strings.Count(string(out), "\n"); err != nil || got != 2*3 {
		t.Errorf("%d containers run, want those of three pods and their sandboxes (%v):\n%s", got, err, out)
	}
	m.eventually("the event Rebooted", func(ctx context.Context) error {
		list, err := m.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=Rebooted"})
		if err == nil && len(list.Items) < int(restarts) {
			err = fmt.Errorf("%d events", len(list.Items))
		}
		return err
	})
}

// After down --purge the machine has nothing of the cluster: no slice, mount, link, rule, container or file.
func TestPurge(t *testing.T) {
	m := the(t)
	if err := m.Down(t.Context(), "--purge"); err != nil {
		t.Fatal(err)
	}
	for what, command := range map[string][]string{
		"slices":     {"systemctl", "list-units", "--all", "--plain", "--no-legend", "minik8s_*"},
		"containers": {"docker", "ps", "--all", "--quiet"},
		"links":      {"sh", "-c", "ip -o link | grep ': mk' || true"},
		"rules":      {"sh", "-c", "iptables-save | grep -E 'MK-|MINIK8S' || true"},
		"mounts":     {"sh", "-c", "grep minik8s/ /proc/mounts || true"},
		"drop-ins":   {"sh", "-c", "find /run/systemd -name '*minik8s_*'"},
		"processes":  {"sh", "-c", "pgrep -a minik8s || true"},
	} {
		r, err := cluster.Run(exec.Command(command[0], command[1:]...))
		if err != nil || r.Code != 0 || r.Stdout != "" {
			t.Errorf("%s are left (%v): %s", what, err, r)
		}
	}
	left, err := filepath.Glob("/var/lib/minik8s/vm*")
	if groups, _ := filepath.Glob(tree + "*"); err != nil || len(left)+len(groups) > 0 {
		t.Errorf("left: %v %v (%v)", left, groups, err)
	}
}
