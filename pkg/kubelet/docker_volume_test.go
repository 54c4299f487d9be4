// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

const volumeImage = "minik8s.test/kubelet-volume:1"

// imageVolumes runs pods on Docker that mount an image.
func imageVolumes(t *testing.T, w *world, r container.Runtime, name string) {
	t.Helper()
	buildImage(t)
	shows := func(pod, ref, sub, file string) {
		w.create(newPod(pod, func(p *corev1.Pod) {
			p.UID = types.UID("uid-" + pod + "-" + name)
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: ref}}}}
			c := &p.Spec.Containers[0]
			c.Image, c.Args = podImage, []string{"cat", "/v/" + file}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: sub}}
		}))
	}
	shows("whole", volumeImage, "", "data/file")
	shows("part", volumeImage, "data", "file")
	shows("nothing", volumeImage, "absent", "file")
	shows("nowhere", "127.0.0.1:1/absent:1", "", "file")
	for _, pod := range []string{"whole", "part"} {
		w.await("succeeded", pod, phase(corev1.PodSucceeded))
		found, err := r.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, f := range found {
			if _, c, err := r.Inspect(t.Context(), f.ID); f.Pod.Name == pod && err == nil && c != nil {
				if err := r.Logs(t.Context(), c.ID, container.LogOptions{Tail: -1}, &out, &out); err != nil {
					t.Error(err)
				}
			}
		}
		if out.String() != "of the second layer" {
			t.Errorf("pod %s read %q", pod, out.String())
		}
	}
	stuck := func(pod, text string, reasons ...string) {
		w.await("stuck", pod, func(p *corev1.Pod) bool {
			if len(p.Status.ContainerStatuses) == 0 {
				return false
			}
			var reason, message string
			switch s := p.Status.ContainerStatuses[0].State; {
			case s.Waiting != nil:
				reason, message = s.Waiting.Reason, s.Waiting.Message
			case s.Terminated != nil:
				reason, message = s.Terminated.Reason, s.Terminated.Message
			}
			return slices.Contains(reasons, reason) && strings.Contains(message, text)
		})
	}
	stuck("nothing", "/absent", "CreateContainerError", "StartError") // the latter where the engine mounts
	stuck("nowhere", "127.0.0.1:1", "ErrImagePull", "ImagePullBackOff")
	for _, pod := range []string{"whole", "part", "nothing", "nowhere"} {
		w.remove(pod)
		w.await("gone", pod, func(p *corev1.Pod) bool { return p == nil })
	}
}

// buildImage makes an image of two layers, the second of which replaces a file; it is removed with the test.
func buildImage(t *testing.T) {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for name, text := range map[string]string{
		"Dockerfile": "FROM scratch\nCOPY first /data/file\nCOPY second /data/file\n", "first": "of the first", "second": "of the second layer",
	} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.ImageBuild(t.Context(), &b, build.ImageBuildOptions{Tags: []string{volumeImage}, Remove: true})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	if text, err := io.ReadAll(out.Body); err != nil || bytes.Contains(text, []byte("errorDetail")) {
		t.Fatalf("building an image: %v: %s", err, text)
	}
	t.Cleanup(func() {
		if _, err := c.ImageRemove(context.Background(), volumeImage, image.RemoveOptions{PruneChildren: true}); err != nil {
			t.Errorf("removing the test image: %v", err)
		}
		_ = c.Close()
	})
}
