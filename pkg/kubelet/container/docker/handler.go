// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/docker/docker/api/types/system"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// recursiveReadOnlyAPI is the first API version that can be told whether a read-only mount is recursive, that of Docker 25.
const recursiveReadOnlyAPI = "1.44"

// ociFeatures is what an OCI runtime says that it can do (features.md of its specification).
const ociFeatures = "org.opencontainers.runtime-spec.features"

// handlers are the runtimes that Docker knows, its default one first. Mounts are recursively read-only if Docker and the kernel can do
// it, which the caller knows, and the runtime says that it can.
func handlers(info system.Info, recursive bool) []container.Handler {
	can := func(name string) bool {
		var features struct {
			MountOptions []string `json:"mountOptions"`
		}
		err := json.Unmarshal([]byte(info.Runtimes[name].Status[ociFeatures]), &features)
		return recursive && err == nil && slices.Contains(features.MountOptions, "rro")
	}
	out := []container.Handler{{RecursiveReadOnly: can(info.DefaultRuntime)}}
	for _, name := range slices.Sorted(maps.Keys(info.Runtimes)) {
		out = append(out, container.Handler{Name: name, RecursiveReadOnly: can(name)})
	}
	return out
}

// kernelSetsMounts tells whether the kernel can change a whole tree of mounts, as those from 5.12 on can.
func kernelSetsMounts() bool {
	return !errors.Is(unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}), unix.ENOSYS)
}
