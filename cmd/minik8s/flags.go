// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"minik8s.io/minik8s/pkg/cluster"
)

// clusterFlags are the daily settings of a cluster; all others are in the --config file.
type clusterFlags struct {
	config      string
	name        string
	dataDir     string
	nodes       int
	apiPort     int
	etcdServers []string
	verbosity   int
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "file with a "+cluster.Kind+" of "+cluster.APIVersion+", for all that is not a daily flag")
	addName(cmd, &f.name)
	fs.StringVar(&f.dataDir, "data-dir", "", "where the cluster keeps its data (default "+cluster.BaseDir()+"/NAME)")
	fs.IntVar(&f.nodes, "nodes", 1, "nodes on this machine: 1, or 0 for a control plane without kubelet")
	fs.IntVar(&f.apiPort, "api-port", 0, "port of the API server (default 6443, or the next free one)")
	fs.StringSliceVar(&f.etcdServers, "etcd-servers", nil, "URLs of an external etcd (default: embedded)")
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
		for _, c := range all {
			names = append(names, c.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// settle returns the effective configuration: what the cluster had before, changed by the file, changed by flags that
// were given. known tells whether the cluster existed.
func (f *clusterFlags) settle(cmd *cobra.Command) (c cluster.Config, known bool, err error) {
	if f.config != "" {
		if c, err = cluster.ReadConfig(f.config); err != nil {
			return c, false, err
		}
	}
	if cmd.Flags().Changed("name") || c.Name == "" {
		c.Name = f.name
	}
	before, err := cluster.Load(c.Name)
	switch {
	case err == nil:
		known = true
		if f.config == "" {
			c = before
		} else { // what a restart must not change unless told to
			c = keep(c, before)
		}
	case !errors.Is(err, cluster.ErrUnknown):
		return c, false, err
	}
	if known && cmd.Flags().Changed("data-dir") && f.dataDir != before.DataDir {
		return c, known, fmt.Errorf("cluster %q keeps its data in %s: use another --name for another place", c.Name, before.DataDir)
	}
	changed := cmd.Flags().Changed
	if changed("data-dir") {
		c.DataDir = f.dataDir
	}
	if changed("nodes") || c.Nodes == nil {
		c.Nodes = &f.nodes
	}
	if changed("api-port") {
		c.APIPort = f.apiPort
	}
	if changed("etcd-servers") {
		c.Etcd.Servers = f.etcdServers
	}
	if changed("v") {
		c.Verbosity = f.verbosity
	}
	c, err = cluster.Settle(c)
	return c, known, err
}

// keep carries over what was settled when the cluster was made and what a new file leaves open.
func keep(c, before cluster.Config) cluster.Config {
	set := func(dst *string, src string) {
		if *dst == "" {
			*dst = src
		}
	}
	set(&c.DataDir, before.DataDir)
	set(&c.Networking.PodSubnet, before.Networking.PodSubnet)
	set(&c.Networking.ServiceSubnet, before.Networking.ServiceSubnet)
	set(&c.Networking.DNSDomain, before.Networking.DNSDomain)
	set(&c.Kubelet.NodeName, before.Kubelet.NodeName)
	if c.APIPort == 0 {
		c.APIPort = before.APIPort
	}
	if c.Kubelet.Port == 0 {
		c.Kubelet.Port = before.Kubelet.Port
	}
	return c
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
