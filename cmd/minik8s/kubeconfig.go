// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"minik8s.io/minik8s/pkg/cluster"
)

func newKubeconfigCommand() *cobra.Command {
	var name string
	var merge, unmerge, path bool
	var node, nodeIP string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a cluster's kubeconfig, or merge it into yours",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if unmerge {
				file, err := cluster.Unmerge(name)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "Cluster %q is not in %s any more.\n", name, file)
				}
				return err
			}
			c, err := cluster.Load(name)
			if err != nil {
				return err
			}
			switch {
			case node != "":
				data, err := cluster.Join(cmd.Context(), c, node, nodeIP)
				if err == nil {
					_, err = cmd.OutOrStdout().Write(data)
				}
				return err
			case merge:
				file, err := cluster.Merge(c)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "Cluster %q is in %s and is the current context.\n", name, file)
				}
				return err
			case path:
				_, err = fmt.Fprintln(cmd.OutOrStdout(), cluster.KubeconfigPath(c))
				return err
			}
			data, err := os.ReadFile(cluster.KubeconfigPath(c))
			if err != nil {
				return fmt.Errorf("the cluster has not been up yet: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	addName(cmd, &name)
	fs := cmd.Flags()
	fs.BoolVar(&merge, "merge", false, "merge it into $KUBECONFIG or ~/.kube/config and make it the current context")
	fs.BoolVar(&unmerge, "unmerge", false, "remove it from there")
	fs.BoolVar(&path, "path", false, "print only the path of the cluster's own file")
	fs.StringVar(&node, "node", "", "print the kubeconfig of a node of this name instead, for minik8s agent on another machine")
	fs.StringVar(&nodeIP, "node-ip", "", "that node's address, of a cluster of both IP families one of each with a comma between them")
	cmd.MarkFlagsMutuallyExclusive("merge", "unmerge", "path", "node")
	cmd.MarkFlagsRequiredTogether("node", "node-ip")
	return cmd
}
