// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/cluster"
)

func newAgentCommand() *cobra.Command {
	var kubeconfig, dockerHost string
	var c cluster.Config
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run only a node, of a cluster on another machine, in the foreground",
		Long: `Run a node of a cluster whose control plane is on another machine, until SIGTERM. Pods go
on running when it ends; "minik8s down --name NAME" stops them.

The machines must be in one network segment. Where the cluster runs, make the node's
kubeconfig, and copy it to the node:

  minik8s kubeconfig --node worker --node-ip 192.168.1.7 > worker.kubeconfig

The node has a day to join with it. It then gets certificates of its own, keeps them in its
data directory, and renews them. "kubectl delete node worker" makes all of them worthless;
with a new kubeconfig the machine may join again.`,
		Example: `  minik8s agent --kubeconfig worker.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kubeconfig == "" {
				return errors.New("--kubeconfig must name the file that \"minik8s kubeconfig --node\" printed")
			}
			m, err := cluster.ReadJoin(kubeconfig)
			if err != nil {
				return err
			}
			m.Config.Name, m.Config.DataDir, m.Config.Verbosity = c.Name, c.DataDir, c.Verbosity
			m.Config.Kubelet.Port, m.Config.Kubelet.DockerHost = c.Kubelet.Port, dockerHost
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
	fs.StringVar(&kubeconfig, "kubeconfig", "", "the node's kubeconfig, from: minik8s kubeconfig --node NAME --node-ip ADDRESS")
	addName(cmd, &c.Name)
	fs.StringVar(&c.DataDir, "data-dir", "", "where the node keeps its data (default "+cluster.BaseDir()+"/NAME)")
	fs.IntVar(&c.Kubelet.Port, "kubelet-port", 10250, "port of the kubelet API")
	fs.StringVar(&dockerHost, "docker-host", "", "endpoint of the Docker engine (default $DOCKER_HOST or the local one)")
	fs.IntVarP(&c.Verbosity, "v", "v", 0, "verbosity of the log")
	return cmd
}
