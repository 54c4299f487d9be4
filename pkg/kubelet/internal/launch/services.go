// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// errNoServices is why a container has no environment yet, in upstream's words.
var errNoServices = errors.New("services have not yet been read at least once, cannot construct envvars")

// services are those that the containers of a pod find in their environment, where they stay for as long as the container runs. Those that
// the pod's last container found are kept, for a kubelet that starts while the API server is away and restarts what crashes.
func (b *Builder) services(ctx context.Context, pod *corev1.Pod) ([]*corev1.Service, error) {
	list, known := b.cfg.Services(pod.Namespace)
	if known {
		if err := b.keep(pod, list); err != nil {
			klog.FromContext(ctx).Error(err, "Containers that restart while the API server is away would not find services")
		}
		return list, nil
	}
	var kept []*corev1.Service
	data, err := os.ReadFile(b.servicesFile(pod))
	if err == nil && json.Unmarshal(data, &kept) == nil {
		return kept, nil
	}
	if staticpod.Is(pod) {
		return list, nil // they run without an API server
	}
	return nil, errNoServices
}

func (b *Builder) servicesFile(pod *corev1.Pod) string {
	return filepath.Join(b.PodDir(pod), "services")
}

// keep writes down what of services the environment is made of.
func (b *Builder) keep(pod *corev1.Pod, list []*corev1.Service) error {
	kept := make([]corev1.Service, 0, len(list))
	for _, s := range list {
		kept = append(kept, corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
			Spec:       corev1.ServiceSpec{ClusterIP: s.Spec.ClusterIP, Ports: s.Spec.Ports},
		})
	}
	slices.SortFunc(kept, func(x, y corev1.Service) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	data, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encoding services: %w", err)
	}
	if err := os.MkdirAll(b.PodDir(pod), 0o750); err != nil {
		return fmt.Errorf("making pod directory: %w", err)
	}
	return overwrite(b.servicesFile(pod), string(data))
}
