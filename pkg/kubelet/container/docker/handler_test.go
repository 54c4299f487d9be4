// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"testing"

	"github.com/docker/docker/api/types/system"
	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

func TestHandlers(t *testing.T) {
	says := func(features string) system.RuntimeWithStatus {
		return system.RuntimeWithStatus{Status: map[string]string{ociFeatures: features}}
	}
	info := system.Info{DefaultRuntime: "runc", Runtimes: map[string]system.RuntimeWithStatus{
		"runc": says(`{"mountOptions":["ro","rro"]}`), "old": says(`{"mountOptions":["ro"]}`), "silent": {}, "odd": says(`[`),
	}}
	for _, recursive := range []bool{true, false} {
		want := []container.Handler{{RecursiveReadOnly: recursive}, {Name: "odd"}, {Name: "old"}, {Name: "runc", RecursiveReadOnly: recursive}, {Name: "silent"}}
		if diff := cmp.Diff(want, handlers(info, recursive)); diff != "" {
			t.Errorf("recursive %v (-want +got):\n%s", recursive, diff)
		}
	}
}
