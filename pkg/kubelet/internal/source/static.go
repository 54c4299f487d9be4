// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// show has the mirror of a static pod looked at.
func (i *Intake) show(pod *corev1.Pod) {
	if staticpod.Is(pod) {
		i.cfg.Mirrors.Look(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// queued says whether a static pod waits for another of its name, such as the form that its manifest had before: they would
// quarrel over ports and files, and have but one mirror.
func (i *Intake) queued(pod *corev1.Pod) bool {
	if !staticpod.Is(pod) {
		return false
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.behind[name] = pod.UID // before the look, or the other could leave in between unnoticed
	if other := i.worker(name); other != nil && other.UID != pod.UID {
		return true
	}
	delete(i.behind, name)
	return false
}

// worker is the static pod of that name which the node has, be it about to leave; nil if there is none.
func (i *Intake) worker(name types.NamespacedName) *corev1.Pod {
	for _, p := range i.cfg.Workers.Pods() {
		if staticpod.Is(p) && p.Name == name.Name && p.Namespace == name.Namespace {
			return p
		}
	}
	return nil
}

// Left is told of each pod that has left the node. What waited for that, be it for its room or its name, or has come back
// meanwhile, is taken.
func (i *Intake) Left(pod *corev1.Pod) {
	i.Retry(podsRemoved)
	if !staticpod.Is(pod) {
		return
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	i.mu.Lock()
	next := i.behind[name]
	delete(i.behind, name)
	i.left[pod.UID] = true
	i.mu.Unlock()
	if next != "" {
		i.look(next)
	}
	i.look(pod.UID)
	i.show(pod)
}

// Static is the static pod of that name, nil if there is none; complete says that all are known.
func (i *Intake) Static(name types.NamespacedName) (pod *corev1.Pod, complete bool) {
	select {
	case <-i.begun:
		complete = true
	default:
	}
	if p := i.worker(name); p != nil {
		return p, complete
	}
	for _, p := range i.statics() {
		if p.Name == name.Name && p.Namespace == name.Namespace {
			return p, complete
		}
	}
	return nil, complete
}

// Names are those of all static pods.
func (i *Intake) Names() []types.NamespacedName {
	var out []types.NamespacedName
	for _, p := range slices.Concat(i.cfg.Workers.Pods(), i.statics()) {
		if staticpod.Is(p) {
			out = append(out, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
	}
	return out
}

// statics are the pods of all sources but the API.
func (i *Intake) statics() []*corev1.Pod {
	var out []*corev1.Pod
	for _, s := range i.cfg.Sources {
		if s.Name() != staticpod.API {
			out = append(out, s.Pods()...)
		}
	}
	return out
}
