// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// plane is a control plane that runs.
type plane struct {
	programs []*program.Program
	config   *rest.Config // an administrator's
	stop     func(context.Context) error
}

// usage of all programs together.
func (p *plane) usage() (sum program.Usage, err error) {
	for _, one := range p.programs {
		u, err := one.Usage()
		if err != nil {
			return sum, err
		}
		sum.Memory, sum.Peak, sum.Processor = sum.Plus(u.Memory), sum.Peak+u.Peak, sum.Processor+u.Processor
	}
	return sum, nil
}

// clients have a connection each.
func (p *plane) clients(n int) ([]kubernetes.Interface, error) {
	all := make([]kubernetes.Interface, n)
	for i := range all {
		c := rest.CopyConfig(p.config)
		c.Dial = (&net.Dialer{}).DialContext // client-go shares connections among configurations that have none of their own
		var err error
		if all[i], err = kubernetes.NewForConfig(c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// start starts the control plane of a side, and returns when the default namespace has its ServiceAccount.
func (b *bench) start(ctx context.Context, side figure.Side) (*plane, error) {
	start := b.startOurs
	if side == figure.Upstream {
		start = b.startUpstream
	}
	p, err := start(ctx, side)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(p.config)
	if err == nil {
		err = p.programs[0].Await(ctx, 2*time.Millisecond, func(ctx context.Context) error {
			_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, p.stop(context.WithoutCancel(ctx)))
	}
	return p, nil
}

func fast(c *rest.Config) *rest.Config {
	c.QPS, c.WarningHandlerWithContext = -1, rest.NoWarnings{}
	c.ContentType, c.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf+",application/json"
	return c
}

// profiling is a configuration of ours that can be profiled.
const profiling = `apiVersion: minik8s.io/v1alpha1
kind: Cluster
apiServer:
  profiling: true
`

// startOurs runs a cluster without nodes.
func (b *bench) startOurs(ctx context.Context, side figure.Side) (*plane, error) {
	c := cluster.Cluster{Binary: b.ours, Name: "bench-plane", DataDir: filepath.Join(b.dir, "ours")}
	if side == figure.Plain {
		c.Binary = b.plain
	}
	flags := []string{"server", "--name", c.Name, "--data-dir", c.DataDir, "--nodes", "0"}
	if b.profiles != "" {
		config := filepath.Join(b.dir, "profiling.yaml")
		if err := os.WriteFile(config, []byte(profiling), 0o600); err != nil {
			return nil, err
		}
		flags = append(flags, "--config", config)
	}
	p, err := program.Start(b.dir, c.Binary, "minik8s", flags...)
	if err != nil {
		return nil, err
	}
	ours := &plane{programs: []*program.Program{p}, stop: func(ctx context.Context) error {
		p.Stop()
		return c.Down(ctx, "--purge")
	}}
	kubeconfig := filepath.Join(c.DataDir, "kubeconfig")
	err = p.Await(ctx, 2*time.Millisecond, func(context.Context) error { _, err := os.Stat(kubeconfig); return err })
	if err == nil {
		ours.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, errors.Join(err, ours.stop(context.WithoutCancel(ctx)))
	}
	fast(ours.config)
	return ours, nil
}

// startUpstream runs upstream's programs on our etcd, as kubeadm starts them but for the limits of their requests: ours have none.
func (b *bench) startUpstream(ctx context.Context, _ figure.Side) (_ *plane, err error) {
	setup := program.Setup{Identity: b.identity, Dir: filepath.Join(b.dir, "upstream"), Minik8s: b.ours, APIServer: filepath.Join(b.upstream, "kube-apiserver")}
	s, err := setup.Start(ctx)
	if err != nil {
		return nil, err
	}
	up := &plane{programs: []*program.Program{s.APIServer, s.Etcd}, config: fast(s.Config())}
	up.stop = func(context.Context) error {
		for _, p := range up.programs[2:] {
			p.Stop()
		}
		s.Stop()
		return os.RemoveAll(s.Dir)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, up.stop(ctx))
		}
	}()
	ports, err := program.FreePorts(2)
	if err != nil {
		return nil, err
	}
	for i, part := range []struct {
		name, user string
		flags      []string
	}{
		{"kube-controller-manager", "system:kube-controller-manager", []string{
			"--use-service-account-credentials=true", "--root-ca-file=" + b.identity.File("ca.crt"), "--service-account-private-key-file=" + b.identity.File("sa.key"),
			"--cluster-signing-cert-file=" + b.identity.File("ca.crt"), "--cluster-signing-key-file=" + b.identity.File("ca.key"),
		}},
		{"kube-scheduler", "system:kube-scheduler", []string{"--kube-api-content-type=" + apiruntime.ContentTypeProtobuf}},
	} {
		kubeconfig := filepath.Join(s.Dir, part.name+".kubeconfig")
		if err := b.identity.Kubeconfig(kubeconfig, s.URL, part.user); err != nil {
			return nil, err
		}
		p, err := program.Start(s.Dir, filepath.Join(b.upstream, part.name), part.name, append(part.flags,
			"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig, "--leader-elect=false",
			"--kube-api-qps=100000", "--kube-api-burst=100000", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[i]), "--cert-dir="+s.Dir)...)
		if err != nil {
			return nil, err
		}
		up.programs = append(up.programs, p)
	}
	return up, nil
}
