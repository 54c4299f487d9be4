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

	rbacv1 "k8s.io/api/rbac/v1"
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
	// What happens in the cluster is done by a ServiceAccount, for an administrator's requests skip the authorizer.
	accounts, err := k.Accounts(ctx, "clients", 1, rights...)
	if err != nil {
		return nil, err
	}
	if k.client, err = kubernetes.NewForConfig(accounts[0].Config()); err != nil {
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

// rights are what the cases need.
var rights = []rbacv1.PolicyRule{{Verbs: []string{"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"}, APIGroups: []string{
	"", "apps", "batch", "coordination.k8s.io", "policy", rbacv1.GroupName,
}, Resources: []string{rbacv1.ResourceAll}}}

// startManager starts upstream's manager, without a limit on its requests as ours has none, or ours. Both are
// system:kube-controller-manager; each controller has the rights of its own ServiceAccount, as in a cluster: upstream's by a
// token that the manager asks for, ours by a certificate.
func (b *bench) startManager(side figure.Side, name string, s *program.Server) (*program.Program, error) {
	kubeconfig := filepath.Join(s.Dir, "manager.kubeconfig")
	if err := b.identity.Kubeconfig(kubeconfig, s.URL, "system:kube-controller-manager"); err != nil {
		return nil, err
	}
	flags := []string{
		"--kubeconfig=" + kubeconfig, "--root-ca-file=" + b.identity.File("ca.crt"), "--service-account-private-key-file=" + b.identity.File("sa.key"),
		"--cluster-signing-cert-file=" + b.identity.File("ca.crt"), "--cluster-signing-key-file=" + b.identity.File("ca.key"),
	}
	if side != figure.Upstream {
		manager := b.plain
		if side == figure.Ours {
			var err error
			if manager, err = os.Executable(); err != nil {
				return nil, err
			}
			if b.profiles != "" {
				flags = append(flags, "--profile="+filepath.Join(b.profiles, name))
			}
		}
		return program.Start(s.Dir, manager, "controllers", append([]string{managerCommand}, flags...)...)
	}
	ports, err := program.FreePorts(1)
	if err != nil {
		return nil, err
	}
	return program.Start(s.Dir, b.upstream, "kube-controller-manager", append(flags,
		"--use-service-account-credentials=true", "--leader-elect=false",
		"--kube-api-qps=100000", "--kube-api-burst=100000", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir="+s.Dir)...)
}

// stop ends the programs and removes their data.
func (k *controlPlane) stop() error {
	k.manager.Stop()
	k.Stop()
	return os.RemoveAll(k.Dir)
}
