// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"path/filepath"

	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
)

// registration finds plugins. A kind of them is a line in the list.
func (k *Kubelet) registration() *pluginregistration.Watcher {
	return pluginregistration.New(pluginregistration.Config{
		Dir: filepath.Join(k.cfg.RootDir, kubeletdir.Registry), Clock: k.cfg.Clock,
		Handlers: map[string]pluginregistration.Handler{},
	})
}
