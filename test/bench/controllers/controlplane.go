// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// controlPlane is etcd, an API server and a manager that run.
type controlPlane struct {
	*program.Server
	client  kubernetes.Interface
	manager *program.Program
}

// start runs etcd, with its data synced to the disk, the API server and a manager, and returns when that one works. The name is
// that of the case.
func (b *bench) start(ctx context.Context, side figure.Side, name string) (_ *controlPlane, err error) {
	setup := program.Setup{
		Identity: b.identity, Dir: filepath.Join(b.dir, side.String()), Minik8s: b.minik8s, APIServer: b.apiserver,
		Flags: []string{"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"},
	}
	k := &controlPlane{}
	if k.Server, err = setup.Start(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.stop())
		}
	}()
	if k.client, err = kubernetes.NewForConfig(k.Config()); err != nil {
		return nil, err
	}
	if k.manager, err = b.startManager(side, name, k.Server); err != nil {
		return nil, err
	}
	return k, k.manager.Await(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		_, err := k.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// startManager starts upstream's manager, without a limit on its requests as ours has none, or ours.
func (b *bench) startManager(side figure.Side, name string, s *program.Server) (*program.Program, error) {
	flags := []string{"--kubeconfig=" + s.Kubeconfig, "--root-ca-file=" + b.identity.File("ca.crt")}
	if side == figure.Ours {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		if b.profiles != "" {
			flags = append(flags, "--profile="+filepath.Join(b.profiles, name))
		}
		return program.Start(s.Dir, self, "controllers", append([]string{managerCommand}, flags...)...)
	}
	ports, err := program.FreePorts(1)
	if err != nil {
		return nil, err
	}
	return program.Start(s.Dir, b.upstream, "kube-controller-manager", append(flags,
		"--service-account-private-key-file="+b.identity.File("sa.key"), "--use-service-account-credentials=true", "--leader-elect=false",
		"--kube-api-qps=100000", "--kube-api-burst=100000", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir="+s.Dir)...)
}

// stop ends the programs and removes their data.
func (k *controlPlane) stop() error {
	k.manager.Stop()
	k.Stop()
	return os.RemoveAll(k.Dir)
}
