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
	"minik8s.io/minik8s/pkg/scheduler/framework"
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
	profile := set.String("profile", "", "files to write profiles to, at the end: of the CPU, and of the heap, their names without .cpu.pprof and .heap.pprof")
	if err := set.Parse(os.Args[2:]); err != nil {
		return err
	}
	if *profile != "" {
		end, err := startProfiles(*profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
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
		PodGroups: *groups, Registry: framework.Registry{unbindName: newUnbind},
	})
	if err != nil {
		return err
	}
	go heap.Manage(ctx, 0)
	shared.Start(ctx.Done())
	return s.Start(ctx)
}

// startProfiles begins what the function that it returns ends and writes.
func startProfiles(name string) (end func() error, err error) {
	cpu, err := os.Create(name + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(name + ".heap.pprof")
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.WriteHeapProfile(heap), heap.Close(), cpu.Close())
	}, nil
}

// configuration is that of a case.
func (c *testCase) configuration() (*configv1.KubeSchedulerConfiguration, error) {
	settings := &configv1.KubeSchedulerConfiguration{}
	if c.SchedulerConfigPath == "" {
		return settings, nil
	}
	data, err := os.ReadFile(filepath.Join(c.folder, c.SchedulerConfigPath))
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(data, settings); err != nil {
		return nil, fmt.Errorf("%s: %w", c.SchedulerConfigPath, err)
	}
	return settings, nil
}

// configure writes a configuration for a scheduler of which there is one, without a limit on its requests.
func configure(to, kubeconfig string, settings *configv1.KubeSchedulerConfiguration) error {
	settings = settings.DeepCopy()
	settings.TypeMeta = metav1.TypeMeta{Kind: "KubeSchedulerConfiguration", APIVersion: configv1.SchemeGroupVersion.String()}
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

// launch says which scheduler is started, and how.
type launch struct {
	side     figure.Side
	upstream string // path of upstream's program
	settings *configv1.KubeSchedulerConfiguration
	gates    string
	name     string // of its profile
}

// startScheduler starts upstream's scheduler, or ours. Both are system:kube-scheduler.
func (b *bench) startScheduler(l launch, s *program.Server) (*program.Program, error) {
	kubeconfig := filepath.Join(s.Dir, "scheduler.kubeconfig")
	if err := b.identity.Kubeconfig(kubeconfig, s.URL, "system:kube-scheduler"); err != nil {
		return nil, err
	}
	config := filepath.Join(s.Dir, "scheduler.yaml")
	if err := configure(config, kubeconfig, l.settings); err != nil {
		return nil, err
	}
	if l.side == figure.Upstream {
		ports, err := program.FreePorts(1)
		if err != nil {
			return nil, err
		}
		flags := []string{
			"--config=" + config, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir=" + s.Dir,
		}
		if l.gates != "" {
			flags = append(flags, "--feature-gates="+l.gates)
		}
		return program.Start(s.Dir, l.upstream, "kube-scheduler", flags...)
	}
	flags := []string{schedulerCommand, "--config=" + config, fmt.Sprintf("--pod-groups=%t", strings.Contains(l.gates, podGroups))}
	ours := b.plain
	if l.side == figure.Ours {
		var err error
		if ours, err = os.Executable(); err != nil {
			return nil, err
		}
		if b.profiles != "" {
			flags = append(flags, "--profile="+filepath.Join(b.profiles, l.name))
		}
	}
	return program.Start(s.Dir, ours, "scheduler", flags...)
}
