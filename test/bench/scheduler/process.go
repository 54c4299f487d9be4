// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/pkg/heap"
	"minik8s.io/minik8s/pkg/scheduler"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// schedulerCommand is the argument with which this program is our scheduler, a process of its own.
const schedulerCommand = "scheduler"

// schedule runs our scheduler, and nothing else, in this process, as minik8s up does.
func schedule(ctx context.Context) (err error) {
	set := flag.NewFlagSet(schedulerCommand, flag.ContinueOnError)
	kubeconfig := set.String("kubeconfig", "", "how to reach the API server")
	groups := set.Bool("pod-groups", false, "schedule pods by their PodGroups")
	profile := set.String("profile", "", "file to write a profile of the CPU to, at the end")
	if err := set.Parse(os.Args[2:]); err != nil {
		return err
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, f.Close())
		}()
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.DisableCompression = true
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+",application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	shared := scheduler.NewInformers(client, nil)
	s, err := scheduler.New(scheduler.Config{
		Client: client, KubeConfig: config, Informers: shared, Configuration: configuration(), Registerer: prometheus.NewRegistry(),
		PodGroups: *groups,
	})
	if err != nil {
		return err
	}
	go heap.Manage(ctx, 0)
	shared.Start(ctx.Done())
	return s.Start(ctx)
}

// configuration is the default one but that there is one scheduler, which need not be elected.
func configuration() *configv1.KubeSchedulerConfiguration {
	c := &configv1.KubeSchedulerConfiguration{}
	c.LeaderElection.LeaderElect = new(false)
	return c
}

// startScheduler starts upstream's scheduler, without a limit on its requests as ours has none, or ours. Both are
// system:kube-scheduler.
func (b *bench) startScheduler(side figure.Side, name, gates string, s *program.Server) (*program.Program, error) {
	kubeconfig := filepath.Join(s.Dir, "scheduler.kubeconfig")
	if err := b.identity.Kubeconfig(kubeconfig, s.URL, "system:kube-scheduler"); err != nil {
		return nil, err
	}
	if side == figure.Upstream {
		ports, err := program.FreePorts(1)
		if err != nil {
			return nil, err
		}
		flags := []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig, "--leader-elect=false",
			"--kube-api-qps=100000", "--kube-api-burst=100000", "--kube-api-content-type=" + runtime.ContentTypeProtobuf,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir=" + s.Dir,
		}
		if gates != "" {
			flags = append(flags, "--feature-gates="+gates)
		}
		return program.Start(s.Dir, b.upstream, "kube-scheduler", flags...)
	}
	flags := []string{schedulerCommand, "--kubeconfig=" + kubeconfig, fmt.Sprintf("--pod-groups=%t", strings.Contains(gates, podGroups))}
	ours := b.plain
	if side == figure.Ours {
		var err error
		if ours, err = os.Executable(); err != nil {
			return nil, err
		}
		if b.profiles != "" {
			flags = append(flags, "--profile="+filepath.Join(b.profiles, name+".cpu.pprof"))
		}
	}
	return program.Start(s.Dir, ours, "scheduler", flags...)
}
