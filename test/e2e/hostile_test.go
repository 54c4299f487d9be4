// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostileImage imports the image of the tests' pods with links in place of folders.
func hostileImage(t *testing.T, tag string, links map[string]string) string {
	t.Helper()
	id, err := exec.Command("docker", "create", frontendImage).Output()
	if err != nil {
		t.Fatal(err)
	}
	container := strings.TrimSpace(string(id))
	defer func() { _ = exec.Command("docker", "rm", container).Run() }() // it never ran
	plain, err := exec.Command("docker", "export", container).Output()
	if err != nil {
		t.Fatal(err)
	}
	var hostile bytes.Buffer
	to := tar.NewWriter(&hostile)
	for name, target := range links {
		if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}); err != nil {
			t.Fatal(err)
		}
	}
	from := tar.NewReader(bytes.NewReader(plain))
	for {
		h, err := from.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != "guestbook" {
			continue
		}
		if err := to.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(to, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	image := "minik8s.test/hostile:" + tag
	load := exec.Command("docker", "import", "-", image)
	load.Stdin = &hostile
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", "--force", image).CombinedOutput(); err != nil {
			t.Errorf("docker rmi: %v: %s", err, out)
		}
	})
	return image
}

// Images whose folders are links, and pods that want their files in bad places, change nothing of the machine. They run, or are
// told why they do not, and can be deleted.
func TestHostile(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "hostile")
	outside := filepath.Join(suite.dir, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	far := strings.Repeat("../", 12) + strings.TrimPrefix(outside, "/")
	for _, name := range []string{"hosts", "resolv.conf", "log"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("precious"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name  string
		links map[string]string
		path  string // of the termination message
	}{
		{"etc-outside", map[string]string{"etc": far}, ""},
		{"etc-proc", map[string]string{"etc": "proc/1/root/" + outside}, ""},
		{"proc", map[string]string{"proc": far}, ""},
		{"dev", map[string]string{"dev": far, "sys": far}, ""},
		{"hosts", map[string]string{"etc/hosts": outside + "/hosts", "etc/resolv.conf": far + "/resolv.conf"}, ""},
		{"message-link", map[string]string{"m": far}, "/m/log"},
		{"message-proc", nil, "/proc/sys/kernel/core_pattern"},
		{"message-self", nil, "/proc/self/attr/exec"},
		{"message-up", nil, "/../../../../.." + outside + "/log"},
		{"message-root", nil, "/"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			image := frontendImage
			if test.links != nil {
				image = hostileImage(t, test.name, test.links)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: test.name}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{Name: "c", Image: image, ImagePullPolicy: corev1.PullNever, TerminationMessagePath: test.path,
					Command: []string{"/guestbook", "static", "/"}}},
			}}
			pods := k.client.CoreV1().Pods(ns)
			if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, time.Minute, "it runs or is told why not", func(ctx context.Context) error {
				p, err := pods.Get(ctx, test.name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, s := range p.Status.ContainerStatuses {
					if w := s.State.Waiting; w != nil && w.Message != "" && w.Reason != "ContainerCreating" || s.State.Running != nil {
						t.Logf("%+v", s.State)
						return nil
					}
				}
				return fmt.Errorf("%+v", p.Status)
			})
			k.kubectl(t, "-n", ns, "delete", "pod", test.name, "--timeout=30s")
		})
	}
	for _, name := range []string{"hosts", "resolv.conf", "log"} {
		if data, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(data) != "precious" {
			t.Errorf("%s of the machine is %q, %v", name, data, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 3 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
}

// A container that prints without end and without lines costs no more disk than its logs may have, and a client gets no more of
// it than it asks for. It can be deleted.
func TestEndlessLogs(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "endless")
	k.kubectl(t, "-n", ns, "run", "endless", "--image="+frontendImage, "--command", "--", "/guestbook", "cat", "/dev/zero")
	const limit = 5 * 10 << 20 // five files of ten MiB, by default
	var files string
	eventually(t, 2*time.Minute, "logs that go around", func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods(ns).Get(ctx, "endless", metav1.GetOptions{})
		if err != nil || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].ContainerID == "" {
			return fmt.Errorf("no container yet: %w", err)
		}
		out, err := exec.CommandContext(ctx, "docker", "inspect", "--format", "{{.LogPath}}",
			strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "docker://")).Output()
		if err != nil {
			return err
		}
		files = strings.TrimSpace(string(out))
		if _, err := os.Stat(files + ".4"); err != nil {
			return err
		}
		return nil
	})
	r, err := k.run(t.Context(), "-n", ns, "logs", "endless", "--limit-bytes=1000")
	if err != nil || r.Code != 0 || len(r.Stdout) != 1000 {
		t.Errorf("%d bytes of the log, want 1000: %v %.100s", len(r.Stdout), err, r.Stderr)
	}
	all, err := filepath.Glob(files + "*")
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, f := range all {
		if info, err := os.Stat(f); err == nil { // it may just have been rotated away
			size += info.Size()
		}
	}
	if size > limit+limit/10 {
		t.Errorf("the logs take %d bytes, more than %d", size, limit)
	}
	k.kubectl(t, "-n", ns, "delete", "pod", "endless", "--grace-period=1", "--timeout=30s")
	if left, err := filepath.Glob(files + "*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
