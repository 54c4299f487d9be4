// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/mirror"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/source"
)

// sources are where the pods of this node come from, as the settings say.
func (k *Kubelet) sources() ([]source.Source, error) {
	api, err := source.NewAPI(k.api.pods, k.cfg.NodeName, k.api.nodes.HasSynced, k.api.services.HasSynced)
	if err != nil {
		return nil, err
	}
	all := []source.Source{api}
	s := k.cfg.Configuration
	if s.StaticPodPath != "" {
		all = append(all, source.NewFile(source.FileConfig{
			Path: s.StaticPodPath, Node: k.cfg.NodeName, Period: s.FileCheckFrequency.Duration, Clock: k.cfg.Clock,
		}))
	}
	if s.StaticPodURL != "" {
		all = append(all, source.NewHTTP(source.HTTPConfig{
			URL: s.StaticPodURL, Header: s.StaticPodURLHeader, Node: k.cfg.NodeName, Period: s.HTTPCheckFrequency.Duration, Clock: k.cfg.Clock,
		}))
	}
	return all, nil
}

func (k *Kubelet) newMirrors() *mirror.Manager {
	return mirror.New(mirror.Config{
		Client: k.cfg.Client, Pods: k.api.pods, Static: statics(k.intake), Node: k.api.Current, Clock: k.cfg.Clock,
		Status: func(uid types.UID) *corev1.PodStatus {
			if st, known := k.status.Get(uid); known {
				return &st
			}
			return nil
		},
		Seen: func(pod *corev1.Pod) { k.status.Seen(pod) },
	})
}

// statics are the static pods of an intake, which is nil, and has none, before pods are taken.
type statics func() *source.Intake

func (s statics) Static(name types.NamespacedName) (pod *corev1.Pod, complete bool) {
	if i := s(); i != nil {
		return i.Static(name)
	}
	return nil, false
}

func (s statics) Names() []types.NamespacedName {
	if i := s(); i != nil {
		return i.Names()
	}
	return nil
}

// telling tells of pods that came or changed.
type telling struct {
	*podworker.Workers
	changed func(types.UID)
}

func (t telling) Update(pod *corev1.Pod) {
	t.Workers.Update(pod)
	t.changed(pod.UID)
}

// farewell tells who waits for a pod to leave that it has.
type farewell struct {
	podworker.Life
	left func(*corev1.Pod) // set before the first pod is there
}

func (f *farewell) Forget(pod *corev1.Pod) {
	f.Life.Forget(pod)
	f.left(pod)
}
