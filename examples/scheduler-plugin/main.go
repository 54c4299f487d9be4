// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command scheduler-plugin is a scheduler with a plugin of one's own, which runs beside a cluster's and takes the pods that ask
// for it by spec.schedulerName. Touch it when the way changes in which such a program is put together.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/examples/scheduler-plugin/crew"
	"minik8s.io/minik8s/pkg/scheduler"
	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the cluster; without it the service account of a pod")
	file := flag.String("config", "examples/scheduler-plugin/scheduler.yaml", "a KubeSchedulerConfiguration")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, *kubeconfig, *file); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, kubeconfig, file string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	settings, err := configuration.Parse(data)
	if err != nil {
		return err
	}
	return run(ctx, config, settings)
}

// run schedules pods until ctx ends.
func run(ctx context.Context, config *rest.Config, settings *configv1.KubeSchedulerConfiguration) error {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, -1 // the server knows what it can take
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	informers := scheduler.NewInformers(client, nil)
	s, err := scheduler.New(scheduler.Config{
		Client: client, KubeConfig: config, Informers: informers, Configuration: settings, Identity: name,
		Registry: framework.Registry{crew.Name: crew.New},
	})
	if err != nil {
		return err
	}
	informers.Start(ctx.Done())
	defer informers.Shutdown()
	return s.Start(ctx)
}
