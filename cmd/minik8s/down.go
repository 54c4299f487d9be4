// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"minik8s.io/minik8s/pkg/cluster"
)

func newDownCommand() *cobra.Command {
	var name string
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster; its data stays unless --purge is given",
		Long: `Stop a cluster and its pods, and remove their containers and network from this machine.
What the API stores stays, and so do volumes: "up" continues where "down" stopped.
With --purge nothing is left.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			begin := time.Now()
			c, err := cluster.Load(name)
			if errors.Is(err, cluster.ErrUnknown) {
				fmt.Fprintf(cmd.OutOrStdout(), "There is no cluster %q.\n", name)
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := cluster.Stop(cmd.Context(), name, 20*time.Second); err != nil {
				return err
			}
			if !purge {
				if err := cluster.Clear(cmd.Context(), c); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Cluster %q is stopped after %.2fs; its data is in %s.\n", name, time.Since(begin).Seconds(), c.DataDir)
				return nil
			}
			if err := cluster.Purge(cmd.Context(), c); err != nil {
				return err
			}
			if _, err := cluster.Unmerge(name); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Cluster %q is gone after %.2fs.\n", name, time.Since(begin).Seconds())
			return nil
		},
	}
	addName(cmd, &name)
	cmd.Flags().BoolVar(&purge, "purge", false, "remove everything: data, containers, network, kubeconfig entries")
	return cmd
}
