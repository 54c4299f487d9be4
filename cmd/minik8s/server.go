// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
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
			c, _, err := flags.settle(cmd)
			if err != nil {
				send(cluster.Event{Error: err.Error()})
				return err
			}
			closeLog, err := startLog(c, background)
			if err != nil {
				return err
			}
			defer closeLog()
			logSettings(c)
			ready := false
			err = cluster.Run(cmd.Context(), c, cluster.Options{
				Progress: func(step string) { send(cluster.Event{Step: step}) },
				Ready:    func() { ready = true; send(cluster.Event{Ready: true}); done() },
			})
			if err != nil && !ready {
				send(cluster.Event{Error: err.Error()})
			}
			return err
		},
	}
	flags.add(cmd)
	return cmd
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
