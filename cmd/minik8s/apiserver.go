// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/flags"
	"minik8s.io/minik8s/pkg/heap"
)

func newAPIServerCommand() *cobra.Command {
	f, loops := flags.New(), &controllerFlags{}
	cmd := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "The Kubernetes API server alone, against an external etcd",
		Long:  "The Kubernetes API server alone, against an external etcd, with the flags of upstream's.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			return runAPIServer(cmd.Context(), f, loops, cmd)
		},
	}
	sets := f.Sets()
	loops.add(sets.FlagSet("controllers"))
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	width, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, sets, width)
	return cmd
}

func runAPIServer(ctx context.Context, f *flags.Flags, loops *controllerFlags, cmd *cobra.Command) error {
	if err := loops.complete(cmd.Flags()); err != nil {
		return err
	}
	if err := f.StartLog(); err != nil {
		return err
	}
	defer klog.Flush()
	cliflag.PrintFlags(cmd.Flags())
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // the server's own clients need none
	c, err := f.Config(ctx)
	if err != nil {
		return err
	}
	c.Handlers = loops.handlers()
	server, err := apiserver.New(*c)
	if err != nil {
		return errors.NewAggregate([]error{err, c.CloseBackends()})
	}
	klog.InfoS("Running kube-apiserver", "version", gitVersion(), "address", c.Listener.Addr().String())
	go func() {
		if err := waitServing(ctx, server.Loopback()); err == nil && ctx.Err() == nil {
			heap.Manage(ctx, heap.ServerRoom())
		}
	}()
	certificate, _ := c.SecureServing.Cert.CurrentCertKeyContent()
	return errors.NewAggregate([]error{loops.serve(ctx, server, c, certificate), c.CloseBackends()})
}
