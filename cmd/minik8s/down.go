// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"minik8s.io/minik8s/pkg/cluster"
	"minik8s.io/minik8s/pkg/cluster/lifecycle"
)

func newDownCommand() *cobra.Command {
	var name string
	var opts cluster.DownOptions
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster; its data stays unless --purge is given",
		Long: `Stop a cluster and its pods, and remove their containers and network from this machine.
What the API stores stays, and so do volumes: "up" continues where "down" stopped.
With --purge nothing is left.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			begin := time.Now()
			opts.Waiting = waiting(cmd)
			before, now, err := cluster.Down(cmd.Context(), name, opts)
			if err != nil {
				return err
			}
			w, took := cmd.OutOrStdout(), time.Since(begin).Seconds()
			switch {
			case before.State == lifecycle.Absent:
				_, err = fmt.Fprintf(w, "There is no cluster %q.\n", name)
			case now.State == lifecycle.Absent:
				_, err = fmt.Fprintf(w, "Cluster %q is gone after %.2fs.\n", name, took)
			default:
				_, err = fmt.Fprintf(w, "Cluster %q is stopped after %.2fs; its data is in %s.\n", name, took, now.Config.DataDir)
			}
			return err
		},
	}
	addName(cmd, &name)
	cmd.Flags().BoolVar(&opts.Purge, "purge", false, "remove everything: data, containers, network, kubeconfig entries")
	cmd.Flags().BoolVar(&opts.Abandon, "force", false, "go on if the Docker engine does not answer; its containers stay there")
	return cmd
}
