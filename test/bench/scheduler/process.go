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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/heap"
	"minik8s.io/minik8s/pkg/scheduler"
	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// schedulerCommand is the argument with which this program is our scheduler, a process of its own.
const schedulerCommand = "scheduler"

// schedule runs our scheduler, and nothing else, in this process, as minik8s up does.
func schedule(ctx context.Context) (err error) {
	set := flag.NewFlagSet(schedulerCommand, flag.ContinueOnError)
	config := set.String("config", "", "file with a KubeSchedulerConfiguration")
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
	data, err := os.ReadFile(*config)
	if err != nil {
		return err
	}
	settings, err := configuration.Parse(data)
	if err != nil {
		return err
	}
	connection, err := clientcmd.BuildConfigFromFlags("", settings.ClientConnection.Kubeconfig)
	if err != nil {
		return err
	}
	connection.QPS = settings.ClientConnection.QPS
	connection.DisableCompression = true
	connection.ContentType, connection.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+",application/json"
	settings.ClientConnection = componentbaseconfigv1alpha1.ClientConnectionConfiguration{} // ours is given the connection
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return err
	}
	shared := scheduler.NewInformers(client, nil)
	s, err := scheduler.New(scheduler.Config{
		Client: client, KubeConfig: connection, Informers: shared, Configuration: settings, Registerer: prometheus.NewRegistry(),
		PodGroups: *groups,
	})
	if err != nil {
		return err
	}
	go heap.Manage(ctx, 0)
	shared.Start(ctx.Done())
	return s.Start(ctx)
}

// configure writes the configuration of a case for a scheduler, of which there is one, without a limit on its requests.
func configure(to, kubeconfig string, c *testCase) error {
	settings := &configv1.KubeSchedulerConfiguration{TypeMeta: metav1.TypeMeta{Kind: "KubeSchedulerConfiguration", APIVersion: configv1.SchemeGroupVersion.String()}}
	if c.SchedulerConfigPath != "" {
		data, err := os.ReadFile(filepath.Join(c.folder, c.SchedulerConfigPath))
		if err != nil {
			return err
		}
		if err := yaml.UnmarshalStrict(data, settings); err != nil {
			return fmt.Errorf("%s: %w", c.SchedulerConfigPath, err)
		}
	}
	settings.ClientConnection = componentbaseconfigv1alpha1.ClientConnectionConfiguration{
		Kubeconfig: kubeconfig, ContentType: runtime.ContentTypeProtobuf, QPS: -1,
	}
	settings.LeaderElection.LeaderElect = new(false)
	data, err := yaml.Marshal(settings)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// startScheduler starts upstream's scheduler for a case, or ours. Both are system:kube-scheduler.
func (b *bench) startScheduler(side figure.Side, c *testCase, name, gates string, s *program.Server) (*program.Program, error) {
	kubeconfig := filepath.Join(s.Dir, "scheduler.kubeconfig")
	if err := b.identity.Kubeconfig(kubeconfig, s.URL, "system:kube-scheduler"); err != nil {
		return nil, err
	}
	config := filepath.Join(s.Dir, "scheduler.yaml")
	if err := configure(config, kubeconfig, c); err != nil {
		return nil, err
	}
	if side == figure.Upstream {
		ports, err := program.FreePorts(1)
		if err != nil {
			return nil, err
		}
		flags := []string{
			"--config=" + config, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir=" + s.Dir,
		}
		if gates != "" {
			flags = append(flags, "--feature-gates="+gates)
		}
		return program.Start(s.Dir, b.upstream, "kube-scheduler", flags...)
	}
	flags := []string{schedulerCommand, "--config=" + config, fmt.Sprintf("--pod-groups=%t", strings.Contains(gates, podGroups))}
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
