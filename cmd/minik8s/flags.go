// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"minik8s.io/minik8s/pkg/cluster"
	"minik8s.io/minik8s/pkg/scheduler/policies"
)

// clusterFlags are the daily settings of a cluster; all others are in the --config file.
type clusterFlags struct {
	config      string
	name        string
	dataDir     string
	nodes       int
	apiPort     int
	ipFamily    string
	etcdServers []string
	policy      policies.Policy
	verbosity   int
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "file with a "+cluster.Kind+" of "+cluster.APIVersion+", for all that is not a daily flag")
	addName(cmd, &f.name)
	fs.StringVar(&f.dataDir, "data-dir", "", "where the cluster keeps its data (default "+cluster.BaseDir()+"/NAME)")
	fs.IntVar(&f.nodes, "nodes", 1, "nodes on this machine: 1 is the machine itself, each further one has a network of its own; 0 is a control plane without kubelet")
	fs.IntVar(&f.apiPort, "api-port", 0, "port of the API server (default 6443, or the next free one)")
	fs.StringVar(&f.ipFamily, "ip-family", string(cluster.IPv4), "which addresses pods, Services and nodes have: "+string(cluster.IPv4)+", "+string(cluster.IPv6)+" or "+string(cluster.Dual)+", which is both; stays as long as the cluster exists")
	fs.StringSliceVar(&f.etcdServers, "etcd-servers", nil, "URLs of an external etcd (default: embedded)")
	fs.TextVar(&f.policy, "scheduler-policy", policies.Default, "how nodes are chosen for pods that name no scheduler: RoundRobin, Random, LeastPod, LeastCpu or LeastMem, among the nodes that a pod fits on")
	_ = cmd.RegisterFlagCompletionFunc("scheduler-policy", cobra.FixedCompletions(policies.Names(), cobra.ShellCompDirectiveNoFileComp))
	fs.IntVarP(&f.verbosity, "v", "v", 0, "verbosity of the log")
}

func addName(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "name", cluster.DefaultName, "name of the cluster; several live side by side on one machine")
	_ = cmd.RegisterFlagCompletionFunc("name", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		all, err := cluster.List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, e := range all {
			names = append(names, e.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// request returns the name of the cluster that is meant, and what the file and then the flags that were given make of its
// configuration. What neither says stays as it was.
func (f *clusterFlags) request(cmd *cobra.Command) (name string, change cluster.Change, err error) {
	byFile := func(*cluster.Config) error { return nil }
	if f.config != "" {
		if name, byFile, err = cluster.ReadConfig(f.config); err != nil {
			return "", nil, err
		}
	}
	changed := cmd.Flags().Changed
	if changed("name") || name == "" {
		name = f.name
	}
	dir := ""
	if changed("data-dir") {
		if dir, err = filepath.Abs(f.dataDir); err != nil {
			return "", nil, err
		}
	}
	return name, func(c *cluster.Config) error {
		if err := byFile(c); err != nil {
			return err
		}
		c.Name = name
		if dir != "" {
			c.DataDir = dir
		}
		if changed("nodes") || c.Nodes == nil {
			c.Nodes = &f.nodes
		}
		if changed("api-port") {
			c.APIPort = f.apiPort
		}
		if changed("ip-family") {
			c.Networking.IPFamily = cluster.IPFamily(f.ipFamily)
		}
		if changed("etcd-servers") {
			c.Etcd.Servers = f.etcdServers
		}
		if changed("scheduler-policy") {
			c.Scheduler.Policy = f.policy
		}
		if changed("v") {
			c.Verbosity = f.verbosity
		}
		return nil
	}, nil
}

// waiting says what a command waits for.
func waiting(cmd *cobra.Command) func(holder string) {
	return func(holder string) { cmd.PrintErrf("Waiting for %s to end\n", holder) }
}

// output is the -o flag.
type output string

func (o *output) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", "", "output format: json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o output) validate() error {
	if o != "" && o != "json" {
		return fmt.Errorf("unknown output format %q: use json", string(o))
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
