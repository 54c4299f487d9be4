// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/cluster"
)

// agentFlags say how the machine becomes a node.
type agentFlags struct {
	kubeconfig string
	settings   string
	join       cluster.TokenJoin
	config     cluster.Config
}

func newAgentCommand() *cobra.Command {
	var a agentFlags
	c := &a.config
	port := 0
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run only a node, of a cluster on another machine, in the foreground",
		Long: `Run a node of a cluster whose control plane is on another machine, until SIGTERM. Pods go
on running when it ends; "minik8s down --name NAME" stops them.

The machines must reach one another; beyond a router, pods do by VXLAN (UDP, port 8472).
Where the cluster runs, "minik8s token create" prints the command by which a machine joins,
within a day. The node gets certificates of its own, keeps them in its data directory, and
renews them: started again it needs no token.
"minik8s node remove worker" makes all of them worthless, as "kubectl delete node" does; with a
new token the machine may join again.

What a machine wants of its own node, such as the kubelet's settings, is in a file for --config.

Instead of a token, the kubeconfig of a certain node can be made there, and copied to it:

  minik8s kubeconfig --node worker --node-ip 192.168.1.7 > worker.kubeconfig`,
		Example: `  minik8s agent --join https://192.168.1.5:6443 --token abcdef.0123456789abcdef --ca-cert-hash sha256:...
  minik8s agent                       # again, on a machine that has joined
  minik8s agent --config node.yaml    # with other settings of the kubelet or the proxy
  minik8s agent --kubeconfig worker.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			changed := cmd.Flags().Changed
			settings, err := a.read(changed("name"))
			if err != nil {
				return err
			}
			m, err := a.membership(cmd.Context())
			if err != nil {
				return err
			}
			m.Settings = settings
			m.Config.Name, m.Config.DataDir, m.Config.Verbosity = c.Name, c.DataDir, c.Verbosity
			m.Config.Kubelet.DockerHost = c.Kubelet.DockerHost
			if changed("kubelet-port") {
				m.Config.Kubelet.Port = port
			}
			stop, err := startLog(m.Config, false)
			if err != nil {
				return err
			}
			defer stop()
			return cluster.RunAgent(cmd.Context(), m, waiting(cmd), func(c cluster.Config) {
				logSettings(c)
				klog.InfoS("Running a node", "node", c.Kubelet.NodeName)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&a.join.Server, "join", "", "URL of the API server of the cluster to join")
	fs.StringVar(&a.join.Token, "token", "", "token to join it with, from: minik8s token create")
	fs.StringSliceVar(&a.join.CACertHashes, "ca-cert-hash", nil, "hash of its CA, sha256:HEX, from there too")
	fs.StringVar(&a.join.NodeName, "node-name", "", "name of the node (default the machine's)")
	fs.StringVar(&a.join.NodeIP, "node-ip", "", "address of the node, of a cluster of both IP families one of each with a comma between them (default the one by which it reaches the API server)")
	fs.DurationVar(&a.join.Timeout, "timeout", 2*time.Minute, "how long finding out about the cluster, and joining it, may take")
	fs.StringVar(&a.kubeconfig, "kubeconfig", "", "the node's kubeconfig, from: minik8s kubeconfig --node NAME --node-ip ADDRESS")
	addName(cmd, &c.Name)
	fs.StringVar(&c.DataDir, "data-dir", "", "where the node keeps its data (default "+cluster.BaseDir()+"/NAME)")
	fs.StringVar(&a.settings, "config", "", "file with a "+cluster.Kind+" of "+cluster.APIVersion+", of which a node takes kubelet and proxy; what it said stays when the node is started again without")
	fs.IntVar(&port, "kubelet-port", 10250, "port of the kubelet API")
	fs.StringVar(&c.Kubelet.DockerHost, "docker-host", "", "endpoint of the Docker engine (default $DOCKER_HOST or the local one)")
	fs.IntVarP(&c.Verbosity, "v", "v", 0, "verbosity of the log")
	cmd.MarkFlagsMutuallyExclusive("join", "kubeconfig")
	cmd.MarkFlagsRequiredTogether("join", "token")
	return cmd
}

// read returns what the file with the machine's own settings says, nil if none is given.
func (a *agentFlags) read(named bool) (cluster.Change, error) {
	if a.settings == "" {
		return nil, nil
	}
	name, settings, err := cluster.ReadConfig(a.settings)
	if err == nil && name != "" && !named {
		a.config.Name = name
	}
	return settings, err
}

// membership is what the flags say, or else what the machine has from before.
func (a *agentFlags) membership(ctx context.Context) (*cluster.Membership, error) {
	switch {
	case a.kubeconfig != "":
		return cluster.ReadJoin(a.kubeconfig)
	case a.join.Server != "":
		return cluster.Discover(ctx, a.config.Name, a.config.DataDir, a.join)
	}
	m, err := cluster.Rejoin(a.config.Name, a.config.DataDir)
	if err == nil && m == nil {
		err = errors.New("this machine has not joined by a token yet: run what \"minik8s token create\" prints where the cluster runs, or give --kubeconfig")
	}
	return m, err
}
