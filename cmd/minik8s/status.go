// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"minik8s.io/minik8s/pkg/cluster"
	"minik8s.io/minik8s/pkg/cluster/lifecycle"
)

// statusResult is what -o json prints.
type statusResult struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
	Ready   bool   `json:"ready"`
	// State is that of list.
	State string `json:"state"`
	// Problem says why a running cluster is not ready.
	Problem string `json:"problem,omitempty"`
	// StoreProblem says that it is the store: it is full, say.
	StoreProblem bool   `json:"storeProblem,omitempty"`
	Pid          int    `json:"pid,omitempty"`
	Server       string `json:"server,omitempty"`
	Kubeconfig   string `json:"kubeconfig,omitempty"`
	DataDir      string `json:"dataDir"`
	Nodes        int    `json:"nodes"`
	// IPFamilies are those of pods, Services and nodes, the primary first.
	IPFamilies []string `json:"ipFamilies"`

	agent bool
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
			e, err := cluster.Find(name)
			if err != nil {
				return notThere(err, name)
			}
			r, err := status(cmd.Context(), e)
			if err != nil {
				return err
			}
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

// notThere adds to the error about a cluster that nobody has made how to make it.
func notThere(err error, name string) error {
	if p := (*cluster.Problem)(nil); !errors.Is(err, cluster.ErrUnknown) || errors.As(err, &p) {
		return err
	}
	return fmt.Errorf("%w: make it with: minik8s up --name %s", err, name)
}

func status(ctx context.Context, e cluster.Entry) (statusResult, error) {
	c := e.Config
	r := statusResult{Name: e.Name, DataDir: c.DataDir, Nodes: c.NodeCount(), IPFamilies: c.Networking.Families(), agent: e.Agent}
	if !e.Agent {
		r.Server, r.Kubeconfig = cluster.Server(c), cluster.KubeconfigPath(c)
	}
	var err error
	r.Pid, err = cluster.Pid(e.Name)
	r.Running = r.Pid != 0
	r.State = describe(e, r.Running)
	if err != nil || !r.Running {
		return r, err
	}
	if e.Agent {
		r.Problem = "ask its cluster: kubectl get node " + c.Kubelet.NodeName
		return r, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Second, fmt.Errorf("asked for 2s"))
	defer cancel()
	if err = cluster.Check(ctx, c); err != nil {
		r.Problem, r.StoreProblem = err.Error(), errors.Is(err, cluster.ErrStore)
	}
	r.Ready = err == nil
	return r, nil
}

// describe is a state in the words of a user.
func describe(e cluster.Entry, alive bool) string {
	s := describeState(e.State, alive)
	if e.Agent {
		s += ", a node of a cluster on another machine"
	}
	return s
}

func describeState(s lifecycle.State, alive bool) string {
	switch {
	case alive && s == lifecycle.Running:
		return "running"
	case alive:
		return "starting"
	case s == lifecycle.Beginning || s == lifecycle.Starting:
		return "stopped (a start was cut off)"
	case s == lifecycle.Purging:
		return "stopped (a purge was cut off)"
	case s == lifecycle.Running:
		return "stopped (not by down)"
	}
	return "stopped"
}

func printStatus(cmd *cobra.Command, r statusResult) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	state := r.State
	switch {
	case r.Ready:
		state = "Ready"
	case r.agent:
		state += ": " + r.Problem
	case r.Running:
		state = "running, not Ready: " + r.Problem
	}
	fmt.Fprintf(w, "cluster\t%s\nstate\t%s\n", r.Name, state)
	if !r.agent {
		fmt.Fprintf(w, "server\t%s\nkubeconfig\t%s\n", r.Server, r.Kubeconfig)
	}
	fmt.Fprintf(w, "data\t%s\nnodes\t%d\n", r.DataDir, r.Nodes)
	if len(r.IPFamilies) > 1 || r.IPFamilies[0] != "IPv4" {
		fmt.Fprintf(w, "addresses\t%s\n", strings.Join(r.IPFamilies, " and "))
	}
	if r.Running {
		fmt.Fprintf(w, "pid\t%d\n", r.Pid)
	}
	return w.Flush()
}
