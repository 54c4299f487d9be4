// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/provisioner"
)

// volumesDir holds the volumes of the default storage class.
func volumesDir(c Config) string { return filepath.Join(c.DataDir, "volumes") }

// buildKeeper makes what keeps the directories of the node's volumes of the default storage class.
func buildKeeper(c Config, kubelet *rest.Config) (func(context.Context) error, error) {
	client, err := clientOf(kubelet, provisioner.Name)
	if err != nil {
		return nil, err
	}
	k, err := provisioner.NewKeeper(provisioner.KeeperConfig{NodeName: c.Kubelet.NodeName, Dir: volumesDir(c), Client: client})
	if err != nil {
		return nil, fmt.Errorf("building the keeper of volumes: %w", err)
	}
	return k.Start, nil
}

// buildProvisioner makes what provides volumes of the default storage class, of all nodes.
func (r *runner) buildProvisioner() (func(context.Context) error, error) {
	client, err := r.client(provisioner.Name, provisioner.User)
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster()
	p, err := provisioner.New(provisioner.Config{
		Client: client, Recorder: broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: provisioner.Name}),
	})
	if err != nil {
		return nil, fmt.Errorf("building the provisioner of volumes: %w", err)
	}
	return func(ctx context.Context) error {
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
		defer broadcaster.Shutdown()
		return p.Start(ctx)
	}, nil
}

// buildStorageClass makes what publishes the default storage class.
func (r *runner) buildStorageClass() (func(context.Context) error, error) {
	admin, err := r.client("minik8s", "kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return publishStorageClass(ctx, admin) }, nil
}

// publishStorageClass makes the storage class of claims that ask for none.
func publishStorageClass(ctx context.Context, client kubernetes.Interface) error {
	return publish(ctx, client.StorageV1().StorageClasses(), provisioner.Class())
}
