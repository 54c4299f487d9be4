// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/nfs"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// count is a volume that a pod is to have, since when, and whether this process has brought it there.
type count struct {
	plugin  string
	wanted  time.Time
	mounted bool
}

// Counts are how many volumes pods are to have, and how many they have, by plugin. Those that an earlier process has brought count
// once a pod was looked at.
func (m *Manager) Counts() (desired, actual map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	desired, actual = map[string]int{}, map[string]int{}
	for _, volumes := range m.counts {
		for _, c := range volumes {
			desired[c.plugin]++
			if c.mounted {
				actual[c.plugin]++
			}
		}
	}
	return desired, actual
}

// CertificateStates are how many certificates pods have, or are to have, in their volumes, by signer and state.
func (m *Manager) CertificateStates() map[[2]string]int { return m.certs.States() }

// expect notes which volumes a pod is to have: those do not change, but an ephemeral container may be the first to use one.
func (m *Manager) expect(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts[pod.UID] == nil {
		m.counts[pod.UID] = map[string]*count{}
	}
	for v := range used(pod) {
		if p := m.plugin(v); p != nil && m.counts[pod.UID][v.Name] == nil {
			m.counts[pod.UID][v.Name] = &count{plugin: inline(v, p), wanted: m.config.Clock.Now()}
		}
	}
}

// mounted notes what came of a SetUp, and says whether one has succeeded before. That of a volume which is there already is told as
// upstream does: only of those whose content follows objects of the API.
func (m *Manager) mounted(at plugin.Mount, p plugin.Plugin, took time.Duration, err error) (before bool) {
	name := m.pluginOf(at, p)
	m.mu.Lock()
	c := m.counts[at.Pod.UID][at.Volume.Name]
	before = c != nil && c.mounted
	told := err != nil || !before || follows(at.Volume)
	first := c != nil && err == nil && !before
	var whole time.Duration
	if first {
		whole = m.config.Clock.Since(c.wanted)
	}
	if c != nil && err == nil {
		*c = count{plugin: name, wanted: c.wanted, mounted: true}
	}
	m.mu.Unlock()
	if m.config.Operations == nil {
		return before
	}
	if told {
		m.config.Operations.StorageOperation(name, "volume_mount", took, err)
	}
	if first {
		m.config.Operations.VolumeMounted(name, whole)
	}
	return before
}

// unmounted notes what came of the removal of a pod's volumes, which are removed together.
func (m *Manager) unmounted(uid types.UID, took time.Duration, err error) {
	m.mu.Lock()
	volumes := m.counts[uid]
	if err == nil {
		delete(m.counts, uid)
	}
	m.mu.Unlock()
	for _, c := range volumes {
		if m.config.Operations != nil && c.mounted {
			m.config.Operations.StorageOperation(c.plugin, "volume_unmount", took, err)
		}
	}
}

// follows says whether the content of a volume changes with objects of the API.
func follows(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
}

// csiName is upstream's name of the plugin of CSI drivers; that of one is told besides.
const csiName = "kubernetes.io/csi"

// inline is the name of a plugin as the pod's spec alone tells it.
func inline(v *corev1.Volume, p plugin.Plugin) string {
	if v.CSI != nil {
		return csiName + ":" + v.CSI.Driver
	}
	return p.Name()
}

// pluginOf is the name of a plugin in upstream's way. That of a claim is known once its volume is there.
func (m *Manager) pluginOf(at plugin.Mount, p plugin.Plugin) string {
	if at.Volume.PersistentVolumeClaim == nil && at.Volume.Ephemeral == nil {
		return inline(at.Volume, p)
	}
	path := p.HostPath(at)
	if driver := m.csi.Driver(at.Pod.UID, path); driver != "" {
		return csiName + ":" + driver
	}
	if strings.Contains(path, "/"+nfs.Folder+"/") {
		return "kubernetes.io/nfs"
	}
	return p.Name()
}
