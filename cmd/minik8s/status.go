// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"minik8s.io/minik8s/pkg/cluster"
)

// statusResult is what -o json prints.
type statusResult struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
	Ready   bool   `json:"ready"`
	// Problem says why a running cluster is not ready.
	Problem    string `json:"problem,omitempty"`
	Pid        int    `json:"pid,omitempty"`
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	DataDir    string `json:"dataDir"`
	Nodes      int    `json:"nodes"`
}

func newStatusCommand() *cobra.Command {
	var name string
	var out output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell whether a cluster runs and is Ready (exit code 0), runs (1) or does not (3)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			c, err := cluster.Load(name)
			if err != nil {
				return fmt.Errorf("%w: make it with: minik8s up --name %s", err, name)
			}
			r := status(cmd.Context(), c)
			if out == "json" {
				err = writeJSON(cmd.OutOrStdout(), r)
			} else {
				err = printStatus(cmd, r)
			}
			switch {
			case err != nil:
				return err
			case !r.Running:
				return exitCode(3)
			case !r.Ready:
				return exitCode(1)
			}
			return nil
		},
	}
	addName(cmd, &name)
	out.add(cmd)
	return cmd
}

func status(ctx context.Context, c cluster.Config) statusResult {
	r := statusResult{
		Name: c.Name, Pid: cluster.Pid(c.Name), Server: cluster.Server(c), Kubeconfig: cluster.KubeconfigPath(c), DataDir: c.DataDir, Nodes: c.NodeCount(),
	}
	r.Running = r.Pid != 0
	if !r.Running {
		return r
	}
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err == nil {
		ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Second, fmt.Errorf("asked for 2s"))
		defer cancel()
		err = cluster.WaitReady(ctx, config, r.Nodes, func(string) {})
	}
	if err != nil {
		r.Problem = err.Error()
	}
	r.Ready = err == nil
	return r
}

func printStatus(cmd *cobra.Command, r statusResult) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	state := "stopped"
	if r.Ready {
		state = "Ready"
	} else if r.Running {
		state = "running, not Ready: " + r.Problem
	}
	fmt.Fprintf(w, "cluster\t%s\nstate\t%s\nserver\t%s\nkubeconfig\t%s\ndata\t%s\nnodes\t%d\n", r.Name, state, r.Server, r.Kubeconfig, r.DataDir, r.Nodes)
	if r.Running {
		fmt.Fprintf(w, "pid\t%d\n", r.Pid)
	}
	return w.Flush()
}
