// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"minik8s.io/minik8s/pkg/cluster"
)

// listed is what -o json prints of each cluster.
type listed struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
	State   string `json:"state"`
	Pid     int    `json:"pid,omitempty"`
	Server  string `json:"server,omitempty"`
	DataDir string `json:"dataDir,omitempty"`
	// Problem says why nothing is known of a cluster.
	Problem string `json:"problem,omitempty"`
}

func newListCommand() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your clusters on this machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			entries, err := cluster.List()
			if err != nil {
				return err
			}
			all := []listed{}
			for _, e := range entries {
				all = append(all, list(e))
			}
			if out == "json" {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSTATE\tSERVER\tDATA")
			for _, l := range all {
				if l.Problem != "" {
					l.State = l.Problem
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Name, l.State, l.Server, l.DataDir)
			}
			return w.Flush()
		},
	}
	out.add(cmd)
	return cmd
}

func list(e cluster.Entry) listed {
	if e.Err != nil {
		return listed{Name: e.Name, State: "unknown", Problem: e.Err.Error()}
	}
	l := listed{Name: e.Name, DataDir: e.Config.DataDir}
	if !e.Agent {
		l.Server = cluster.Server(e.Config)
	}
	var err error
	if l.Pid, err = cluster.Pid(e.Name); err != nil {
		l.Problem = err.Error()
	}
	l.Running = l.Pid != 0
	l.State = describe(e, l.Running)
	return l
}
