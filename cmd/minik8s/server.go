// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/cluster"
)

func newServerCommand() *cobra.Command {
	var flags clusterFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a cluster in the foreground, for systemd and containers",
		Long: `Run a cluster in the foreground until SIGTERM. Pods go on running when it ends, and are
taken over by the next start; "minik8s down" stops them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			send, background, done := cluster.Reporter()
			defer done()
			err := runServer(cmd, &flags, send, background, done)
			if err != nil {
				send(cluster.Event{Error: err.Error()}) // to nobody once the cluster has been Ready
			}
			return err
		},
	}
	flags.add(cmd)
	return cmd
}

func runServer(cmd *cobra.Command, flags *clusterFlags, send func(cluster.Event), background bool, done func()) (err error) {
	name, change, err := flags.request(cmd)
	if err != nil {
		return err
	}
	start, err := cluster.Begin(cmd.Context(), name, change, waiting(cmd))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, start.Close()) }()
	closeLog, err := startLog(start.Config, background)
	if err != nil {
		return err
	}
	defer closeLog()
	logSettings(start.Config)
	return start.Run(cmd.Context(), cluster.Options{
		Progress: func(step string) { send(cluster.Event{Step: step}) },
		Ready:    func() { send(cluster.Event{Ready: true}); done() },
	})
}

// logSettings writes the effective configuration, so that a log tells what ran.
func logSettings(c cluster.Config) {
	data, err := yaml.Marshal(c)
	if err != nil {
		klog.ErrorS(err, "Encoding the configuration")
		return
	}
	klog.InfoS("Running minik8s", "version", gitVersion(), "config", string(data))
}
