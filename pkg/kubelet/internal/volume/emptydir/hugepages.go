// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// isHugePages says whether a medium is huge pages, of the size that the pod requests ("HugePages") or of another ("HugePages-2Mi").
func isHugePages(medium corev1.StorageMedium) bool {
	return medium == corev1.StorageMediumHugePages || strings.HasPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix))
}

// hugePages mounts a hugetlbfs as the volume if it is not there yet. What it holds counts among the pod's huge pages.
func (e *EmptyDir) hugePages(m plugin.Mount) error {
	size, err := pageSize(m.Volume.EmptyDir.Medium, m.Pod)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return err
	}
	mounted, err := e.Mounts.IsMountPoint(m.Dir)
	if err != nil || mounted {
		return err
	}
	var gid int64
	if g := m.FSGroup(); g != nil {
		gid = *g
	}
	return e.Mounts.HugePages(m.Dir, mode(m), gid, size)
}

// pageSize is that of a medium, in bytes, which a container of the pod has to request. See KEP-1539. The errors are upstream's.
func pageSize(medium corev1.StorageMedium, pod *corev1.Pod) (int64, error) {
	want, named := int64(0), medium != corev1.StorageMediumHugePages
	if named {
		q, err := resource.ParseQuantity(strings.TrimPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)))
		if err != nil {
			return 0, fmt.Errorf("medium %s: %w", medium, err)
		}
		want = q.Value()
	}
	var lists []corev1.ResourceList
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			lists = append(lists, containers[i].Resources.Requests)
		}
	}
	found := int64(0)
	for _, list := range lists {
		for name := range list {
			text, is := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
			if !is {
				continue
			}
			q, err := resource.ParseQuantity(text)
			if err != nil {
				return 0, fmt.Errorf("resource %s: %w", name, err)
			}
			switch size := q.Value(); {
			case !named && found != 0 && found != size:
				return 0, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
			case !named || size == want:
				found = size
			}
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	}
	return found, nil
}
