// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// manifests are the pods of a source that reads them as a whole, again and again.
type manifests struct {
	mu     sync.Mutex // guards the fields below
	synced bool
	pods   map[types.UID]*corev1.Pod
	// renewed are those that were gone for a moment, and of which that has not been asked yet.
	renewed map[types.UID]bool
}

// replace takes the newest reading, and returns the pods that came, changed or went. Pods that differ from earlier ones in
// nothing stay the very same, but for those that were gone since the last reading.
func (m *manifests) replace(read []*corev1.Pod, gone ...types.UID) []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = true
	now := map[types.UID]*corev1.Pod{}
	var changed []types.UID
	for _, p := range read {
		old := m.pods[p.UID]
		switch {
		case old == nil:
			changed = append(changed, p.UID)
		case slices.Contains(gone, p.UID):
			changed = append(changed, p.UID)
			if m.renewed == nil {
				m.renewed = map[types.UID]bool{}
			}
			m.renewed[p.UID] = true
		case staticpod.Same(old, p):
			p = old
		default:
			p = staticpod.SeenAs(p, old)
			changed = append(changed, p.UID)
		}
		now[p.UID] = p
	}
	for uid := range m.pods {
		if now[uid] == nil {
			changed = append(changed, uid)
			delete(m.renewed, uid)
		}
	}
	m.pods = now
	return changed
}

// Synced implements Source.
func (m *manifests) Synced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// Pod implements Source.
func (m *manifests) Pod(uid types.UID) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

// Renewed implements Source.
func (m *manifests) Renewed(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	renewed := m.renewed[uid]
	delete(m.renewed, uid)
	return renewed
}

// Pods implements Source.
func (m *manifests) Pods() []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*corev1.Pod, 0, len(m.pods))
	for _, p := range m.pods {
		out = append(out, p)
	}
	return out
}

// distinct drops pods whose name or uid an earlier one has.
func distinct(pods []*corev1.Pod) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	var errs []error
	for _, p := range pods {
		if i := slices.IndexFunc(out, func(o *corev1.Pod) bool {
			return o.UID == p.UID || o.Namespace == p.Namespace && o.Name == p.Name
		}); i >= 0 {
			errs = append(errs, fmt.Errorf("pod %s with uid %s: another one has its name or uid", klog.KObj(p), p.UID))
			continue
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}

// grumbler logs an error when it is another one than last time.
type grumbler struct{ last string }

func (g *grumbler) log(logger klog.Logger, err error, message string) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != g.last {
		logger.Error(err, message)
	}
	g.last = text
}
