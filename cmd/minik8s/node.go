// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/cluster"
	"minik8s.io/minik8s/pkg/node"
)

type nodeCommand struct {
	name    string // of the cluster
	timeout time.Duration
	output  output

	cpus, memory string
	pods         int
	force        bool
}

func newNodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Add, remove, stop, start and list the nodes of a running cluster",
		Long: `Nodes on one machine have a network, a kubelet, a range of pod addresses and a name of their
own each. They share the kernel, its processes and clock, the disk, and the images of Docker:
what "docker build" has made is on all of them. The first node is the machine itself.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newNodeAddCommand(), newNodeRemoveCommand(), newNodeStopCommand(), newNodeStartCommand(), newNodeListCommand())
	return cmd
}

func (n *nodeCommand) add(cmd *cobra.Command, run func(*cobra.Command, []string) error) *cobra.Command {
	addName(cmd, &n.name)
	cmd.Flags().DurationVar(&n.timeout, "timeout", time.Minute, "how long to wait")
	n.output.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := n.output.validate(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), n.timeout, fmt.Errorf("--timeout %s is over", n.timeout))
		defer cancel()
		cmd.SetContext(ctx)
		return run(cmd, args)
	}
	return cmd
}

func newNodeAddCommand() *cobra.Command {
	n := &nodeCommand{}
	cmd := n.add(&cobra.Command{
		Use:   "add [NAME]",
		Short: "Add a node, and wait until it is Ready",
		Long: `Add a node to a running cluster. It is there again after the cluster was down. With --cpus and
--memory its pods get no more together, and the node reports that as its capacity; else it
reports all of the machine, as every other node does.`,
		Example: `  minik8s node add
  minik8s node add small --cpus 500m --memory 256Mi --pods 10`,
		Args: cobra.MaximumNArgs(1),
	}, n.runAdd)
	cmd.Flags().StringVar(&n.cpus, "cpus", "", "CPUs of the node, such as 1 or 500m (default all of the machine)")
	cmd.Flags().StringVar(&n.memory, "memory", "", "memory of the node, such as 512Mi (default all of the machine)")
	cmd.Flags().IntVar(&n.pods, "pods", 0, "how many pods the node takes (default 110)")
	return cmd
}

func (n *nodeCommand) runAdd(cmd *cobra.Command, args []string) error {
	want := node.Node{Size: node.Size{Pods: n.pods}}
	if len(args) > 0 {
		want.Name = args[0]
	}
	var err error
	for _, q := range []struct {
		flag, text string
		to         *resource.Quantity
	}{{"cpus", n.cpus, &want.Size.CPU}, {"memory", n.memory, &want.Size.Memory}} {
		if q.text == "" {
			continue
		}
		if *q.to, err = resource.ParseQuantity(q.text); err != nil {
			return fmt.Errorf("--%s %q: %w", q.flag, q.text, err)
		}
	}
	return n.order(cmd, "add", want, true)
}

// order has the process of the cluster do something, and waits for the node if it is to be Ready then.
func (n *nodeCommand) order(cmd *cobra.Command, what string, want node.Node, ready bool) error {
	c, err := cluster.Load(n.name)
	if err != nil {
		return notThere(err, n.name)
	}
	begin := time.Now()
	now, err := cluster.Order(cmd.Context(), c, what, want, n.force)
	if err == nil && ready {
		err = cluster.AwaitNode(cmd.Context(), c, now.Name, begin)
	}
	if err != nil {
		return err
	}
	if n.output == "json" {
		return writeJSON(cmd.OutOrStdout(), now)
	}
	done := map[string]string{"add": "is Ready", "start": "is Ready", "stop": "is stopped", "remove": "is removed"}[what]
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Node %q %s after %.2fs\n", now.Name, done, time.Since(begin).Seconds())
	return err
}

func newNodeRemoveCommand() *cobra.Command {
	n := &nodeCommand{}
	cmd := n.add(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a node, once it has no pods that somebody may miss",
		Long: `Remove a node. It is cordoned first: from then on it takes no new pods. If it has pods other
than those of DaemonSets, nothing more happens; let them go with "minik8s kubectl drain", or
use --force, which deletes them with their grace period, at most 40 seconds. Then its Node,
containers, network, data and local volumes are deleted.

A machine that has joined is thrown out: its certificates are worthless from then on, and
"minik8s down --purge" removes there what is left.`,
		Example: `  minik8s kubectl drain minik8s-3 --ignore-daemonsets && minik8s node remove minik8s-3`,
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		return n.order(cmd, "remove", node.Node{Name: args[0]}, false)
	})
	cmd.Flags().BoolVar(&n.force, "force", false, "delete the pods that are there")
	return cmd
}

func newNodeStopCommand() *cobra.Command {
	n := &nodeCommand{}
	return n.add(&cobra.Command{
		Use:   "stop NAME",
		Short: "Stop a node as if its machine had lost power",
		Long: `Stop a node as if its machine had lost power: its containers are killed, its kubelet is silent,
nobody reaches it. After 40 seconds the cluster takes it for lost, and replaces its pods
elsewhere five minutes later, unless they say otherwise. It stays stopped, also when the
cluster is started anew, until "minik8s node start".`,
		Args: cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		return n.order(cmd, "stop", node.Node{Name: args[0]}, false)
	})
}

func newNodeStartCommand() *cobra.Command {
	n := &nodeCommand{}
	return n.add(&cobra.Command{
		Use:   "start NAME",
		Short: "Start a node that was stopped, and wait until it is Ready",
		Args:  cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		return n.order(cmd, "start", node.Node{Name: args[0]}, true)
	})
}

func newNodeListCommand() *cobra.Command {
	n := &nodeCommand{}
	return n.add(&cobra.Command{
		Use:   "list",
		Short: "List the nodes of a cluster that are on this machine, whether it runs or not",
		Args:  cobra.NoArgs,
	}, func(cmd *cobra.Command, _ []string) error {
		c, err := cluster.Load(n.name)
		if err != nil {
			return notThere(err, n.name)
		}
		all, err := cluster.Nodes(c)
		if err != nil {
			return err
		}
		if n.output == "json" {
			return writeJSON(cmd.OutOrStdout(), all)
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tSTATE\tIP\tPODS\tSIZE")
		for _, node := range all {
			ip := "the machine's"
			if node.IP.IsValid() {
				ip = node.IP.String()
				if node.SecondIP.IsValid() {
					ip += "," + node.SecondIP.String()
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", node.Name, node.State, ip, node.PodCIDR, node.Size)
		}
		return w.Flush()
	})
}
