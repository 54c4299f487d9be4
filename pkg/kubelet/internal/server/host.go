// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Host is the kubelet as its HTTP API sees it. The server does everything that HTTP is about (who may ask, which
// container is meant, status codes, streams); Host only looks up and acts. All methods are called concurrently.
type Host interface {
	// Pods returns the pods of this node (static ones included) with the status that the kubelet last computed, which
	// may be newer than the API server's. The objects are not changed by the server.
	Pods() []*corev1.Pod
	// TranslateUID returns the uid of the static pod of which uid is the mirror pod's, any other as it is.
	TranslateUID(uid types.UID) types.UID
	// RunningPods returns what the container engine runs, as pods that carry only name, namespace, uid and containers.
	RunningPods(ctx context.Context) ([]*corev1.Pod, error)

	// RunningContainer returns the id of the running container (regular, init or ephemeral) with that name; the error
	// wraps container.ErrNotFound if none runs.
	RunningContainer(ctx context.Context, pod types.UID, name string) (id string, err error)
	// Logs is Runtime.Logs; id comes from a container status (without its "docker://" prefix).
	Logs(ctx context.Context, id string, o container.LogOptions, stdout, stderr io.Writer) error
	// Exec is Runtime.Exec.
	Exec(ctx context.Context, id string, o container.ExecOptions) (exitCode int, err error)
	// Attach is Runtime.Attach.
	Attach(ctx context.Context, id string, o container.AttachOptions) error
	// PortForward copies between stream and port on the loopback of the pod's network; it fails if the pod does not run.
	PortForward(ctx context.Context, pod types.UID, port int32, stream io.ReadWriteCloser) error

	// Stats returns the usage of the node and its pods; with onlyCPUAndMemory the file systems and network are left out.
	Stats(ctx context.Context, onlyCPUAndMemory bool) (*statsv1alpha1.Summary, error)
	// Configz returns the configuration in use, a struct that marshals to JSON (as KubeletConfiguration does).
	Configz() any
	// Healthy returns why the kubelet does not do its work, nil if it does.
	Healthy() error
}
