// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/test/program"
)

// deafRegistry accepts connections and never answers; it returns the prefix of its images.
func deafRegistry(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing was written
	go func() {
		var held []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range held {
					_ = c.Close()
				}
				return
			}
			held = append(held, c)
		}
	}()
	return l.Addr().String() + "/"
}

// Pulls that hang hold up their own pods only, which can be deleted all the same.
func TestPullHangs(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "deaf")
	registry := deafRegistry(t)
	pods := k.client.CoreV1().Pods(ns)
	create := func(name, image string) {
		t.Helper()
		if _, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: "c", Image: image, Command: []string{"/guestbook", "static", "/"}}},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const hung = 10
	for n := range hung {
		create(fmt.Sprint("hung-", n), fmt.Sprintf("%snone:%d", registry, n))
	}
	eventually(t, 30*time.Second, "all pulls begun", func(ctx context.Context) error {
		list, err := k.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=Pulling"})
		if err == nil && len(list.Items) < hung {
			err = fmt.Errorf("%d of %d", len(list.Items), hung)
		}
		return err
	})
	create("web", frontendImage)
	eventually(t, 30*time.Second, "a pod that has its image", func(ctx context.Context) error {
		p, err := pods.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && !isReady(p) {
			err = fmt.Errorf("it is %s: %v", p.Status.Phase, p.Status.Conditions)
		}
		return err
	})
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "no pods", func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
}

// Two hundred probes that get no answer hold up nobody else's probes, and neither their own pods' end. It takes a while: make faults.
func TestProbesHang(t *testing.T) {
	enabled(t)
	long(t, "make faults")
	k := shared(t)
	ns := k.namespace(t, "hung-probes")
	_, port, err := net.SplitHostPort(strings.TrimSuffix(deafRegistry(t), "/"))
	if err != nil {
		t.Fatal(err)
	}
	probe := func(host, port string, timeout int32) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: timeout, FailureThreshold: 1000, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Host: host, Port: intstr.Parse(port), Path: "/"},
		}}
	}
	pods := k.client.CoreV1().Pods(ns)
	const count = 100
	for n := range count {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("hung-", n)}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "c", Image: frontendImage, Command: []string{"/guestbook", "static", "/"},
				LivenessProbe: probe("127.0.0.1", port, 60), ReadinessProbe: probe("127.0.0.1", port, 60),
			}},
		}}
		if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 3*time.Minute, "all pods running", func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if err == nil && running < count {
			err = fmt.Errorf("%d of %d", running, count)
		}
		return err
	})
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: frontendImage, Command: []string{"/guestbook", "static", "/"}, ReadinessProbe: probe("", "8080", 1), LivenessProbe: probe("", "8080", 1),
	}}}}
	if _, err := pods.Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	k.kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod/web", "--timeout=20s")
	t.Logf("a pod beside %d probes without an answer is Ready after %.1f s", 2*count, time.Since(begin).Seconds())
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "no pods", func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
}

// Clients that do not read what their commands print cost neither memory nor others' time, and their commands end with them.
func TestExecUnread(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "unread")
	k.kubectl(t, "-n", ns, "run", "web", "--image="+frontendImage, "--command", "--", "/guestbook", "static", "/")
	k.kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
	s, err := k.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := program.UsageOf(s.Pid)
	if err != nil {
		t.Fatal(err)
	}
	const clients, size = 20, 9 << 20 // each command prints its own program
	ctx, cancel := context.WithCancel(t.Context())
	var all []*exec.Cmd
	for range clients {
		cmd := k.command(ctx, "-n", ns, "exec", "web", "--", "/guestbook", "get", "http://localhost:8080/guestbook")
		unread, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(unread, make([]byte, 4)); err != nil { // and no more
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	if out := k.kubectl(t, "-n", ns, "exec", "web", "--", "/guestbook", "lookup", "localhost"); !strings.Contains(out, "127.0.0.1") {
		t.Errorf("a command beside them prints %q", out)
	}
	eventually(t, 30*time.Second, "little memory for clients that read nothing", func(context.Context) error {
		// Garbage is in it at first.
		after, err := program.UsageOf(s.Pid)
		if grown := after.Anonymous - before.Anonymous; err == nil && grown > clients*size/4 {
			err = fmt.Errorf("%d take %d MiB", clients, grown>>20)
		}
		return err
	})
	cancel()
	for _, cmd := range all {
		_ = cmd.Wait() // killed
	}
	eventually(t, 20*time.Second, "the end of the commands", func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods(ns).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		out, err := exec.CommandContext(ctx, "docker", "top",
			strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "docker://"), "-o", "pid,args").Output()
		if err == nil && strings.Contains(string(out), "guestbook get") {
			err = errors.New(string(out))
		}
		return err
	})
}
